//! `chomp box` for three to five rows and more columns than other boards may have.
//!
//! With `--scratch` the folder has a file `few`: eight bytes with the length of the JSON, the [`FewTally`] as JSON, the
//! state of the solver, and the mark of this user's seal on the SHA-256 of all before it. The file is replaced as a
//! whole, and nothing in it is used before its mark was checked.

use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use chomp_boxes::few::{Few, FewSolver};
use chomp_boxes::{FewTally, ThinError, in_order};
use chomp_durable_files::{NewFile, failed, open_nofollow};
use chomp_export::few::{FewPositions, TakesPositions, export_few, format_of};
use chomp_export::{ExportError, Format};
use chomp_query::Opening;
use chomp_table::digest::{Digest, DigestBuilder, Hashed, Seal};
use serde::Serialize;

use super::{BoxArgs, SAVE_PAUSE_FACTOR, SolvedBox, enough, open_scratch, run_and_print};
use crate::exit::usage;
use crate::export::create;
use crate::progress::{Display, Teller};

pub(super) const COLUMNS_MAX: usize = 200_000;
/// The bytes of counts, first moves and their JSON for each column and row.
const TALLY_BYTES: u64 = 300;
/// The least time that a part of the work should take. The state may be saved after each part.
const ADVANCE_TIME: Duration = Duration::from_secs(1);

pub(super) async fn run(
    args: &BoxArgs,
    (rows, columns): (usize, usize),
    display: &Display,
) -> anyhow::Result<()> {
    let few = Few::new(&vec![columns; rows]);
    let threads = args.share.threads();
    let tally = (columns * rows) as u64 * TALLY_BYTES;
    let needed = few.memory(threads).saturating_add(tally);
    enough(&args.share, needed, "")?;
    let free = args.share.memory_bytes()?.saturating_sub(needed);
    let out = args
        .positions
        .as_deref()
        .map(|path| Out::create(path, args.force))
        .transpose()?;
    let folder = open_scratch(args, rows)?;
    let file = args.scratch.as_ref().map(|folder| folder.join("few"));
    let solve = move |teller: &Teller| {
        // The closure owns `folder`, and with it the lock on the folder.
        let kept = file.as_deref().zip(folder.as_ref());
        let kept = kept.map(|(path, folder)| Kept {
            path,
            seal: &folder.seal,
        });
        let loaded = kept.as_ref().map(|kept| kept.load(&few));
        let mut run = loaded
            .transpose()?
            .flatten()
            .unwrap_or_else(|| FewRun::new(few));
        if !run.finish(threads, kept.as_ref(), teller)? {
            return Ok(None);
        }
        let FewRun { solver, tally } = run;
        let losing = tally.losing();
        let few = FewPositions {
            rows,
            count: losing[rows][columns],
            digest: tally.digest(),
        };
        let write = |out: Out| out.write(few, &tally.by_first_row(), free, threads, teller);
        let openings = tally.openings().into_iter();
        let openings = openings.map(|((rows, columns), moves)| Opening {
            rows,
            columns,
            moves,
        });
        Ok(Some(SolvedBox {
            rows,
            columns,
            positions: solver.few().positions(),
            losing: few.count,
            losing_by_rows_and_columns: losing,
            digest: few.digest.to_string(),
            file: out.map(write).transpose()?,
            openings: openings.collect(),
        }))
    };
    run_and_print(args, display, solve, SolvedBox::lines).await
}

#[derive(Debug, Serialize)]
pub(super) struct PositionsFile {
    pub(super) out: String,
    pub(super) bytes: u64,
    pub(super) sha256: Digest,
}

struct Out {
    path: PathBuf,
    format: Format,
    file: NewFile,
}

impl Out {
    fn create(path: &Path, force: bool) -> anyhow::Result<Out> {
        let format = format_of(path).ok_or_else(|| {
            usage("--positions takes a file whose name ends in .csv, .npy or .parquet")
        })?;
        Ok(Out {
            path: path.to_owned(),
            format,
            file: create(path, force)?,
        })
    }

