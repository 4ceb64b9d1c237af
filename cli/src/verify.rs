//! `chomp verify`: checks a published table, and writes a report.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_durable_files::Claim;
use chomp_table::format::describe;
use chomp_table::reader::locate;
use chomp_verify::CheckError;
use chomp_verify::marking::{self, LosingCounts};
use chomp_verify::report::{CheckVerdict, Level, Report};

use crate::SOFTWARE;
use crate::download;
use crate::exit::{Interruption, usage};
use crate::flags::{ShareArgs, SourceArgs, flag, number, path};
use crate::machine;
use crate::progress::{Display, Teller};
use crate::source;
use crate::summary::{Meter, TextReport};

mod checks;
mod full;
mod lanes;
mod values;

use checks::Checks;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Levels, each with the checks of those before it:
  quick   every byte: digests, order, counts, fingerprints, published results
  sample  random positions, decided by the rules of the game from what the table
          says of their moves
  full    every position, by a second algorithm; goes on where it was stopped
Of several tables in one place, the one of the most bits is checked or, if all have Grundy values, \
that of the most tiles. A table on a server or in a bucket is downloaded to chomp-table first. Of a \
table of Grundy values quick decides all positions of at most 40 tiles too, and full cannot resume.

Examples:
  chomp verify --table chomp-table
  chomp verify --table chomp-table/table-32 --level sample --sample 1000000
  chomp verify --table chomp-values/values-082 --level sample
  chomp verify --table https://example.org/tables
  chomp verify --level full --memory 8GiB --report ~/verify-40.json

Exit codes: 0 all checks passed; 3 the table is damaged or wrong, and the message says where; 75 \
stopped early, run the same command again to go on.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How much to check: quick, sample or full
    #[arg(long, value_name = "LEVEL", default_value = "quick")]
    pub(crate) level: Level,

    /// Where to write the report; - for stdout [default: verify-BITS-LEVEL.json or verify-values-TILES-LEVEL.json
    /// beside the folder of the table, if that can be written]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) report: Option<PathBuf>,

    /// Check this many random positions at the level sample [default: 100000]
    #[arg(long, value_name = "N", value_parser = number::<u64>(1..=u64::MAX))]
    pub(crate) sample: Option<u64>,

    /// The seed of the random positions, to check others [default: the first 13 digits of the table's fingerprint]
    #[arg(long, value_name = "S", value_parser = number::<u64>(0..=SEED_MAX))]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Print the report as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The largest seed: many programs round larger numbers in the JSON of the report.
const SEED_MAX: u64 = (1 << 53) - 1;
/// The default number of random positions.
const SAMPLE: u64 = 100_000;
/// The memory of the program without shards, queries and windows.
const PROGRAM_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug)]
struct CheckContext {
    threads: NonZeroUsize,
    memory_bytes: u64,
    meter: Meter,
    teller: Teller,
}

impl CheckContext {
    /// The number of threads that check shards. Each needs up to `shard_bytes`. The thread that collects the results
    /// needs as much for one more shard, and keeps up to `kept` bytes of all shards.
    fn shard_threads(&self, shard_bytes: u64, kept: u64) -> anyhow::Result<usize> {
        let room = self.memory_bytes.saturating_sub(PROGRAM_BYTES + kept);
        match room / shard_bytes.max(1) {
            0 | 1 => Err(self.too_small(PROGRAM_BYTES + kept + 2 * shard_bytes)),
            shards => {
                let shards = usize::try_from(shards - 1).unwrap_or(usize::MAX);
                Ok(shards.min(self.threads.get()))
            }
        }
    }

    /// The memory for queries or windows.
    fn rest_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(PROGRAM_BYTES)
    }

    /// If an earlier run has marked some positions, `window_bits` has the size of its windows.
    fn marking_layout(
        &self,
        counts: &LosingCounts,
        window_bits: Option<u32>,
    ) -> anyhow::Result<marking::Layout> {
        let (threads, memory) = (self.threads.get() as u64, self.rest_bytes());
        let layout = match window_bits {
            Some(window_bits) => counts.layout_of_windows(window_bits, threads, memory),
            None => counts.layout(threads, memory),
        };
        let least = || counts.least_bytes(window_bits.unwrap_or_else(|| counts.window_bits_min()));
        layout.ok_or_else(|| self.too_small(PROGRAM_BYTES + least()))
    }

    fn too_small(&self, needed: u64) -> anyhow::Error {
        machine::too_little_memory(self.memory_bytes, needed, "")
    }
}

pub(crate) async fn run(args: VerifyArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let (threads, memory_bytes) = (args.share.threads(), args.share.memory_bytes()?);
    if args.level != Level::Sample && (args.sample.is_some() || args.seed.is_some()) {
        let level = args.level;
        return Err(usage(format!(
            "the level {level} has no random positions: --sample and --seed go with --level sample"
        )));
    }
    if let Some(path) = args.report.as_deref().filter(|path| is_kept(path)) {
        // A report that cannot be written is an error before the download, which would be in vain.
        drop(claim(path)?);
    }
    let table = download::download_if_elsewhere(&args.source, display, &stop).await?;
    let folder = locate(&table).map_err(source::explained)?;
    let absolute = std::fs::canonicalize(&folder);
    let absolute = absolute.with_context(|| format!("cannot look at {}", folder.display()))?;
    let usual = default_report(&absolute, args.level);
    let json = args.json || args.report.as_deref() == Some(Path::new("-"));
    let claim = match args.report.as_deref() {
        Some(path) if is_kept(path) => Some(begin(path, &absolute)?),
        Some(_) => None,
        None => {
            let claim = begin(&usual, &absolute).map(Some);
            claim.or_else(|error| without_report(error, display))?
        }
    };
    let path = claim.as_ref().map(|claim| claim.path().to_owned());
    let path = path.unwrap_or(usual);
    let report = Report::new(SOFTWARE.to_owned(), args.level, folder);
    let say = display.clone();
    let checking = display.during("checking", &stop, move |teller| {
        let mut checks = Checks {
            args,
            context: CheckContext {
                threads,
                memory_bytes,
                meter,
                teller,
            },
            report,
            say,
            resumable: false,
        };
        (checks.run(&path), checks.finish())
    });
    let (outcome, (report, resumable)) = checking.await;
    let cause = outcome
        .as_ref()
        .err()
        .and_then(|error| error.downcast_ref());
    if matches!(cause, Some(CheckError::Stopped)) {
        if resumable {
            return Err(Interruption::Resumable.into());
        }
        return Err(Interruption::Lost.into());
    }
    if outcome.is_err() && report.result == CheckVerdict::Passed {
        // A file that cannot be read says nothing about the table.
        return outcome;
    }
    conclude(outcome, &report, claim, json, display)
}

