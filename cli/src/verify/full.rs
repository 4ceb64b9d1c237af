//! The level `full`: all windows of a table, by several threads. After each window the progress is
//! written to a file beside the report, so that the same command goes on another day.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_table::Table;
use chomp_verify::CheckError;
use chomp_verify::marking;
use chomp_verify::progress::{PROGRESS_BYTES_MAX, Progress, Subject};
use chomp_verify::report::FullReport;
use indicatif::HumanCount;

use super::lanes::check_windows;
use super::{Means, VerifyError};
use crate::draft::{self, DraftError};
use crate::machine;
use crate::progress::Display;

/// Wall and CPU time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// Marking that goes on from what was done before.
pub(super) struct Marking<'a> {
    means: &'a Means,
    path: PathBuf,
    progress: Progress,
    threads: usize,
    /// The windows that earlier runs have done.
    windows_before: u64,
    earlier: Times,
}

/// Why a window is not taken for done.
#[derive(Debug, thiserror::Error)]
enum WindowError {
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

impl<'a> Marking<'a> {
    /// Goes on from the progress beside the report at `report`, if it is about `subject`.
    pub(super) fn begin(
        means: &'a Means,
        subject: Subject,
        report: &Path,
        say: &Display,
    ) -> anyhow::Result<Marking<'a>> {
        let mut path = report.as_os_str().to_owned();
        path.push(".progress");
        let path = PathBuf::from(path);
        let plan = means.marking_plan(subject.bits)?;
        let new = |subject| (Progress::new(subject, plan.window_bits), plan.threads);
        let found = draft::get(&path, PROGRESS_BYTES_MAX)?;
        let (progress, threads) = match found.map(|bytes| Progress::parse(&bytes, &subject)) {
            None => new(subject),
            Some(Ok(progress)) => {
                let threads = threads_for(means, progress.window_bits)?;
                (progress, threads)
            }
            Some(Err(damage)) => {
                let path = path.display();
                say.say(&format!(
                    "{path} is not used, and written anew: {damage}; all windows are checked"
                ));
                new(subject)
            }
        };
        let windows_before = progress.windows.len() as u64;
        if windows_before > 0 {
            let (done, all) = (
                HumanCount(windows_before),
                HumanCount(progress.windows_total()),
            );
            say.say(&format!("goes on after {done} of {all} windows"));
        }
        let earlier = Times {
            wall: Duration::from_millis(progress.millis),
            cpu: Duration::from_millis(progress.cpu_millis),
        };
        Ok(Marking {
            means,
            path,
            progress,
            threads: usize::try_from(threads).unwrap_or(1),
            windows_before,
            earlier,
        })
    }

    /// What earlier runs took.
    pub(super) fn earlier(&self) -> Times {
        self.earlier
    }

    /// Checks the windows that are left. The outer error is that the progress cannot be kept.
    pub(super) fn run(
        &mut self,
        table: &Table,
    ) -> Result<Result<FullReport, CheckError>, DraftError> {
        let left = self.progress.left();
        let all = self.progress.windows_total();
        // A window that is higher has more below it to read.
        let weight = |number: u64| all + number;
        let total: u64 = (0..all).map(weight).sum();
        let done = AtomicU64::new(total - left.iter().copied().map(weight).sum::<u64>());
        let means = self.means;
        let tell = |parts: &[(u64, f64)]| -> ControlFlow<()> {
            #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
            let part = |(number, part): &(u64, f64)| weight(*number) as f64 * part;
            #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
            let (done, total) = (done.load(Ordering::Relaxed) as f64, total as f64);
            means.tell(
                "every position",
                (done + parts.iter().map(part).sum::<f64>()) / total,
            )
        };
        // That it can be kept is to be known before anything is done.
        draft::put(&self.path, &self.progress.to_bytes())?;
        let window_bits = self.progress.window_bits;
        let work = (self.threads, &left[..]);
        let came = check_windows(table, window_bits, work, &tell, |number, report| {
            done.fetch_add(weight(number), Ordering::Relaxed);
            self.progress.windows.insert(number, report.losing);
            let wall = self.earlier.wall + means.start.elapsed();
            let cpu = self.earlier.cpu + machine::cpu_time();
            self.progress.millis = millis(wall);
            self.progress.cpu_millis = millis(cpu);
            Ok(draft::put(&self.path, &self.progress.to_bytes())?)
        });
        match came {
            Ok(()) => Ok(self.progress.finish(table, self.windows_before)),
            Err(WindowError::Check(error)) => Ok(Err(error)),
            Err(WindowError::Draft(error)) => Err(error),
        }
    }

    /// All is done: there is nothing to go on from.
    pub(super) fn end(self) -> Result<(), DraftError> {
        draft::remove(&self.path)
    }
}

/// How many threads have memory for a window of a size that an earlier run has chosen.
fn threads_for(means: &Means, window_bits: u32) -> Result<u64, VerifyError> {
    match means.rest_bytes() / marking::window_bytes(window_bits) {
        0 => Err(means.too_few(window_bits)),
        windows => Ok(windows.min(means.threads.get() as u64)),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
