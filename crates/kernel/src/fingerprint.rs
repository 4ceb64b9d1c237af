//! The kernel's fingerprint: the digest of known ranges, evaluated here and now.
//!
//! Every correct program and CPU gets the same digest. A worker computes it when it joins, so most workers that would
//! compute something else are refused before they compute anything that matters. It is the SHA-256 over, for each
//! sample, its range bits (4 bytes), and for each of its ranges the head (8), the edges (8), the number of losing
//! positions (8) and their indices (4 each), all little-endian.

use std::collections::BTreeMap;

use chomp_table::sources::closure;
use chomp_table::{Digest, Head, Range, RangeBits, head};
use parking_lot::Mutex;

use crate::Isa;
use crate::evaluate::evaluate_heads;

/// Whole tables, as bits and range bits: dense ranges, which only small heads have, of 4, 64 and 256 chunks. So
/// pyramids of all heights up to eight occur, tall ones finished by pieces among them, and sets of whole buckets.
const TABLES: [(u32, u32); 3] = [(17, 12), (19, 16), (19, 18)];

/// Heads of longer words, and range bits: sparse ranges with long runs in their sources, which are evaluated too.
const TALL: [(u64, u32); 2] = [(1 << 30, 12), (0b11 << 9, 13)];

/// With `isa`, or the widest set below it that this CPU has. It takes milliseconds, once: a process remembers it.
pub fn fingerprint(isa: Isa) -> Digest {
    static KNOWN: Mutex<BTreeMap<Isa, Digest>> = Mutex::new(BTreeMap::new());
    // The lock is held until the fingerprint is computed; a panic leaves the map as it was.
    let mut known = KNOWN.lock();
    *known.entry(isa).or_insert_with(|| evaluate(isa))
}

fn evaluate(isa: Isa) -> Digest {
    let mut bytes = Vec::new();
    for (range_bits, heads) in samples() {
        let ranges = evaluate_heads(heads.iter().copied(), range_bits, isa);
        bytes.extend_from_slice(&range_bits.get().to_le_bytes());
        for head in heads {
            write(&ranges[&head], &mut bytes);
        }
    }
    Digest::of(&bytes)
}

/// The samples: range bits, and heads in the order of their layers.
fn samples() -> impl Iterator<Item = (RangeBits, Vec<Head>)> {
    let range_bits = |bits| RangeBits::new(bits).expect("within the limits");
    let tables = TABLES.into_iter().map(move |(bits, b)| {
        let b = range_bits(b);
        (b, head::layers(bits, b).concat())
    });
    let tall = TALL.into_iter().map(move |(head, b)| {
        let b = range_bits(b);
        (b, closure(Head(head), b))
    });
    tables.chain(tall)
}

fn write(range: &Range, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&range.head.0.to_le_bytes());
    bytes.extend_from_slice(&range.edges.to_le_bytes());
    bytes.extend_from_slice(&(range.losing.len() as u64).to_le_bytes());
    bytes.extend(range.losing.indices().flat_map(u32::to_le_bytes));
}

#[cfg(test)]
mod tests {
    use chomp_table::Word;
    use chomp_testing::definition::Oracle;

    use super::*;

    /// The bytes that are digested, by the definition of W, and where each range ends in them.
    fn by_definition() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut oracle = Oracle::default();
        for (range_bits, heads) in samples() {
            bytes.extend_from_slice(&range_bits.get().to_le_bytes());
            for head in heads {
                let b = range_bits.get();
                let edge = |x: u32| Word::new(head.0 << b | ((1 << (b - x)) - 1));
                let range = Range {
                    head,
                    losing: (0u32..)
                        .take(1 << (b - 1))
                        .filter(|&index| oracle.is_losing(head.word(index.into(), range_bits)))
                        .collect(),
                    edges: (0..=b)
                        .filter(|&x| oracle.is_losing(edge(x)))
                        .map(|x| 1 << x)
                        .sum(),
                };
                write(&range, &mut bytes);
                ends.push(bytes.len());
            }
        }
        (bytes, ends)
    }

    #[test]
    fn it_is_that_of_the_definition_for_all_instruction_sets_and_depends_on_every_range() {
        let (mut bytes, ends) = by_definition();
        let known = Digest::of(&bytes);
        for isa in Isa::ALL {
            assert_eq!(fingerprint(isa), known, "{isa}");
        }
        assert_eq!(
            known.to_string(),
            "b17eb54fc4619add86812ad55e9471f1fc051e58d780fc947abc5691a54b8ac3",
            "workers of other versions compare with it"
        );
        for end in ends {
            bytes[end - 1] ^= 1;
            assert_ne!(Digest::of(&bytes), known);
            bytes[end - 1] ^= 1;
        }
    }
}
