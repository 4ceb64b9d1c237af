//! `chomp export`: writes the losing positions of a finished table for other programs.

use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_durable_files::{FileError, NewFile};
use chomp_export::{
    AreaRange, ExportError, ExportReport, ExportRequest, Filter, Format, Rectangle, export,
    export_values,
};
use chomp_table::Digest;
use chomp_table::reader::{AnyTable, TableName};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::exit::usage;
use crate::flags::{SourceArgs, flag, number, path, size};
use crate::progress::{Display, Teller};
use crate::source;
use crate::summary::{Meter, TextReport};

const BITS_MAX: u64 = u64::BITS as u64;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp export --out positions.csv
  chomp export --both --out positions.parquet
  chomp export --format rows --area 20-30 --out - | head
  chomp export --format chomp-fast --box 16x16 --out catalogue.bin
  chomp export --table chomp-values --out values.npy
  chomp export --table s3://bucket/tables --out positions.csv

Tables of Grundy values are for rows, npy and parquet. docs/EXPORT.md describes the \
formats, and how other programs read them.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The format of the file [default: rows for a file .csv, and npy, parquet or roaring for one that ends so]
    #[arg(long, value_name = "F", value_parser = format_parser())]
    pub(crate) format: Option<Format>,

    /// The file to write; - is stdout. FILE.json beside it tells what is in it; a Parquet file tells that itself
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) out: PathBuf,

    /// Export only positions of at most this many bits (first row + number of rows)
    #[arg(long, value_name = "N", value_parser = number::<u32>(2..=BITS_MAX))]
    pub(crate) bits: Option<u32>,

    /// Export only positions of this many cells
    #[arg(long, value_name = "A or A-B")]
    pub(crate) area: Option<AreaRange>,

    /// Export only positions inside a rectangle of this many rows and columns
    #[arg(long = "box", value_name = "RxC")]
    pub(crate) within: Option<Rectangle>,

    /// Export both positions of each mirror pair, not only the stored one: that with the smaller word or, in a table of
    /// Grundy values, the smaller rank
    #[arg(long, value_parser = flag)]
    pub(crate) both: bool,

    /// Sort mirror images within this much memory, as 4GiB; less is slower
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: ByteSize,

    /// Replace the file if it is there
    #[arg(long, value_parser = flag)]
    pub(crate) force: bool,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|(_, name)| name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

const STDOUT: [&str; 2] = ["-", "/dev/stdout"];
const NOWHERE: &str = "/dev/null";

#[derive(Debug, Serialize)]
struct Exported {
    out: String,
    format: String,
    #[serde(flatten)]
    table: TableName,
    /// Of the table.
    fingerprint: Digest,
    positions: u64,
    bytes: u64,
    sha256: Digest,
    /// Wall time.
    seconds: f64,
}

enum Out {
    Stdout,
    Nowhere,
    /// The file, and a file with the summary beside it. A Parquet file has none, as its metadata names the table.
    File(NewFile, Option<NewFile>),
}

pub(crate) async fn run(args: ExportArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let to_stdout = is_stdout(&args.out);
    let format = format_of(&args, display)?;
    if to_stdout && !format.is_text() && io::stdout().is_terminal() {
        return Err(usage(format!(
            "{format} is not for a terminal: name a file with --out"
        )));
    }
    if to_stdout && args.json {
        return Err(usage(
            "--json prints to stdout, where the positions go: name a file with --out",
        ));
    }
    let request = ExportRequest {
        format,
        filter: Filter {
            bits: args.bits,
            areas: args.area,
            within: args.within,
            both: args.both,
        },
        memory: args.memory.as_u64(),
    };
    chomp_export::check(&request)?;
    let out = Out::open(&args, format)?;
    let stop = display.stop_token();
    let opening = source::open(&args.source, display.overrides());
    let opened = stop.run_until_cancelled(opening).await;
    let table = opened.ok_or(ExportError::Stopped)??;
    let (name, fingerprint) = (table.name(), table.manifest().fingerprint());
    let failed = || format!("cannot write {}", shown(&args.out));
    let work = move |teller: Teller| out.write(&table, &request, &teller);
    let done = match display.during("exporting", &stop, work).await {
        Err(error @ (ExportError::Full | ExportError::Write(_))) => {
            Err(error).with_context(failed)?
        }
        done => done?,
    };
    let Some((report, out)) = done else {
        return Ok(());
    };
    let exported = Exported {
        out: shown(&args.out),
        format: format.to_string(),
        table: name,
        fingerprint,
        positions: report.positions,
        bytes: report.bytes,
        sha256: report.sha256,
        seconds: meter.wall().as_secs_f64(),
    };
    if let Out::File(file, beside) = out {
        file.finish().with_context(failed)?;
        if let Some(mut beside) = beside {
            let line = serde_json::to_string(&exported)? + "\n";
            let told = beside
                .write_all(line.as_bytes())
                .map_err(anyhow::Error::new);
            let told = told.and_then(|()| Ok(beside.finish()?));
            told.with_context(|| format!("cannot write {}", summary_path(&args.out).display()))?;
        }
    }
    if to_stdout {
        display.say(exported.text().trim_end());
        return Ok(());
    }
    crate::print_as(args.json, &exported, Exported::text)
}

