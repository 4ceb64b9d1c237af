//! The level `full`: several threads check all windows of a table. After each window the progress is written to a file,
//! so that the same command continues after an interruption.
//!
//! The file is in a folder that only this user can enter, and not beside the table: whoever gives a wrong table away
//! could give progress with it that says that all windows are right.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_access::{FileError, local};
use chomp_plan::counted;
use chomp_plan::forecast::as_f64;
use chomp_table::Table;
use chomp_table::format::describe;
use chomp_verify::marking::LosingCounts;
use chomp_verify::progress::{MarkingProgress, PROGRESS_BYTES_MAX, Subject};
use chomp_verify::report::Check;
use indicatif::HumanCount;

use super::checks::Checks;
use super::lanes::check_windows;

impl Checks {
    /// Checks the windows of `table` that earlier runs of this user have not done. `report` is the place of the report.
    pub(super) fn full(
        &mut self,
        table: &Table,
        (subject, counts): (Subject, &LosingCounts),
        report: &Path,
    ) -> anyhow::Result<()> {
        let (context, say) = (&self.context, &self.say);
        // Where the progress is kept, if it can be: then a later run goes on where this one ends.
        let path = place(&subject);
        let path = path.inspect_err(|error| {
            say.say(&format!("what is done is not kept: {}", describe(error)));
        });
        let mut path = path.ok();
        let mut beside = report.as_os_str().to_owned();
        beside.push(".progress");
        let beside = Path::new(&beside);
        if beside.symlink_metadata().is_ok() {
            let beside = beside.display();
            say.say(&format!(
                "{beside} is not used, as anybody may have put it there: remove it"
            ));
        }
        let progress = path.as_deref().and_then(|path| {
            earlier(path, &subject).unwrap_or_else(|why| {
                let path = path.display();
                say.say(&format!(
                    "{path} is not used, and written anew: {why}; all windows are checked"
                ));
                None
            })
        });
        let layout =
            context.marking_layout(counts, progress.as_ref().map(|kept| kept.window_bits))?;
        let mut progress =
            progress.unwrap_or_else(|| MarkingProgress::new(subject, layout.window_bits));
        let (left, all) = (progress.left(), progress.windows_total());
        let before = progress.windows.len() as u64;
        if before > 0 {
            let [done, all] = [before, all].map(HumanCount);
            say.say(&format!("goes on after {done} of {all} windows"));
        }
        let [wall, cpu] = [progress.millis, progress.cpu_millis].map(Duration::from_millis);
        self.report.seconds += wall.as_secs_f64();
        self.report.cpu_seconds += cpu.as_secs_f64();
        let mut keep = |progress: &MarkingProgress| {
            if let Some(file) = &path
                && let Err(error) = chomp_durable_files::put(file, &progress.to_bytes())
            {
                let error = describe(&error);
                say.say(&format!("what is done is not kept any more: {error}"));
                path = None;
            }
        };
        keep(&progress);
        let done = AtomicU64::new(before);
        let read = |fraction| context.teller.stage("its losing positions", fraction);
        let tell = |fractions: f64| {
            let done = as_f64(done.load(Ordering::Relaxed)) + fractions;
            context.teller.stage("every position", done / as_f64(all))
        };
        let marked = check_windows(table, layout, &left, (&read, &tell), |number, report| {
            done.fetch_add(1, Ordering::Relaxed);
            progress.windows.insert(number, report.losing);
            progress.millis = millis(wall + context.meter.wall());
            progress.cpu_millis = millis(cpu + context.meter.cpu());
            keep(&progress);
        });
        let marked = marked.and_then(|()| progress.finish(table, before));
        self.resumable = path.is_some();
        let marked = self.report.record(Check::Full, marked, |marked| {
            format!(
                "{} positions, {} of them losing, agree with marking, in {} of 2^{} words",
                HumanCount(marked.positions),
                HumanCount(marked.losing),
                counted(HumanCount(marked.windows), "window"),
                marked.window_bits
            )
        });
        self.report.full = Some(marked?);
        if let Some(Err(error)) = path.as_deref().map(chomp_durable_files::remove) {
            self.say.say(&describe(&error));
        }
        Ok(())
    }
}

fn place(subject: &Subject) -> Result<PathBuf, FileError> {
    Ok(local::ensure_folder()?.join(format!("verify-{}.progress", subject.manifest_sha256)))
}

/// The progress of earlier runs, if there is some. The error says why the file is of no use.
fn earlier(path: &Path, subject: &Subject) -> Result<Option<MarkingProgress>, String> {
    let bytes = match chomp_durable_files::read_owned(path, PROGRESS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let progress = MarkingProgress::parse(&bytes, subject);
    progress.map(Some).map_err(|damage| damage.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
