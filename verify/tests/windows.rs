//! Marking goes window by window: windows suit the memory and the threads, and what is kept of those
//! that are done is believed only as it was written.

mod common;

use chomp_table::{Digest, Table};
use chomp_verify::folder::Lists;
use chomp_verify::marking::{self, Plan, check_window, plan, window_bytes, windows};
use chomp_verify::progress::{Progress, Subject};
use chomp_verify::{CheckError, UNWATCHED};
use common::{publish, right_words};

const BITS: u32 = 13;

fn subject() -> (Table, Subject, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), BITS, &right_words(BITS));
    let lists = Lists::read(table.folder()).unwrap();
    let subject = Subject::new(&table, &lists, "chomp 1.2.3".into());
    (table, subject, dir)
}

#[test]
fn progress_is_believed_only_as_it_was_written() {
    let (table, subject, _dir) = subject();
    let mut progress = Progress::new(subject.clone(), BITS);
    assert_eq!((progress.windows_total(), progress.left()), (1, vec![0]));
    progress.millis = 17;
    let report = check_window(&table, BITS, 0, UNWATCHED).unwrap();
    progress.windows.insert(0, report.losing);
    assert_eq!(progress.left(), [0; 0]);
    let bytes = progress.to_bytes();
    assert_eq!(Progress::parse(&bytes, &subject).unwrap(), progress);
    let full = progress.finish(&table, 0).unwrap();
    assert_eq!(
        (full.positions, full.losing),
        (1 << (BITS - 1), table.manifest().losing)
    );

    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(Progress::parse(&bytes, &subject).is_err(), "{at}, {bit}");
        }
        assert!(Progress::parse(&bytes[..at], &subject).is_err(), "{at}");
    }
    assert!(Progress::parse(&[&bytes[..], b"\n"].concat(), &subject).is_err());

    let refused = |change: &dyn Fn(&mut Progress), part: &str| {
        let mut other = progress.clone();
        change(&mut other);
        let error = Progress::parse(&other.to_bytes(), &subject).unwrap_err();
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

#[test]
fn windows_suit_the_memory_and_the_threads() {
    const GIB: u64 = 1 << 30;
    for (bits, threads, memory, expected) in [
        // A small table is one window.
        (4, 2, GIB, Some((4, 1))),
        (20, 8, GIB, Some((20, 1))),
        // Sixteen windows, or four for each thread.
        (30, 2, GIB, Some((26, 2))),
        (36, 2, 16 * GIB, Some((32, 2))),
        (36, 64, 64 * GIB, Some((28, 64))),
        (40, 2, 16 * GIB, Some((36, 2))),
        // Less memory: smaller windows, and at last fewer threads.
        (40, 2, GIB, Some((32, 2))),
        (42, 64, GIB, Some((30, 8))),
        (42, 2, 8 << 20, Some((26, 1))),
        (42, 2, 4 << 20, None),
    ] {
        let found = plan(bits, threads, memory);
        let expected = expected.map(|(window_bits, threads)| Plan {
            window_bits,
            threads,
        });
        assert_eq!(found, expected, "{bits} bits, {threads} threads, {memory}");
    }
    for bits in 0..=52 {
        for threads in [1, 2, 3, 5, 64, 300] {
            for memory in (16..40).map(|shift| 1 << shift) {
                let Some(plan) = plan(bits, threads, memory) else {
                    let least = marking::window_bits_min(bits);
                    assert!(window_bytes(least) > memory);
                    continue;
                };
                assert!(plan.threads <= threads && plan.threads > 0);
                assert!(plan.threads * window_bytes(plan.window_bits) <= memory);
                assert!(windows(bits, plan.window_bits) <= 1 << 16);
                assert!(plan.window_bits <= bits);
            }
        }
    }
}