/// The format of the file, from the flag or the end of its name. If both say one, the flag counts.
fn format_of(args: &ExportArgs, display: &Display) -> anyhow::Result<Format> {
    let named = Format::of_name(&args.out);
    if let (Some(format), Some(named)) = (args.format, named)
        && format != named
        && !(format.is_text() && named.is_text())
    {
        display.say(&format!(
            "{} gets the format {format}, as --format says; its name is one for {named}",
            args.out.display()
        ));
    }
    args.format.or(named).ok_or_else(|| {
        let endings = Format::ENDINGS.map(|(_, ending)| format!(".{ending}"));
        usage(format!(
            "{} does not say its format: name it with --format, or end the name with {}",
            shown(&args.out),
            endings.join(", ")
        ))
    })
}

fn is_stdout(out: &Path) -> bool {
    STDOUT.iter().any(|name| out == Path::new(name))
}

pub(crate) fn create(path: &Path, force: bool) -> anyhow::Result<NewFile> {
    match NewFile::create(path, force) {
        Err(error @ FileError::Exists { .. }) => {
            Err(error).context("a file that is there is replaced with --force only")
        }
        created => Ok(created?),
    }
}

fn shown(out: &Path) -> String {
    if is_stdout(out) {
        "stdout".to_owned()
    } else {
        out.display().to_string()
    }
}

/// The file beside `out` that says what is in it.
fn summary_path(out: &Path) -> PathBuf {
    let mut beside = out.as_os_str().to_owned();
    beside.push(".json");
    beside.into()
}

impl Out {
    fn open(args: &ExportArgs, format: Format) -> anyhow::Result<Out> {
        if is_stdout(&args.out) {
            return Ok(Out::Stdout);
        }
        if args.out == Path::new(NOWHERE) {
            return Ok(Out::Nowhere);
        }
        let create = |path: &Path| create(path, args.force);
        let file = create(&args.out)?;
        let tells = format == Format::Parquet;
        let beside = (!tells).then(|| create(&summary_path(&args.out)));
        Ok(Out::File(file, beside.transpose()?))
    }

    /// None if the reader of stdout went away.
    fn write(
        mut self,
        table: &AnyTable,
        request: &ExportRequest,
        teller: &Teller,
    ) -> Result<Option<(ExportReport, Out)>, ExportError> {
        let out: &mut (dyn Write + Send) = match &mut self {
            Out::Stdout => &mut io::stdout(),
            Out::Nowhere => &mut io::sink(),
            Out::File(file, _) => file,
        };
        let watch = &mut |progress| teller.exported(progress);
        let report = match table {
            AnyTable::Losing(table) => export(table, request, out, watch),
            AnyTable::Values(table) => export_values(table, request, out, watch),
        };
        match report {
            Err(ExportError::Write(error))
                if matches!(self, Out::Stdout) && error.kind() == io::ErrorKind::BrokenPipe =>
            {
                Ok(None)
            }
            report => Ok(Some((report?, self))),
        }
    }
}

impl Exported {
    fn text(&self) -> String {
        let mut lines = TextReport::new(match self.table {
            TableName::Losing(bits) => format!("Losing positions of a table of {bits} bits"),
            TableName::Values(tiles) => format!("Values of a table of {tiles} tiles"),
        });
        lines.line("fingerprint", self.fingerprint);
        lines.line("positions", HumanCount(self.positions));
        lines.line("SHA-256", self.sha256);
        lines.line("time", format_args!("{:.2} s", self.seconds));
        let (out, format, size) = (&self.out, &self.format, HumanBytes(self.bytes));
        lines.line("file", format_args!("{out} ({format}, {size})"));
        lines.into_text()
    }
}
