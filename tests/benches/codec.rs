//! How near the shards of published tables are to the entropy of what they hold.
//!
//! ```text
//! cargo bench -p chomp-tests --bench codec -- DIR...       the tables in these directories
//! ```
//!
//! Bits for each losing position, both of a mirror pair counted:
//!
//! * **shards**: all bytes of the shard files.
//! * **gaps**: the entropy of the gaps between words, with the frequencies of each data frame: what
//!   a code needs that has words in ascending order, takes each gap for itself, and is told the
//!   frequencies.
//! * **in classes**: the same for the gaps between words with the same low bits, as shards have
//!   them.
//! * **distance**: from there to the shards: codes of whole bits, their tables, far and wide gaps,
//!   index entries.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::HashMap;
use std::path::Path;

use chomp_table::Table;

/// The low bits of their halves in which the words of a class agree, as in `chomp_table::classes`.
const CLASS_BITS: u32 = 6;

fn main() {
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    println!("bits        losing   shards     gaps   in classes   distance");
    for table in args {
        row(Path::new(&table));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people, of four digits"
)]
fn row(path: &Path) {
    let table = Table::open(path).expect("a directory with a published table");
    let manifest = table.manifest();
    let (mut gaps, mut in_classes) = (0.0, 0.0);
    for words in table.words() {
        let words = words.expect("an undamaged table");
        gaps += entropy(words.windows(2).map(|pair| pair[1] - pair[0]));
        in_classes += entropy(gaps_in_classes(&words).into_iter());
    }
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    let losing = manifest.losing as f64;
    let shards = bytes as f64 * 8.0 / losing;
    let (gaps, in_classes) = (gaps / losing, in_classes / losing);
    println!(
        "{:4} {:13} {shards:8.3} {gaps:8.3} {in_classes:12.3} {:10.3}",
        manifest.bits,
        manifest.losing,
        shards - in_classes,
    );
}

/// From each of the ascending `words` that has one before it in its class, the way to that one.
fn gaps_in_classes(words: &[u64]) -> Vec<u64> {
    let mut before = HashMap::new();
    let gap = |&word: &u64| {
        let class = word / 2 % (1 << CLASS_BITS);
        before.insert(class, word).map(|last| word - last)
    };
    words.iter().filter_map(gap).collect()
}

/// The bits that `symbols` need when each takes the logarithm of how rare it is among them.
#[expect(
    clippy::cast_precision_loss,
    reason = "at most as many as a frame has words"
)]
fn entropy(symbols: impl Iterator<Item = u64>) -> f64 {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for symbol in symbols {
        *counts.entry(symbol).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    let bits = |count: &u64| *count as f64 * (all as f64 / *count as f64).log2();
    counts.values().map(bits).sum()
}
