//! Marking goes window by window: windows suit the memory and the threads, and what is kept of those
//! that are done is believed only as it was written.

use crate::common::{check_bytes, check_window, publish, right_words};
use chomp_table::{Digest, Table, Word};
use chomp_verify::folder::FolderLists;
use chomp_verify::marking::{self, Band, Layout, LosingCounts, window_count};
use chomp_verify::progress::{MarkingProgress, Subject};
use chomp_verify::{CheckError, UNWATCHED};

const BITS: u32 = 13;

fn subject() -> (Table, Subject, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let lists = FolderLists::read(table.folder()).unwrap();
    let subject = Subject::new(&table, &lists, "chomp 1.2.3".into());
    (table, subject, dir)
}

#[test]
fn progress_is_believed_only_as_it_was_written() {
    let (table, subject, _dir) = subject();
    let mut progress = MarkingProgress::new(subject.clone(), BITS);
    assert_eq!((progress.windows_total(), progress.left()), (1, vec![0]));
    let larger = Subject {
        bits: 22,
        ..subject.clone()
    };
    assert_eq!(MarkingProgress::new(larger, 20).left(), [0, 1, 2, 3]);
    progress.millis = 17;
    let report = check_window(&table, BITS, 0).unwrap();
    progress.windows.insert(0, report.losing);
    assert_eq!(progress.left(), [0; 0]);
    let bytes = progress.to_bytes();
    assert_eq!(MarkingProgress::parse(&bytes, &subject).unwrap(), progress);
    let full = progress.finish(&table, 0).unwrap();
    assert_eq!(
        (full.positions, full.losing),
        (1 << (BITS - 1), table.manifest().losing)
    );

    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(
                MarkingProgress::parse(&bytes, &subject).is_err(),
                "{at}, {bit}"
            );
        }
        assert!(
            MarkingProgress::parse(&bytes[..at], &subject).is_err(),
            "{at}"
        );
    }
    assert!(MarkingProgress::parse(&[&bytes[..], b"\n"].concat(), &subject).is_err());

    let refused = |change: &dyn Fn(&mut MarkingProgress), part: &str| {
        let mut other = progress.clone();
        change(&mut other);
        let error = MarkingProgress::parse(&other.to_bytes(), &subject).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(
        &|other| other.subject.software = "chomp 1.2.4".into(),
        "it was written by chomp 1.2.4, and this is chomp 1.2.3",
    );
    refused(&|other| other.subject.bits += 1, "another table");
    let table = "another table, of 13 bits";
    refused(
        &|other| other.subject.fingerprint = Digest::of(b"other"),
        table,
    );
    refused(
        &|other| other.subject.manifest_sha256 = Digest::of(b"other"),
        table,
    );
    let windows = "windows that the table has not";
    refused(&|other| other.window_bits = BITS + 1, windows);
    refused(&|other| other.window_bits = BITS - 1, windows);
    refused(&|other| other.windows.extend([(1, 0)]), windows);
    refused(&|other| other.windows.extend([(0, u64::MAX)]), windows);

    // Windows that agreed, and not as many losing positions as there are.
    let mut wrong = progress.clone();
    wrong.windows.insert(0, report.losing - 1);
    let table = self::subject().0;
    let error = wrong.finish(&table, 1).unwrap_err();
    assert!(matches!(error, CheckError::Wrong(_)), "{error}");
}

/// A table of `bits` bits, with one losing word among 400.
fn sizes(bits: u32) -> LosingCounts {
    let least = marking::window_bits_min(bits);
    LosingCounts::of(bits, vec![(1 << least) / 400; 1 << (bits - least)])
}