fn conclude(
    outcome: anyhow::Result<()>,
    report: &Report,
    claim: Option<Claim>,
    json: bool,
    display: &Display,
) -> anyhow::Result<()> {
    let path = claim.as_ref().map(|claim| claim.path().to_owned());
    let written = claim.map_or(Ok(()), |claim| claim.finish(&report.to_bytes()));
    let path = path.filter(|_| written.is_ok());
    if json {
        crate::print(&(serde_json::to_string(report)? + "\n"))?;
    } else if outcome.is_ok() {
        crate::print(&text(report, path.as_deref()))?;
    }
    if outcome.is_err() {
        match (&path, &written) {
            (Some(path), _) => display.say(&format!("the report is in {}", path.display())),
            (None, Err(error)) => {
                display.say(&format!("there is no report: {}", describe(error)));
            }
            (None, Ok(())) => {}
        }
    }
    // Damage is worse news than that there is no report.
    outcome?;
    Ok(written?)
}

/// Beside the folder of the table, which has the files of its manifest only.
fn default_report(folder: &Path, level: Level) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("table-").unwrap_or(&name);
    folder.with_file_name(format!("verify-{name}-{level}.json"))
}

/// Begins the report at `path`, early enough to find out that it cannot be written.
fn begin(path: &Path, folder: &Path) -> anyhow::Result<Claim> {
    let beside = std::fs::canonicalize(chomp_durable_files::folder(path));
    if beside.is_ok_and(|beside| beside.starts_with(folder)) {
        return Err(usage(format!(
            "{} is in the folder of the table, which has the files of its manifest only: say --report FILE",
            path.display()
        )));
    }
    claim(path)
}

fn claim(path: &Path) -> anyhow::Result<Claim> {
    Claim::begin(path).context("the report needs a place: name one with --report FILE")
}

/// Whether a report at `path` is a file, and not for stdout or nobody.
fn is_kept(path: &Path) -> bool {
    ["-", "/dev/null"]
        .iter()
        .all(|name| path != Path::new(name))
}

/// Goes on without a report if its usual place is one that this user cannot write to.
fn without_report(error: anyhow::Error, display: &Display) -> anyhow::Result<Option<Claim>> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    let is_locked =
        |cause: &io::Error| matches!(cause.kind(), PermissionDenied | ReadOnlyFilesystem);
    if !causes.any(is_locked) {
        return Err(error);
    }
    display.say(&format!("no report is kept: {error:#}"));
    Ok(None)
}

/// The report for people, which names its file if that was written.
fn text(report: &Report, path: Option<&Path>) -> String {
    let (folder, level) = (report.folder.display(), report.level);
    let mut lines = TextReport::new(format_args!(
        "{folder} passed all checks of the level {level}"
    ));
    for check in &report.checks {
        lines.line(&check.check.to_string(), &check.what);
    }
    for warning in &report.warnings {
        lines.line("warning", warning);
    }
    lines.time(report.seconds, report.cpu_seconds);
    if let Some(path) = path {
        lines.line("report", path.display());
    }
    lines.into_text()
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn context(threads: usize, memory_bytes: u64) -> CheckContext {
        CheckContext {
            threads: NonZeroUsize::new(threads).unwrap(),
            memory_bytes,
            meter: Meter::start(),
            teller: Teller::new(CancellationToken::new()),
        }
    }

    #[test]
    fn threads_follow_from_the_memory() {
        const MIB: u64 = 1 << 20;
        let shard = 38 * MIB;
        for (threads, memory, expected) in [
            (2, 1024 * MIB, Some(2)),
            (64, 1024 * MIB, Some(24)),
            (64, 140 * MIB, Some(1)),
            (64, 139 * MIB, None),
            (2, 0, None),
        ] {
            let found = context(threads, memory).shard_threads(shard, 0).ok();
            assert_eq!(found, expected, "{threads} threads, {memory} bytes");
        }
        let counts = LosingCounts::of(24, vec![1000; 16]);
        let error = context(2, 0)
            .marking_layout(&counts, None)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "0 B of memory are too few: give at least --memory 69MiB"
        );
        assert!(context(2, 69 * MIB).marking_layout(&counts, None).is_ok());
    }

    #[test]
    fn reports_are_beside_the_folder() {
        for (folder, expected) in [
            ("/a/table-32", "/a/verify-32-full.json"),
            ("/a/mine", "/a/verify-mine-full.json"),
            ("/a/values-082", "/a/verify-values-082-full.json"),
        ] {
            let found = default_report(Path::new(folder), Level::Full);
            assert_eq!(found, Path::new(expected));
        }
    }
}
