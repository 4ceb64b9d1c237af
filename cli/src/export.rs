//! `chomp export`: writes the losing positions of a finished table for other programs.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use chomp_export::{ExportError, ExportProgress, Report, Request, export, export_values};
use chomp_files::{FileError, NewFile};
use chomp_table::reader::{AnyTable, TableName};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::ExportArgs;
use crate::exit::{Exit, usage};
use crate::progress::Display;
use crate::signals::stop_on_signals;
use crate::source;

/// The name of stdout.
const STDOUT: &str = "-";

/// The summary of an export.
#[derive(Debug, Serialize)]
struct Exported<'a> {
    #[serde(serialize_with = "crate::as_text")]
    out: &'a Path,
    format: String,
    #[serde(flatten)]
    table: TableName,
    positions: u64,
    bytes: u64,
    sha256: String,
    /// Wall time.
    seconds: f64,
}

pub(crate) async fn run(args: ExportArgs, display: &Display) -> anyhow::Result<Exit> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary tells what the export took"
    )]
    let start = Instant::now();
    let to_stdout = args.out == Path::new(STDOUT);
    if to_stdout && !args.format.is_text() {
        return Err(usage(format!(
            "{} is not for stdout: name a file with --out",
            args.format
        )));
    }
    if to_stdout && args.json {
        return Err(usage(
            "--json prints to stdout, where the positions go: name a file with --out",
        ));
    }
    let stop = stop_on_signals()?;
    let request = args.request();
    let table = source::open(&args.source, display.haste()).await?;
    let name = table.name();
    let (progress, watcher) = watch::channel(ExportProgress::default());
    let job = Job {
        table,
        out: args.out.clone(),
        request,
        force: args.force,
        progress,
        stop,
    };
    // Reading and writing block: a thread for such work does them.
    let work =
        tokio::task::spawn_blocking(move || if to_stdout { job.print() } else { job.write() });
    let done = tokio::select! {
        done = work => done,
        () = display.follow_export(watcher) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    display.clear();
    let Some(report) = done.context("the export ended early")?? else {
        return Ok(Exit::Done);
    };
    let exported = Exported {
        out: &args.out,
        format: args.format.to_string(),
        table: name,
        positions: report.positions,
        bytes: report.bytes,
        sha256: report.sha256.to_string(),
        seconds: start.elapsed().as_secs_f64(),
    };
    if args.json {
        crate::print(&(serde_json::to_string(&exported)? + "\n"))?;
    } else if to_stdout {
        display.say(exported.text().trim_end());
    } else {
        crate::print(&exported.text())?;
    }
    Ok(Exit::Done)
}

/// An export to be made.
struct Job {
    table: AnyTable,
    out: PathBuf,
    request: Request,
    force: bool,
    progress: watch::Sender<ExportProgress>,
    stop: CancellationToken,
}

impl Job {
    fn export(&self, out: &mut (dyn Write + Send)) -> Result<Report, ExportError> {
        let watch = &mut |progress| {
            self.progress.send_replace(progress);
            if self.stop.is_cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        match &self.table {
            AnyTable::Losing(table) => export(table, &self.request, out, watch),
            AnyTable::Values(table) => export_values(table, &self.request, out, watch),
        }
    }

    /// Writes the file.
    fn write(&self) -> anyhow::Result<Option<Report>> {
        let created = NewFile::create(&self.out, self.force);
        let mut file = created.map_err(|error| match error {
            FileError::Exists { .. } => {
                anyhow::Error::new(error).context("no file is replaced without --force")
            }
            error => error.into(),
        })?;
        let failed = || format!("cannot write {}", self.out.display());
        let report = self.export(&mut file).map_err(|error| match error {
            ExportError::Full | ExportError::Write(_) => {
                anyhow::Error::new(error).context(failed())
            }
            error => error.into(),
        })?;
        file.finish().with_context(failed)?;
        Ok(Some(report))
    }

    /// Prints to stdout. None if the reader of stdout went away.
    fn print(&self) -> anyhow::Result<Option<Report>> {
        match self.export(&mut io::stdout()) {
            Ok(report) => Ok(Some(report)),
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Err(error @ (ExportError::Full | ExportError::Write(_))) => {
                Err(anyhow::Error::new(error).context("cannot write to stdout"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Exported<'_> {
    fn text(&self) -> String {
        let what = match self.table {
            TableName::Losing(bits) => format!("Losing positions of a table of {bits} bits"),
            TableName::Values(tiles) => format!("Values of a table of {tiles} tiles"),
        };
        let mut text = what + "\n";
        let mut line = |name: &str, value: &str| crate::add_line(&mut text, name, value);
        line("positions", &HumanCount(self.positions).to_string());
        line("SHA-256", &self.sha256);
        line("time", &format!("{:.2} s", self.seconds));
        let out = if self.out == Path::new(STDOUT) {
            "stdout".into()
        } else {
            self.out.display().to_string()
        };
        let size = HumanBytes(self.bytes);
        line("file", &format!("{out} ({}, {size})", self.format));
        text
    }
}
