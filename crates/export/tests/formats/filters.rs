//! Filters against brute force, and what cannot be exported.

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::common::{SMALL, bytes_with, losing, rows_of, with_table, words};
use chomp_export::{ExportError, ExportProgress, ExportRequest, Filter, Format, Rectangle, export};
use chomp_table::{Table, TableError, Word};
use chomp_testing::tables::{publish, write_manifest};

/// The losing positions that a filter lets through, each condition taken literally.
fn brute_force(all: &[Word], filter: Filter, cells: Option<(u32, u32)>) -> Vec<u64> {
    let passes = |word: Word| {
        let rows = rows_of(word.get());
        let count = u32::try_from(rows.len()).unwrap();
        let area = rows.iter().sum::<u32>();
        filter.bits.is_none_or(|bits| count + rows[0] <= bits)
            && cells.is_none_or(|(least, most)| least <= area && area <= most)
            && filter
                .within
                .is_none_or(|within| count <= within.rows() && rows[0] <= within.columns())
    };
    let taken = all.iter().copied().filter(|&word| passes(word));
    let wanted = taken.filter(|&word| {
        let mirror = word.mirror();
        filter.both || word <= mirror || !passes(mirror)
    });
    wanted.map(Word::get).collect()
}

#[test]
fn filters_are_what_they_say() {
    let all = losing(14);
    let mut sizes = Vec::new();
    with_table(14, |table| {
        for bits in [None, Some(0), Some(2), Some(9), Some(14)] {
            for cells in [
                None,
                Some((1, 1)),
                Some((7, 7)),
                Some((5, 13)),
                Some((9, 49)),
            ] {
                for sides in [
                    None,
                    Some((7, 7)),
                    Some((5, 9)),
                    Some((9, 5)),
                    Some((2, 12)),
                    Some((40, 3)),
                ] {
                    for both in [false, true] {
                        let text = cells.map(|(least, most)| format!("{least}-{most}"));
                        let filter = Filter {
                            bits,
                            areas: text.map(|text| text.parse().unwrap()),
                            within: sides.and_then(|(r, c)| Rectangle::new(r, c)),
                            both,
                        };
                        let needed = [
                            bits,
                            cells.map(|(_, most)| most + 1),
                            sides.map(|(r, c)| r + c),
                        ];
                        let needed = needed.into_iter().flatten().min();
                        let memory = if both { 500 } else { u64::MAX };
                        if needed.is_some_and(|needed| needed > 14) {
                            let error = bytes_with(table, Format::Words, filter, memory);
                            let error = error.unwrap_err();
                            assert!(
                                matches!(error, ExportError::Beyond { needed: bits, table_bits: 14 } if Some(bits) == needed),
                                "{error:?}"
                            );
                            continue;
                        }
                        let expected = brute_force(&all, filter, cells);
                        assert_eq!(words(table, filter, memory), expected, "{filter:?}");
                        sizes.push(expected.len());
                    }
                }
            }
        }
    });
    sizes.sort_unstable();
    sizes.dedup();
    assert!(sizes.len() > 30, "{sizes:?}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let square = Rectangle::new(8, 8);
    let request = |format, bits, area: Option<&str>, within| ExportRequest {
        format,
        filter: Filter {
            bits,
            areas: area.map(|area| area.parse().unwrap()),
            within,
            both: false,
        },
        memory: 1 << 20,
    };
    with_table(16, |table| {
        let ask = |request: ExportRequest| {
            let go_on = &mut |_| ControlFlow::Continue(());
            export(table, &request, &mut io::sink(), go_on)
        };
        let refused = |request: ExportRequest, text: &str| {
            let error = ask(request).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        for format in [Format::ChompFast, Format::ChompFastCheckpoint] {
            ask(request(format, None, None, square)).unwrap();
            refused(request(format, None, None, None), "--box 16x16");
            refused(request(format, Some(16), None, square), "leave out --bits");
            refused(request(format, None, Some("20"), square), "and --area");
            let large = Rectangle::new(9, 9);
            refused(
                request(format, None, None, large),
                "needs a table of 18 bits",
            );
        }
        let oblong = Rectangle::new(7, 8);
        ask(request(Format::ChompFast, None, None, oblong)).unwrap();
        refused(
            request(Format::ChompFastCheckpoint, None, None, oblong),
            "is for a square",
        );
    });
    for (format, name) in Format::ALL {
        assert_eq!(name.parse(), Ok(format));
        assert_eq!(format.to_string(), name);
    }
    assert!("xml".parse::<Format>().is_err());
}

fn request_for(format: Format, both: bool) -> ExportRequest {
    let fast = matches!(format, Format::ChompFast | Format::ChompFastCheckpoint);
    ExportRequest {
        format,
        filter: Filter {
            within: Rectangle::new(7, 7).filter(|_| fast),
            both,
            ..Filter::default()
        },
        memory: 1000,
    }
}

/// Takes `room` bytes, and then is full.
struct SmallDisk {
    room: usize,
    full: io::ErrorKind,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        if taken == 0 {
            return Err(self.full.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_at_any_byte_is_an_error_of_every_format() {
    with_table(14, |table| {
        for (format, _) in Format::ALL {
            for both in [false, true] {
                let request = request_for(format, both);
                let go_on = &mut |_| ControlFlow::Continue(());
                let length = export(table, &request, &mut io::sink(), go_on)
                    .unwrap()
                    .bytes;
                let length = usize::try_from(length).unwrap();
                for room in (0..length).step_by(1 + length / 50).chain([length - 1]) {
                    let full = io::ErrorKind::StorageFull;
                    let error = export(table, &request, &mut SmallDisk { room, full }, go_on);
                    let error = error.unwrap_err();
                    assert!(matches!(error, ExportError::Full), "{format}: {error:?}");
                    let full = io::ErrorKind::BrokenPipe;
                    let error = export(table, &request, &mut SmallDisk { room, full }, go_on);
                    assert!(
                        matches!(error, Err(ExportError::Write(error)) if error.kind() == full)
                    );
                }
                let full = io::ErrorKind::StorageFull;
                let mut just_enough = SmallDisk { room: length, full };
                export(table, &request, &mut just_enough, go_on).unwrap();
            }
        }
    });
}

#[test]
fn it_stops_when_it_is_told_to() {
    with_table(14, |table| {
        for (format, _) in Format::ALL {
            let request = request_for(format, true);
            for pieces in 0..6 {
                let mut seen = 0;
                let mut stop = |_: ExportProgress| {
                    seen += 1;
                    if seen > pieces {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                };
                let error = export(table, &request, &mut io::sink(), &mut stop);
                assert!(matches!(error, Err(ExportError::Stopped)), "{format}");
                assert_eq!(seen, pieces + 1);
            }
        }
    });
}

#[test]
fn a_damaged_table_is_not_exported() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    let table = Table::open(dir.path()).unwrap();
    let shard = folder.join(&table.manifest().shards[0].name);
    let mut bytes = fs::read(&shard).unwrap();
    bytes[40] ^= 4;
    fs::write(&shard, bytes).unwrap();
    for (format, _) in Format::ALL {
        let mut request = request_for(format, false);
        if request.filter.within.is_some() {
            request.filter.within = Rectangle::new(6, 6);
        }
        let go_on = &mut |_| ControlFlow::Continue(());
        let error = export(&table, &request, &mut io::sink(), go_on);
        assert!(
            matches!(&error, Err(ExportError::Table(TableError::Damaged { file, .. })) if *file == shard),
            "{format}: {error:?}"
        );
    }
}

#[test]
fn a_table_whose_manifest_counts_otherwise_is_not_exported() {
    let dir = tempfile::tempdir().unwrap();
    let folder = publish(dir.path(), 12, SMALL);
    let mut manifest = Table::open(&folder).unwrap().manifest().clone();
    manifest.losing_by_bits[9] += 2;
    write_manifest(&folder, &manifest);
    let table = Table::open(&folder).unwrap();
    let needs_box = |format| matches!(format, Format::ChompFast | Format::ChompFastCheckpoint);
    for (format, _) in Format::ALL {
        if needs_box(format) {
            continue;
        }
        let mut filter = Filter::default();
        bytes_with(&table, format, filter, 0).unwrap();
        filter.bits = Some(9);
        let error = bytes_with(&table, format, filter, 0).unwrap_err();
        assert!(
            matches!(&error, ExportError::Table(TableError::Damaged { file, .. }) if file.ends_with("manifest.json")),
            "{error}"
        );
    }
}
