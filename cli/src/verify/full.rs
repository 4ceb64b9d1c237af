//! The level `full`: several threads check all windows of a table. After each window the progress is written to a file,
//! so that the same command continues after an interruption.
//!
//! The file is in a folder that only this user can enter, and not beside the table: whoever gives a wrong table away
//! could give progress with it that says that all windows are right.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use chomp_access::local;
use chomp_plan::forecast::as_f64;
use chomp_table::Table;
use chomp_table::format::describe;
use chomp_verify::CheckError;
use chomp_verify::marking::{Plan, Sizes};
use chomp_verify::progress::{CheckProgress, PROGRESS_BYTES_MAX, Subject};
use chomp_verify::report::FullReport;
use indicatif::HumanCount;

use super::Resources;
use super::lanes::check_windows;
use crate::progress::Display;

/// Marking that continues from earlier runs.
pub(super) struct Marking<'a> {
    resources: &'a Resources,
    say: &'a Display,
    /// Where the progress is kept, if it can be: then a later run goes on where this one ends.
    pub(super) path: Option<PathBuf>,
    progress: CheckProgress,
    plan: Plan,
    /// The windows that earlier runs have done.
    windows_before: u64,
    /// The wall and CPU time that they took.
    pub(super) earlier: [Duration; 2],
}

impl<'a> Marking<'a> {
    /// Continues from the progress of this user, if that is about `subject`, whose windows have these sizes.
    pub(super) fn begin(
        resources: &'a Resources,
        (subject, sizes): (Subject, &Sizes),
        report: &Path,
        say: &'a Display,
    ) -> anyhow::Result<Marking<'a>> {
        let path = place(&subject);
        let path =
            path.inspect_err(|error| say.say(&format!("what is done is not kept: {error:#}")));
        let path = path.ok();
        let mut beside = report.as_os_str().to_owned();
        beside.push(".progress");
        let beside = Path::new(&beside);
        if beside.symlink_metadata().is_ok() {
            let beside = beside.display();
            say.say(&format!(
                "{beside} is not used, as anybody may have put it there: remove it"
            ));
        }
        let earlier = path.as_deref().map(|path| (path, earlier(path, &subject)));
        let progress = match earlier {
            Some((_, Ok(progress))) => progress,
            Some((path, Err(why))) => {
                say.say(&format!(
                    "{} is not used, and written anew: {why}; all windows are checked",
                    path.display()
                ));
                None
            }
            None => None,
        };
        let plan = resources.marking_plan(sizes, progress.as_ref().map(|kept| kept.window_bits))?;
        let progress = progress.unwrap_or_else(|| CheckProgress::new(subject, plan.window_bits));
        let windows_before = progress.windows.len() as u64;
        if windows_before > 0 {
            let [done, all] = [windows_before, progress.windows_total()].map(HumanCount);
            say.say(&format!("goes on after {done} of {all} windows"));
        }
        let earlier = [progress.millis, progress.cpu_millis].map(Duration::from_millis);
        let mut marking = Marking {
            resources,
            say,
            path,
            progress,
            plan,
            windows_before,
            earlier,
        };
        marking.keep();
        Ok(marking)
    }

    /// Writes the progress. If that cannot be, checking goes on all the same.
    fn keep(&mut self) {
        if let Some(path) = &self.path
            && let Err(error) = chomp_durable_files::put(path, &self.progress.to_bytes())
        {
            let error = describe(&error);
            self.say
                .say(&format!("what is done is not kept any more: {error}"));
            self.path = None;
        }
    }

    /// Checks the windows that are left, and removes the progress when all are done.
    pub(super) fn run(&mut self, table: &Table) -> Result<FullReport, CheckError> {
        let (left, all) = (self.progress.left(), self.progress.windows_total());
        let done = AtomicU64::new(all - left.len() as u64);
        let (resources, plan) = (self.resources, self.plan);
        let read = |part| resources.teller.stage("its losing positions", part);
        let tell = |parts: f64| {
            let done = as_f64(done.load(Ordering::Relaxed)) + parts;
            resources.teller.stage("every position", done / as_f64(all))
        };
        check_windows(table, plan, &left, (&read, &tell), |number, report| {
            done.fetch_add(1, Ordering::Relaxed);
            self.progress.windows.insert(number, report.losing);
            let [wall, cpu] = self.earlier;
            self.progress.millis = millis(wall + resources.meter.wall());
            self.progress.cpu_millis = millis(cpu + resources.meter.cpu());
            self.keep();
        })?;
        let report = self.progress.finish(table, self.windows_before)?;
        if let Some(Err(error)) = self.path.as_deref().map(chomp_durable_files::remove) {
            self.say.say(&describe(&error));
        }
        Ok(report)
    }
}

/// Where the progress of checking `subject` is kept.
fn place(subject: &Subject) -> anyhow::Result<PathBuf> {
    let folder = local::folder().context("neither XDG_STATE_HOME nor HOME is set")?;
    local::make(&folder)?;
    Ok(folder.join(format!("verify-{}.progress", subject.manifest_sha256)))
}

/// The progress of earlier runs, if there is some. The error says why the file is of no use.
fn earlier(path: &Path, subject: &Subject) -> Result<Option<CheckProgress>, String> {
    let bytes = match chomp_durable_files::read_within(path, PROGRESS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let progress = CheckProgress::parse(&bytes, subject);
    progress.map(Some).map_err(|damage| damage.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
