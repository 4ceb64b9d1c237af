//! Each format against a slow twin of it, on all tables of at most 16 bits.

use std::fmt::Write;
use std::io;
use std::ops::ControlFlow;

use crate::common::{
    SMALL, bytes, bytes_with, losing, number, representatives, rows_of, with_table, words,
};
use chomp_export::few::{FewPositions, TakesPositions, export_few};
use chomp_export::{ExportError, ExportRequest, Filter, Format, Rectangle, export};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Table, Word};
use chomp_testing::tables::publish_words;
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{ListAccessor, RowAccessor};
use roaring::RoaringTreemap;

const BOTH: Filter = Filter {
    bits: None,
    areas: None,
    within: None,
    both: true,
};

/// Calls `test` with each table of at most 16 bits, and with what an export of it should hold,
/// without and with mirror images.
fn with_tables(test: impl Fn(&Table, Filter, &[u64])) {
    for bits in 0..=16 {
        with_table(bits, |table| {
            test(table, Filter::default(), &representatives(bits));
            let both: Vec<u64> = losing(bits).into_iter().map(Word::get).collect();
            test(table, BOTH, &both);
        });
    }
}

/// A table of 44 bits of some words, whatever they are, and of the hooks with equal arms, which a
/// manifest counts on.
fn with_large_words(count: u64, test: impl FnOnce(&Table, Vec<u64>)) {
    with_words_in(SMALL, count, test);
}

/// As [`with_large_words`], with shards of `size`.
fn with_words_in(size: ShardSize, count: u64, test: impl FnOnce(&Table, Vec<u64>)) {
    let bits = 44;
    let hook = |arm: u32| 1_u64 << (2 * arm - 1) | ((1 << arm) - 2);
    let mut words: Vec<u64> = (1..=bits / 2).map(hook).collect();
    words.extend((0..count).map(|n| {
        let path = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (20 + n % 16);
        Word::new(path).representative().get()
    }));
    words.sort_unstable();
    words.dedup();
    words.retain(|&word| word > 0);
    let dir = tempfile::tempdir().unwrap();
    publish_words(dir.path(), bits, size, &words);
    test(&Table::open(dir.path()).unwrap(), words);
}

#[test]
fn words_are_lines() {
    with_tables(|table, filter, expected| {
        assert_eq!(words(table, filter, u64::MAX), expected);
    });
}

#[test]
fn rows_are_lines_with_all_there_is_to_say() {
    with_tables(|table, filter, expected| {
        let mut lines = "word,bits,area,rows\n".to_owned();
        for &word in expected {
            let rows = rows_of(word);
            let (bits, area) = (rows[0] as usize + rows.len(), rows.iter().sum::<u32>());
            let rows = rows.iter().map(u32::to_string);
            let rows = rows.collect::<Vec<_>>().join("+");
            writeln!(lines, "{word},{bits},{area},{rows}").unwrap();
        }
        let (report, bytes) = bytes(table, Format::Rows, filter);
        assert_eq!(String::from_utf8(bytes).unwrap(), lines);
        assert_eq!(report.positions, expected.len() as u64);
    });
}

#[test]
fn npy_is_a_header_and_words() {
    with_tables(|table, filter, expected| {
        let (report, bytes) = bytes(table, Format::Npy, filter);
        let (header, payload) = bytes.split_at(128);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = format!(
            "{{'descr': '<u8', 'fortran_order': False, 'shape': ({},), }}",
            expected.len()
        );
        let found = std::str::from_utf8(&header[10..]).unwrap();
        assert_eq!(found.trim_end(), text);
        assert!(found.ends_with('\n'));
        let found: Vec<u64> = payload.chunks(8).map(number).collect();
        assert_eq!(found, expected);
        assert_eq!(report.positions, expected.len() as u64);
    });
}

#[test]
fn parquet_is_read_back() {
    let check = |table: &Table, filter, expected: &[u64]| {
        let (report, bytes) = bytes(table, Format::Parquet, filter);
        assert_eq!(report.positions, expected.len() as u64);
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let schema = file.metadata().file_metadata().schema();
        let names: Vec<&str> = schema
            .get_fields()
            .iter()
            .map(|field| field.name())
            .collect();
        assert_eq!(names, ["word", "bits", "area", "rows"]);
        let metadata = file.metadata().file_metadata().key_value_metadata();
        let told = metadata.unwrap().iter();
        let told: Vec<_> = told.map(|one| (&one.key[..], one.value.clone())).collect();
        let manifest = table.manifest();
        let fingerprint = manifest.fingerprint.to_string();
        let folder = format!("table-{:02}", manifest.bits);
        let origin = [
            ("chomp.table", Some(folder)),
            ("chomp.fingerprint", Some(fingerprint)),
        ];
        assert_eq!(told, origin);
        let mut found = Vec::new();
        for row in file.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let word = row.get_ulong(0).unwrap();
            let lengths = row.get_list(3).unwrap();
            let lengths: Vec<u32> = (0..lengths.len())
                .map(|at| u32::from(lengths.get_ubyte(at).unwrap()))
                .collect();
            assert_eq!(lengths, rows_of(word));
            let (bits, area) = (row.get_ubyte(1).unwrap(), row.get_ushort(2).unwrap());
            assert_eq!(usize::from(bits), lengths[0] as usize + lengths.len());
            assert_eq!(u32::from(area), lengths.iter().sum::<u32>());
            found.push(word);
        }
        assert_eq!(found, expected);
    };
    with_tables(check);
    // Several batches.
    with_large_words(20_000, |table, expected| {
        check(table, Filter::default(), &expected);
    });
}