    /// Finds the positions again, and writes them in batches. A batch has at most `bytes` bytes, or the positions of
    /// one first row if these are more.
    fn write(
        mut self,
        few: FewPositions,
        counts: &[u64],
        bytes: u64,
        threads: NonZeroUsize,
        teller: &Teller,
    ) -> anyhow::Result<PositionsFile> {
        let most = bytes / size_of::<[u32; 5]>() as u64;
        let give = &mut |take: &mut TakesPositions<'_>| {
            let mut taken = Ok(());
            let tell = |done| teller.stage("positions", done).is_continue();
            let goes_on = in_order(few.rows, counts, most, threads, tell, |positions| {
                taken = take(positions);
                taken.is_ok()
            });
            taken.and(goes_on.then_some(()).ok_or(ExportError::Stopped))
        };
        let failed = || format!("cannot write {}", self.path.display());
        let report = export_few(self.format, few, give, &mut self.file).with_context(failed)?;
        self.file.finish().with_context(failed)?;
        Ok(PositionsFile {
            bytes: report.bytes,
            sha256: report.sha256,
            out: self.path.display().to_string(),
        })
    }
}

struct FewRun {
    solver: FewSolver,
    tally: FewTally,
}

impl FewRun {
    fn new(few: Few) -> FewRun {
        FewRun {
            tally: FewTally::new(few.rows(), few.columns()),
            solver: FewSolver::new(few),
        }
    }

    /// Solves to the end. False if it was cancelled.
    #[expect(
        clippy::disallowed_methods,
        reason = "how often the state is saved depends on what that takes"
    )]
    fn finish(
        &mut self,
        threads: NonZeroUsize,
        kept: Option<&Kept<'_>>,
        teller: &Teller,
    ) -> Result<bool, ThinError> {
        let FewRun { solver, tally } = self;
        let (mut third_rows, mut wait, mut saved) = (1, Duration::ZERO, Instant::now());
        while !solver.is_finished() {
            let begun = Instant::now();
            let goes_on = solver.advance(third_rows, threads, |tails, done| {
                tally.add(&tails);
                teller.stage("third rows", done).is_continue()
            });
            if !goes_on {
                return Ok(false);
            }
            if begun.elapsed() < ADVANCE_TIME {
                third_rows *= 2;
            }
            if let Some(kept) = kept
                && saved.elapsed() >= wait
            {
                let before = Instant::now();
                kept.save(solver, tally)?;
                saved = Instant::now();
                wait = saved.duration_since(before) * SAVE_PAUSE_FACTOR;
            }
        }
        Ok(true)
    }
}

/// The file of the state.
struct Kept<'a> {
    path: &'a Path,
    seal: &'a Seal,
}

impl Kept<'_> {
    fn load(&self, few: &Few) -> Result<Option<FewRun>, ThinError> {
        let (mut file, metadata) = match open_nofollow(self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed("open", self.path))?,
        };
        let damaged = || ThinError::Damaged {
            path: self.path.to_owned(),
        };
        let read = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData => damaged(),
            _ => failed("read", self.path)(error).into(),
        };
        let mut hash = DigestBuilder::default();
        let marked = metadata.len().saturating_sub(size_of::<Digest>() as u64);
        io::copy(&mut (&mut file).take(marked), &mut hash).map_err(read)?;
        let mut mark = Digest::default();
        file.read_exact(&mut mark.0).map_err(read)?;
        if self.seal.mark(hash.finish()) != mark {
            return Err(damaged());
        }
        file.rewind().map_err(read)?;
        let mut from = BufReader::new(file);
        let mut length = [0; 8];
        from.read_exact(&mut length).map_err(read)?;
        let mut text = Vec::new();
        let mut tally = (&mut from).take(u64::from_le_bytes(length));
        tally.read_to_end(&mut text).map_err(read)?;
        let tally: FewTally = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if !tally.is_of(few.rows(), few.columns()) {
            let (rows, columns) = tally.sides();
            return Err(ThinError::Few { rows, columns });
        }
        let solver = FewSolver::load(few.clone(), &mut from).map_err(read)?;
        Ok(Some(FewRun { solver, tally }))
    }

    fn save(&self, solver: &mut FewSolver, tally: &FewTally) -> Result<(), ThinError> {
        let file = NewFile::create(self.path, true)?;
        let mut to = Hashed::new(BufWriter::new(file));
        let text = serde_json::to_vec(tally).expect("numbers and texts");
        let written = to.write_all(&(text.len() as u64).to_le_bytes());
        let written = written.and_then(|()| to.write_all(&text));
        let written = written.and_then(|()| solver.save(&mut to));
        let mark = self.seal.mark(to.digest().1);
        let mut file = to.into_inner();
        let written = written.and_then(|()| file.write_all(&mark.0));
        let file = written.and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error));
        Ok(file.map_err(failed("write", self.path))?.finish()?)
    }
}
