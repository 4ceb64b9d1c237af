//! The areas one after the other, and the table from them.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chomp_durable_files::{Below, FileError, failed, put};
use chomp_kernel::Isa;
use chomp_kernel::grundy::{AreaValues, GrundyEvaluator};
use chomp_table::digest::Seal;
use chomp_table::format::{Damage, describe};
use chomp_table::known::{self, LOSING_BY_TILES, OtherThanKnown};
use chomp_table::manifest::{MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::partition::count;
use chomp_table::values::manifest::values_folder_name;
use chomp_table::values::shard::{ShardSpan, ValueShardInfo, ValueShardSize, ValueShardWriter};
use chomp_table::values::{Values, ValuesManifest};
use parking_lot::Mutex;

use crate::area_file::{AreaFiles, FOLDER};

/// The positions of an area that a thread takes at a time.
const PIECE: usize = 1 << 16;
/// The memory that a thread takes beside the values: the sets of a window, and a shard that it writes.
const THREAD_BYTES: u64 = 32 << 20;
/// The fractions of the work that evaluation and writing shards are.
const EVALUATION: Range<f64> = 0.0..0.8;
const WRITING: Range<f64> = 0.8..1.0;

/// The bytes of memory for a table of at most `tiles` tiles with `threads` threads.
pub fn memory_bytes(tiles: u32, threads: NonZeroUsize) -> u64 {
    let values: u64 = (1..=tiles).map(count).sum();
    values + threads.get() as u64 * THREAD_BYTES
}

/// A table to build, and the resources for it.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Debug)]
pub struct Builder<'a> {
    /// The directory of the table, which the caller has locked.
    pub directory: &'a Path,
    /// The most tiles of a position, from 1 to 120.
    pub tiles: u32,
    pub threads: NonZeroUsize,
    pub isa: Isa,
    /// The mark of the files of areas, by which a later run knows them.
    pub seal: &'a Seal,
    pub software: String,
}

/// Receives the progress of a build, and may end it.
pub trait BuildWatch: Sync {
    /// The fraction that is done, from 0 to 1. May end it.
    fn done(&self, fraction: f64) -> ControlFlow<()>;
    /// Something that people are to know.
    fn say(&self, text: &str);
}

/// A table that was built.
#[derive(Debug)]
pub struct Built {
    /// Its manifest.
    pub manifest: ValuesManifest,
    /// How many areas were evaluated. The others were there.
    pub areas: u32,
}

/// Why a table was not built.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    File(FileError),
    /// There is no room for a file. What was done stays.
    #[error("cannot write {}: no space left; free some and run again", path.display())]
    Full { path: PathBuf },
    /// The shards are none of such a table, which is a bug.
    #[error(transparent)]
    Shards(#[from] Damage),
    #[error(
        "of the positions of {tiles} tiles {found} are losing, where {known} are known to be: this machine or this program \
         computes wrongly, do not use the files in {FOLDER}"
    )]
    OtherCount { tiles: u32, found: u64, known: u64 },
    #[error("{0}: this machine or this program computes wrongly, do not use the files in {FOLDER}")]
    OtherFingerprint(OtherThanKnown),
    /// A smaller table is there that says something else.
    #[error(
        "{folder} says something else of its positions: one of the two tables is wrong. Verify it, or build this one in \
         another directory"
    )]
    OtherTable { folder: String },
    /// The watch wanted it so. What was done stays.
    #[error("stopped")]
    Stopped,
}

impl From<FileError> for BuildError {
    fn from(error: FileError) -> BuildError {
        match error {
            FileError::Failed { path, source, .. }
                if matches!(
                    source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded
                ) =>
            {
                BuildError::Full { path }
            }
            error => BuildError::File(error),
        }
    }
}