/// More positions than a row group has: none is missing between groups.
#[test]
fn few_rows_are_written_in_each_format() {
    let positions = [
        [1, 0, 0, 0, 0],
        [70_000, 3, 2, 1, 0],
        [70_001, 70_000, 9, 0, 0],
    ];
    let of = FewPositions {
        rows: 4,
        count: 3,
        digest: Digest::of(b"all"),
    };
    let write = |format| {
        let mut bytes = Vec::new();
        let give = &mut |take: &mut TakesPositions<'_>| {
            take(&positions[..1])?;
            take(&positions[1..])
        };
        let report = export_few(format, of, give, &mut bytes).unwrap();
        let expected = (3, bytes.len() as u64, Digest::of(&bytes));
        assert_eq!((report.positions, report.bytes, report.sha256), expected);
        bytes
    };
    let text = "rows\n1\n70000+3+2+1\n70001+70000+9\n";
    assert_eq!(write(Format::Rows), text.as_bytes());

    let array = write(Format::Npy);
    let (header, payload) = array.split_at(128);
    let header = std::str::from_utf8(&header[10..]).unwrap();
    assert!(header.starts_with("{'descr': '<u4', 'fortran_order': False, 'shape': (3, 4), }"));
    let numbers = payload
        .chunks(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    let lengths = positions.iter().flat_map(|position| &position[..4]);
    assert!(numbers.eq(lengths.copied()));

    let file = SerializedFileReader::new(bytes::Bytes::from(write(Format::Parquet))).unwrap();
    for (row, position) in file.get_row_iter(None).unwrap().zip(positions) {
        let row = row.unwrap();
        let lengths: Vec<u32> = (0..4).map(|at| row.get_uint(at).unwrap()).collect();
        assert_eq!(lengths, position[..4]);
    }
    let metadata = file.metadata().file_metadata();
    assert_eq!(metadata.num_rows(), 3);
    let told = metadata.key_value_metadata().unwrap();
    assert!(
        told.iter()
            .any(|one| one.value == Some(of.digest.to_string()))
    );

    let stopped = &mut |_: &mut TakesPositions<'_>| Err(ExportError::Stopped);
    let ended = export_few(Format::Rows, of, stopped, &mut Vec::new());
    assert!(matches!(ended, Err(ExportError::Stopped)));
    let other = export_few(Format::Words, of, &mut |_| Ok(()), &mut Vec::new());
    assert!(matches!(other, Err(ExportError::Unsuited { .. })));
}

#[test]
fn row_groups_follow_each_other() {
    const GROUP: usize = 1 << 20;
    with_words_in(ShardSize::PUBLISHED, 1_150_000, |table, expected| {
        assert!(expected.len() > GROUP);
        let (report, bytes) = bytes(table, Format::Parquet, Filter::default());
        assert_eq!(report.positions, expected.len() as u64);
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let metadata = file.metadata();
        let rows = metadata.file_metadata().num_rows();
        assert_eq!(usize::try_from(rows).unwrap(), expected.len());
        assert_eq!(metadata.num_row_groups(), 2);
        let mut found = Vec::new();
        for group in 0..metadata.num_row_groups() {
            let group = file.get_row_group(group).unwrap();
            let Ok(ColumnReader::Int64ColumnReader(mut words)) = group.get_column_reader(0) else {
                panic!("words have 64 bits");
            };
            let (rows, ..) = words.read_records(GROUP, None, None, &mut found).unwrap();
            assert_eq!(i64::try_from(rows), Ok(group.metadata().num_rows()));
        }
        assert!(found.iter().map(|word| word.cast_unsigned()).eq(expected));
    });
}

#[test]
fn roaring_is_read_back() {
    let check = |table: &Table, filter, expected: &[u64]| {
        let (report, bytes) = bytes(table, Format::Roaring, filter);
        let found = RoaringTreemap::deserialize_from(&bytes[..]).unwrap();
        assert!(found.iter().eq(expected.iter().copied()));
        assert_eq!(report.positions, expected.len() as u64);
        // The output of the library itself, which has all words in memory.
        let mut twin = Vec::new();
        let all = RoaringTreemap::from_sorted_iter(expected.iter().copied()).unwrap();
        all.serialize_into(&mut twin).unwrap();
        assert_eq!(bytes, twin);
    };
    with_tables(check);
    with_large_words(1000, |table, mut expected| {
        check(table, Filter::default(), &expected);
        let mirrors: Vec<u64> = expected
            .iter()
            .map(|&word| Word::new(word).mirror().get())
            .collect();
        expected.extend(mirrors);
        expected.sort_unstable();
        expected.dedup();
        assert!(expected.iter().any(|word| word >> 32 > 5));
        check(table, BOTH, &expected);
    });
}

