//! The level `full`: several threads check all windows of a table. After each window the progress is
//! written to a file beside the report, so that the same command continues after an interruption.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use chomp_files::FileError;
use chomp_table::Table;
use chomp_verify::CheckError;
use chomp_verify::marking::{Plan, Sizes};
use chomp_verify::progress::{CheckProgress, PROGRESS_BYTES_MAX, Subject};
use chomp_verify::report::FullReport;
use indicatif::HumanCount;

use super::Resources;
use super::lanes::check_windows;
use crate::machine;
use crate::progress::Display;

/// Wall and CPU time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// Marking that continues from earlier runs.
pub(super) struct Marking<'a> {
    resources: &'a Resources,
    path: PathBuf,
    progress: CheckProgress,
    plan: Plan,
    /// The windows that earlier runs have done.
    windows_before: u64,
    earlier: Times,
}

/// Why a window does not count as done.
#[derive(Debug, thiserror::Error)]
enum WindowError {
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl<'a> Marking<'a> {
    /// Continues from the progress beside the report at `report`, if that is about `subject`, whose windows have these
    /// sizes.
    pub(super) fn begin(
        resources: &'a Resources,
        (subject, sizes): (Subject, &Sizes),
        report: &Path,
        say: &Display,
    ) -> anyhow::Result<Marking<'a>> {
        let mut path = report.as_os_str().to_owned();
        path.push(".progress");
        let path = PathBuf::from(path);
        let found = progress_at(&path)?;
        let found = found.map(|bytes| CheckProgress::parse(&bytes, &subject));
        let progress = match found {
            None => None,
            Some(Ok(progress)) => Some(progress),
            Some(Err(damage)) => {
                let path = path.display();
                say.say(&format!(
                    "{path} is not used, and written anew: {damage}; all windows are checked"
                ));
                None
            }
        };
        let plan = resources.marking_plan(sizes, progress.as_ref().map(|kept| kept.window_bits))?;
        let progress = progress.unwrap_or_else(|| CheckProgress::new(subject, plan.window_bits));
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
            resources,
            path,
            progress,
            plan,
            windows_before,
            earlier,
        })
    }

    /// The time that earlier runs took.
    pub(super) fn earlier(&self) -> Times {
        self.earlier
    }

    /// Checks the windows that are left. The outer error says that the progress cannot be written.
    pub(super) fn run(
        &mut self,
        table: &Table,
    ) -> Result<Result<FullReport, CheckError>, FileError> {
        let left = self.progress.left();
        let all = self.progress.windows_total();
        let done = AtomicU64::new(all - left.len() as u64);
        let resources = self.resources;
        let read = |part| resources.tell("its losing positions", part);
        let tell = |parts: &[(u64, f64)]| -> ControlFlow<()> {
            #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
            let (done, all) = (done.load(Ordering::Relaxed) as f64, all as f64);
            let parts: f64 = parts.iter().map(|(_, part)| part).sum();
            resources.tell("every position", (done + parts) / all)
        };
        // That it can be kept is to be known before anything is done.
        chomp_files::put(&self.path, &self.progress.to_bytes())?;
        let came = check_windows(table, self.plan, &left, (&read, &tell), |number, report| {
            done.fetch_add(1, Ordering::Relaxed);
            self.progress.windows.insert(number, report.losing);
            let wall = self.earlier.wall + resources.start.elapsed();
            let cpu = self.earlier.cpu + machine::cpu_time();
            self.progress.millis = millis(wall);
            self.progress.cpu_millis = millis(cpu);
            Ok(chomp_files::put(&self.path, &self.progress.to_bytes())?)
        });
        match came {
            Ok(()) => Ok(self.progress.finish(table, self.windows_before)),
            Err(WindowError::Check(error)) => Ok(Err(error)),
            Err(WindowError::File(error)) => Err(error),
        }
    }

    /// Removes the progress, as all windows are done.
    pub(super) fn end(self) -> Result<(), FileError> {
        chomp_files::remove(&self.path)
    }
}

/// The bytes of the file of the progress, if there is one.
fn progress_at(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match chomp_files::read_within(path, PROGRESS_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
