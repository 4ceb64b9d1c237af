//! The state that the open routes of one directory of tables share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::Refusal;
use crate::current::Current;
use crate::net::limits::FOREIGN_QUESTIONS;
use crate::pages::Pages;
use crate::published::Published;
use crate::question_threads::{QuestionLimits, QuestionThreads, blocking};

/// The settings of a site.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// The directory with the finished tables, also those that come later.
    pub directory: PathBuf,
    /// The bytes of the open table to cache.
    pub cache_bytes: u64,
    /// The limits of questions.
    pub question_limits: QuestionLimits,
}

/// The routes that need no token, for one directory of tables, with their state. Clones share the state.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) published: Arc<Published>,
    pub(crate) current: Arc<Current>,
    pub(crate) question_threads: QuestionThreads,
    pub(crate) search_threads: QuestionThreads,
    pub(crate) pages: Arc<Pages>,
    /// The permits for questions of pages of other sites.
    pub(crate) foreign: Arc<Semaphore>,
    _follow: Arc<AbortOnDropHandle<()>>,
}

impl Site {
    /// Opens the largest tables of the directory, and later replaces them by larger ones when these are published.
    #[expect(clippy::disallowed_methods, reason = "ends with the last clone")]
    pub async fn open(options: SiteOptions) -> Site {
        let published = Arc::new(Published::new(options.directory));
        let current = Arc::new(Current::new(Arc::clone(&published), options.cache_bytes));
        current.look().await;
        let follow = tokio::spawn(Arc::clone(&current).follow());
        Site {
            published,
            current,
            question_threads: QuestionThreads::of_tables(options.question_limits),
            search_threads: QuestionThreads::of_games(options.question_limits),
            pages: Arc::new(Pages::new()),
            foreign: Arc::new(Semaphore::new(FOREIGN_QUESTIONS)),
            _follow: Arc::new(AbortOnDropHandle::new(follow)),
        }
    }

    /// Calls `work` on a thread that may block on the disk.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Published) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let published = Arc::clone(&self.published);
        blocking(move || work(&published)).await
    }
}