#[test]
fn large_words_are_sorted_whatever_the_memory() {
    with_large_words(1000, |table, representatives| {
        let mut expected: Vec<u64> = representatives
            .iter()
            .flat_map(|&word| [word, Word::new(word).mirror().get()])
            .collect();
        expected.sort_unstable();
        expected.dedup();
        for memory in [0, 100, 3000, u64::MAX] {
            assert_eq!(words(table, BOTH, memory), expected, "{memory} bytes");
        }
    });
}

/// Takes a few bytes at a time.
struct Slow(Vec<u8>);

impl io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(7);
        self.0.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_digest_is_of_what_was_taken() {
    with_table(12, |table| {
        let request = ExportRequest {
            format: Format::Rows,
            filter: BOTH,
            memory: 0,
        };
        let mut slow = Slow(Vec::new());
        let go_on = &mut |_| ControlFlow::Continue(());
        let report = export(table, &request, &mut slow, go_on).unwrap();
        assert_eq!((report, slow.0), bytes(table, Format::Rows, BOTH));
    });
}

fn inside(rows: u32, columns: u32) -> Filter {
    Filter {
        within: Rectangle::new(rows, columns),
        ..Filter::default()
    }
}

#[test]
fn catalogues_hold_the_words_of_the_box() {
    with_table(16, |table| {
        let all = losing(16);
        for (rows, columns) in [(8, 8), (5, 9), (9, 5), (3, 13), (1, 1), (2, 2), (6, 10)] {
            let expected: Vec<u64> = all
                .iter()
                .map(|word| word.get())
                .filter(|&word| {
                    let position = rows_of(word);
                    position.len() <= rows as usize && position[0] <= columns
                })
                .collect();
            for memory in [0, 800, u64::MAX] {
                let box_of = inside(rows, columns);
                let (report, bytes) = bytes_with(table, Format::ChompFast, box_of, memory).unwrap();
                let (header, payload) = bytes.split_at(32);
                assert_eq!(&header[..8], b"CHOMPP02");
                assert_eq!(number(&header[8..16]), expected.len() as u64);
                assert_eq!(number(&header[16..24]), *expected.last().unwrap());
                assert_eq!(number(&header[24..28]), u64::from(columns));
                assert_eq!(number(&header[28..]), u64::from(rows));
                let found: Vec<u64> = payload.chunks(8).map(number).collect();
                assert_eq!(found, expected, "{rows}x{columns}, {memory} bytes");
                assert_eq!(report.positions, expected.len() as u64);
            }
        }
    });
}

#[test]
fn checkpoints_hold_a_class_for_each_rows_and_columns() {
    with_table(16, |table| {
        let all = losing(16);
        for side in 1..=8 {
            let mut expected = b"CHOMPCP2".to_vec();
            let mut positions = 0;
            for h in 3..side {
                for w in h + 1..=side {
                    let of_class = |word: u64| {
                        let position = rows_of(word);
                        let (r, c) = (u32::try_from(position.len()).unwrap(), position[0]);
                        r + c > 12 && ((r, c) == (h, w) || (r, c) == (w, h))
                    };
                    let words: Vec<u64> = all
                        .iter()
                        .map(|word| word.get())
                        .filter(|&word| of_class(word))
                        .collect();
                    let mut hashed = Vec::new();
                    for n in [u64::from(w), u64::from(h), words.len() as u64]
                        .iter()
                        .chain(&words)
                    {
                        hashed.extend(n.to_le_bytes());
                    }
                    let checksum = hashed
                        .iter()
                        .fold(1_469_598_103_934_665_603_u64, |sum, &byte| {
                            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
                        });
                    expected.extend(b"CLAS");
                    expected.extend(u16::try_from(w).unwrap().to_le_bytes());
                    expected.extend(u16::try_from(h).unwrap().to_le_bytes());
                    expected.extend((words.len() as u64).to_le_bytes());
                    expected.extend(checksum.to_le_bytes());
                    expected.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                    positions += words.len() as u64;
                }
            }
            for memory in [0, 300, 800, u64::MAX] {
                let format = Format::ChompFastCheckpoint;
                let square = inside(side, side);
                let (report, bytes) = bytes_with(table, format, square, memory).unwrap();
                assert_eq!(bytes, expected, "{side}, {memory} bytes");
                assert_eq!(report.positions, positions);
            }
        }
        // As `verify_v8_8.py` of that program has it.
        let (report, _) = bytes(table, Format::ChompFastCheckpoint, inside(8, 8));
        let published = "9e1779f0056efce30ac104fb10fb321afb649a467d314c3e5c257859c6ccd491";
        assert_eq!(report.sha256, published.parse::<Digest>().unwrap());
    });
}