#[test]
fn windows_suit_the_memory_and_the_threads() {
    const GIB: u64 = 1 << 30;
    for (bits, threads, memory, expected) in [
        // A small table is one window.
        (4, 2, GIB, Some((4, 4, 2))),
        (20, 8, GIB, Some((20, 20, 8))),
        // Sixteen windows, or four for each thread.
        (30, 2, GIB, Some((26, 30, 2))),
        (36, 2, GIB, Some((32, 36, 2))),
        (36, 64, 64 * GIB, Some((28, 36, 64))),
        (40, 2, 8 * GIB, Some((36, 40, 2))),
        // Less memory: smaller bands, with a window for each thread, and at last fewer threads.
        (40, 2, 4 * GIB, Some((35, 36, 2))),
        (40, 64, GIB, Some((25, 31, 64))),
        (40, 2, 32 << 20, Some((24, 24, 2))),
        (40, 2, 24 << 20, Some((24, 24, 1))),
        (40, 2, 4 << 20, None),
    ] {
        let found = sizes(bits).layout(threads, memory);
        let expected = expected.map(|(window_bits, band_bits, threads)| Layout {
            window_bits,
            band_bits,
            threads,
        });
        assert_eq!(found, expected, "{bits} bits, {threads} threads, {memory}");
    }
    for bits in [0, 1, 7, 19, 20, 21, 30] {
        let (sizes, least) = (sizes(bits), bits.min(20));
        assert_eq!(sizes.window_bits_min(), least);
        for threads in [1, 2, 5, 300] {
            for memory in (16..40).step_by(3).map(|shift| 1 << shift) {
                let Some(layout) = sizes.layout(threads, memory) else {
                    assert!(sizes.least_bytes(least) > memory);
                    continue;
                };
                assert!(layout.threads <= threads && layout.threads > 0);
                assert!(sizes.least_bytes(layout.band_bits) <= memory);
                assert!(window_count(bits, layout.window_bits) <= 1 << 16);
                assert!(layout.window_bits <= layout.band_bits && layout.band_bits <= bits);
            }
        }
    }
}

/// A band keeps the words of those regions in memory that a move leads to, two bytes each.
#[test]
fn smaller_bands_take_less_memory() {
    let sizes = sizes(40);
    let bytes = |band_bits: u32| sizes.least_bytes(band_bits);
    let whole = bytes(40);
    // Of a 400th of all words, and where each of 2^23 buckets begins.
    assert!((5_500_000_000..5_600_000_000).contains(&whole), "{whole}");
    assert!((24..37).all(|bits| bytes(bits) < bytes(bits + 1)));
    assert!(bytes(36) < whole * 4 / 5 && bytes(32) < whole / 5);
    assert!(bytes(24) < 20 << 20, "{}", bytes(24));
}

/// Bands of several windows, and windows of several blocks.
#[test]
fn bands_and_windows_of_any_size_agree() {
    let bits = 22;
    let losing = marking::losing(bits);
    assert_eq!(losing.len(), 26_597, "as others have counted them");
    let stored = losing.iter().copied().filter(|&word| {
        let word = Word::new(word);
        word <= word.mirror()
    });
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), bits, &stored.collect::<Vec<u64>>());
    let survey = check_bytes(&table).unwrap().survey;
    let interval = |number| losing.iter().filter(|&word| word >> 20 == number).count() as u64;
    assert_eq!(survey.intervals(), [0, 1, 2, 3].map(interval));
    for band_bits in 20..=bits {
        let mut bands = Vec::new();
        for band in 0..window_count(bits, band_bits) {
            bands.push(Band::gather(&table, band_bits, band, UNWATCHED).unwrap());
        }
        for window_bits in 20..=band_bits {
            let layout = Layout {
                window_bits,
                band_bits,
                threads: 1,
            };
            let mut found = (0, 0);
            for window in 0..window_count(bits, window_bits) {
                let band = &bands[usize::try_from(layout.band(window)).unwrap()];
                let report = band.check_window(window_bits, window, UNWATCHED).unwrap();
                found = (found.0 + report.positions, found.1 + report.losing);
            }
            let expected = (1 << (bits - 1), losing.len() as u64);
            assert_eq!(found, expected, "{window_bits}, {band_bits}");
        }
    }
}