impl Builder<'_> {
    /// Builds the table, with the areas that earlier runs left. The files of areas stay, also if it fails.
    pub fn run(&self, watch: &dyn BuildWatch) -> Result<Built, BuildError> {
        let files = AreaFiles::open(self.directory, self.seal)?;
        let evaluators = (0..self.threads.get()).map(|_| GrundyEvaluator::new(self.isa));
        let mut evaluators: Vec<GrundyEvaluator> = evaluators.collect();
        let mut areas = vec![AreaValues::zeros(0)];
        let all = memory_bytes(self.tiles, NonZeroUsize::MIN) - THREAD_BYTES;
        let progress = Progress {
            watch,
            all,
            done: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        };
        let mut evaluated = 0;
        let mut unwritten = None;
        for tiles in 1..=self.tiles {
            let values = files.read(tiles).unwrap_or_else(|error| {
                let (path, why) = (files.path(tiles), describe(&error));
                watch.say(&format!("{} is computed again: {why}", path.display()));
                None
            });
            if let Some(values) = values {
                progress.add(values.get().len(), EVALUATION)?;
                areas.push(values);
                continue;
            }
            let mut values = AreaValues::zeros(tiles);
            let pieces = Mutex::new((0..).step_by(PIECE).zip(values.get_mut().chunks_mut(PIECE)));
            let writes = Mutex::new(unwritten.take());
            progress.share(&mut evaluators, |evaluator| {
                let write = take(&writes, Option::take);
                write.map_or(Ok(()), |tiles: u32| {
                    files.write(tiles, &areas[tiles as usize])
                })?;
                while let Some((start, piece)) = take(&pieces, Iterator::next) {
                    evaluator.evaluate(tiles, start, piece, &areas);
                    progress.add(piece.len(), EVALUATION)?;
                }
                Ok(())
            })?;
            areas.push(values);
            evaluated += 1;
            unwritten = Some(tiles);
        }
        if let Some(tiles) = unwritten {
            files.write(tiles, &areas[tiles as usize])?;
        }
        let manifest = self.publish(&areas, &mut evaluators, &progress)?;
        Ok(Built {
            manifest,
            areas: evaluated,
        })
    }

    /// Where the table will be.
    pub fn folder(&self) -> PathBuf {
        self.directory.join(values_folder_name(self.tiles))
    }

    fn publish(
        &self,
        areas: &[AreaValues],
        evaluators: &mut [GrundyEvaluator],
        progress: &Progress<'_>,
    ) -> Result<ValuesManifest, BuildError> {
        let folder = self.folder();
        // A link to a folder elsewhere is refused.
        let made = Below::open(self.directory)
            .and_then(|below| below.make_folder(&values_folder_name(self.tiles)));
        made.map_err(failed("make or open", &folder))?;
        let size = ValueShardSize::PUBLISHED;
        let spans: Vec<ShardSpan> = size.spans(self.tiles).collect();
        // The large ones first, so that no thread is left with one.
        let left = Mutex::new(spans.iter().enumerate().rev());
        let infos = Mutex::new(Vec::new());
        progress.done.store(0, Ordering::Relaxed);
        progress.share(evaluators, |_| {
            while let Some((number, span)) = take(&left, Iterator::next) {
                let [start, end] = [span.ranks.start, span.ranks.end]
                    .map(|rank| usize::try_from(rank).expect("it is in memory"));
                let values = &areas[span.area as usize].get()[start..end];
                let mut shard = ValueShardWriter::new(number, span.clone());
                shard.push(values);
                let (info, bytes) = shard.finish();
                put(&folder.join(&info.name), &bytes)?;
                take(&infos, |infos: &mut Vec<(usize, ValueShardInfo)>| {
                    infos.push((number, info));
                });
                progress.add(values.len(), WRITING)?;
            }
            Ok(())
        })?;
        let mut infos = infos.into_inner();
        infos.sort_by_key(|(number, _)| *number);
        let infos = infos.into_iter().map(|(_, info)| info).collect();
        let manifest = ValuesManifest::new(self.tiles, size, 1, self.software.clone(), infos)?;
        self.compare(&manifest)?;
        let bytes = manifest.to_bytes();
        let sums = manifest.sha256sums(&bytes);
        put(&folder.join(SHA256SUMS_NAME), sums.as_bytes())?;
        put(&folder.join(MANIFEST_NAME), &bytes)?;
        Ok(manifest)
    }

    /// Compares a table with the known counts, and with a smaller table in the directory.
    fn compare(&self, manifest: &ValuesManifest) -> Result<(), BuildError> {
        for (area, known) in manifest.areas.iter().zip(LOSING_BY_TILES) {
            let tiles = area.tiles;
            let found = area.positions_by_value().first().copied().unwrap_or(0);
            if found != known {
                return Err(BuildError::OtherCount {
                    tiles,
                    found,
                    known,
                });
            }
        }
        let known = known::compare_values(|tiles| manifest.fingerprint_of(tiles));
        known.map_err(BuildError::OtherFingerprint)?;
        // One that cannot be read says nothing.
        let Ok(other) = Values::open(self.directory) else {
            return Ok(());
        };
        let other = other.manifest();
        if manifest.fingerprint_of(other.tiles) != Some(other.fingerprint) {
            let folder = values_folder_name(other.tiles);
            return Err(BuildError::OtherTable { folder });
        }
        Ok(())
    }
}

struct Progress<'a> {
    watch: &'a dyn BuildWatch,
    /// The numbers of all positions, and of those that are done.
    all: u64,
    done: AtomicU64,
    /// Whether a thread has failed, so that the others need not go on.
    has_failed: AtomicBool,
}

impl Progress<'_> {
    /// Adds positions to those that are done, at a `stage` that is this fraction of the work.
    #[expect(clippy::cast_precision_loss, reason = "it is shown as a bar")]
    fn add(&self, positions: usize, stage: Range<f64>) -> Result<(), BuildError> {
        let before = self.done.fetch_add(positions as u64, Ordering::Relaxed);
        let fraction = (before + positions as u64) as f64 / self.all as f64;
        let fraction = stage.start + (stage.end - stage.start) * fraction;
        match self.watch.done(fraction) {
            ControlFlow::Continue(()) if !self.has_failed.load(Ordering::Relaxed) => Ok(()),
            _ => Err(BuildError::Stopped),
        }
    }

    /// Has each evaluator do the same work in a thread of its own. What fails ends all.
    fn share(
        &self,
        evaluators: &mut [GrundyEvaluator],
        work: impl Fn(&mut GrundyEvaluator) -> Result<(), BuildError> + Sync,
    ) -> Result<(), BuildError> {
        let work = |evaluator: &mut GrundyEvaluator| {
            let done = work(evaluator);
            self.has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        std::thread::scope(|scope| {
            let threads = evaluators.iter_mut();
            let threads = threads.map(|evaluator| scope.spawn(|| work(evaluator)));
            let threads: Vec<_> = threads.collect();
            let ends = threads.into_iter().map(|thread| {
                let end = thread.join();
                end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // Why one failed says more than that others were to end.
            let errors = ends.filter_map(Result::err);
            let error = errors.max_by_key(|error| !matches!(error, BuildError::Stopped));
            error.map_or(Ok(()), Err)
        })
    }
}

fn take<T, R>(shared: &Mutex<T>, take: impl FnOnce(&mut T) -> R) -> R {
    take(&mut shared.lock())
}
