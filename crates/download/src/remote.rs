//! A table that stays where it is. Only the indices and data frames of its shards that a question needs are fetched.
//!
//! The reader checks what comes against the manifest, as it does with files. Parts that are needed
//! together are asked for together.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chomp_table::TableError;
use chomp_table::reader::{AnyTable, FilePart, Files};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Reach;
use crate::error::DownloadError;
use crate::source::TableSource;

/// The requests that are under way at a time.
const REQUESTS: usize = 16;

/// Opens the [first](chomp_table::reader::TableName::first) table that is there.
///
/// The table's methods block the thread that calls them while bytes are fetched, by the runtime of
/// this call: they are for threads that may block.
///
/// # Errors
///
/// If the server cannot be reached or has no table, or if the table's manifest is not what was
/// published.
pub async fn open(reach: Reach) -> Result<AnyTable, DownloadError> {
    open_at(TableSource::find(&reach).await?).await
}

pub(crate) async fn open_at(source: TableSource) -> Result<AnyTable, DownloadError> {
    let named = source.table();
    let files = Box::new(RemoteFiles {
        source: Arc::new(source),
        runtime: Handle::current(),
        places: Arc::new(Semaphore::new(REQUESTS)),
    });
    let opened = tokio::task::spawn_blocking(move || AnyTable::from_files(files, named));
    let opened = opened.await;
    match opened.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) {
        Err(TableError::Io { file, source }) => Err(match source.downcast() {
            Ok(error) => error,
            Err(source) => TableError::Io { file, source }.into(),
        }),
        opened => Ok(opened?),
    }
}

/// The files in a folder on a server or in a bucket.
#[derive(Debug)]
struct RemoteFiles {
    source: Arc<TableSource>,
    runtime: Handle,
    places: Arc<Semaphore>,
}

impl Files for RemoteFiles {
    fn place(&self, name: &str) -> PathBuf {
        PathBuf::from(self.source.place(name))
    }

    fn whole(&self, name: &str, most: u64) -> Result<Vec<u8>, TableError> {
        let got = self.runtime.block_on(self.source.small(name, most));
        got.map_err(|error| self.failed(name, error))
    }

    fn parts(&self, parts: &[FilePart<'_>]) -> Result<Vec<Vec<u8>>, TableError> {
        self.runtime.block_on(async {
            let mut all = vec![Vec::new(); parts.len()];
            let mut tasks = JoinSet::new();
            for (at, part) in parts.iter().enumerate() {
                let source = Arc::clone(&self.source);
                let places = Arc::clone(&self.places);
                let (name, range, length) = (part.name.to_owned(), part.range.clone(), part.length);
                tasks.spawn(async move {
                    let place = places.acquire().await;
                    let part = source.part(&name, range, length).await;
                    drop(place);
                    (at, part)
                });
            }
            while let Some(done) = tasks.join_next().await {
                let (at, part) =
                    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                all[at] = part.map_err(|error| self.failed(parts[at].name, error))?;
            }
            Ok(all)
        })
    }
}

impl RemoteFiles {
    fn failed(&self, name: &str, error: DownloadError) -> TableError {
        let file = self.place(name);
        match error {
            DownloadError::Wrong { what, .. } => TableError::Damaged { file, what },
            error => TableError::Io {
                file,
                source: io::Error::other(error),
            },
        }
    }
}
