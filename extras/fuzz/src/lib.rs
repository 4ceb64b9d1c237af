//! Feeds every decoder of outside bytes with seeds from the project's writers, changed by chance, digests made right.
//!
//! | module | holds |
//! |---|---|
//! | [`targets`] | the decoders, and what each promises |
//! | [`seeds`] | bytes that each must accept |
//! | `secrets` | inputs that nobody keeps |
//! | `values` | both for tables of Grundy values |
//! | `mutate` | changes by chance |
//! | `seal` | makes lengths and digests right, so that changes reach what lies behind them |
//!
//! A promise that is broken is a panic. Each execution follows from its target and a number alone, so what was found
//! once is found again. Nothing here needs more than stable Rust: there is no feedback from the code that is executed.

mod mutate;
mod seal;
mod secrets;
pub mod seeds;
pub mod targets;
mod values;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fastrand::Rng;
use peak_alloc::PeakAlloc;

use targets::Target;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const INPUT_BYTES_MAX: usize = 64 << 10;
/// The bytes of memory allowed for any input: contexts of zstd, parsers.
const MEMORY_FIXED: usize = 2 << 20;
/// The most bytes of memory for any input: four times the largest block that somebody may write, of 2^24 values.
const MEMORY_MAX: usize = 64 << 20;

/// The outcome of some executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many there were.
    pub executions: u64,
    /// How many inputs were accepted.
    pub accepted: u64,
}

/// An input with which a promise is broken.
#[derive(Debug)]
pub struct Broken {
    /// The number of the execution.
    pub seed: u64,
    /// The input.
    pub input: Vec<u8>,
    /// The panic's text, or the memory that was taken.
    pub what: String,
}

/// A target and the inputs that it begins with.
#[derive(Debug)]
pub struct Fuzzer {
    target: &'static Target,
    corpus: Vec<Vec<u8>>,
}

impl Fuzzer {
    /// With the kept inputs of a target, and those made anew for each process. Fails if the kept ones cannot be read.
    pub fn new(target: &'static Target) -> io::Result<Fuzzer> {
        let mut corpus: Vec<Vec<u8>> = kept(target)?.into_iter().map(|(_, input)| input).collect();
        corpus.extend((target.fresh)());
        Ok(Fuzzer { target, corpus })
    }

    /// The input of the execution with this number.
    pub fn input(&self, seed: u64) -> Vec<u8> {
        let mut rng = Rng::with_seed(seed);
        let mut input = mutate::any(&self.corpus, &mut rng);
        input.truncate(INPUT_BYTES_MAX);
        if rng.u8(..) > 32 {
            (self.target.seal)(&mut input, &mut rng);
        }
        input
    }

    /// Feeds `input` to the target; whether it was accepted. Fails with the promise that is broken.
    pub fn check(&self, input: &[u8]) -> Result<bool, String> {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let accepted = catch_unwind(AssertUnwindSafe(|| (self.target.check)(input)));
        let accepted = accepted.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("a panic without words").to_owned()
        })?;
        let taken = MEMORY.peak_usage().saturating_sub(before);
        let most = MEMORY_FIXED + self.target.memory_factor * input.len();
        let most = most.min(MEMORY_MAX);
        if taken > most {
            return Err(format!("it took {taken} bytes of memory, more than {most}"));
        }
        Ok(accepted)
    }

    /// Executes the target with the inputs of these numbers. Fails at the first input with which a promise is broken.
    pub fn run(&self, seeds: impl Iterator<Item = u64>) -> Result<Count, Broken> {
        let mut count = Count::default();
        for seed in seeds {
            let input = self.input(seed);
            match self.check(&input) {
                Ok(accepted) => {
                    count.executions += 1;
                    count.accepted += u64::from(accepted);
                }
                Err(what) => return Err(Broken { seed, input, what }),
            }
        }
        Ok(count)
    }
}

/// The folder with the kept inputs of a target.
pub fn corpus_folder(target: &Target) -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.join("corpus").join(target.name)
}

/// The kept inputs of a target, with the names of their files. Fails if one cannot be read.
pub fn kept(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = corpus_folder(target);
    if !folder.try_exists()? {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        kept.push((name, fs::read(entry.path())?));
    }
    kept.sort();
    Ok(kept)
}
