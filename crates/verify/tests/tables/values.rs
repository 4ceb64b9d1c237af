//! Tables of values: right ones pass, and every single wrong value is found and named.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;

use crate::common::asked;
use chomp_table::Partition;
use chomp_table::values::Values;
use chomp_testing::values::{SMALL, areas, publish};
use chomp_verify::folder::FolderLists;
use chomp_verify::sample::SampleReport;
use chomp_verify::values::{Areas, check_known, check_sample, gather, position_count, shard_bytes};
use chomp_verify::{CheckError, UNWATCHED, Watch};

fn open(directory: &Path, areas: &[Vec<u8>]) -> Values {
    Values::open(&publish(directory, SMALL, areas)).unwrap()
}

fn gathered(table: &Values, tiles: u32, watch: Watch<'_>) -> Result<Areas, CheckError> {
    let shards = table.manifest().shards().count();
    let shards = (0..shards).map(|number| table.read_shard(number));
    gather(table, tiles, shards, watch)
}

/// Holds the values of at most `tiles` tiles to the definition.
fn check(table: &Values, tiles: u32) -> Result<u64, CheckError> {
    let areas = gathered(table, tiles, UNWATCHED)?;
    let pieces = areas.pieces().into_iter();
    pieces.map(|piece| areas.check(table, &piece)).sum()
}

fn sample(table: &Values, positions: u64, memory: u64) -> Result<SampleReport, CheckError> {
    check_sample(table, asked(positions, 7, memory), UNWATCHED)
}

#[test]
fn right_values_pass() {
    let directory = tempfile::tempdir().unwrap();
    let areas = areas(43);
    let table = open(directory.path(), &areas);
    assert_eq!(check_known(&table).unwrap(), 39);
    for tiles in [1, 7, 30, 43] {
        assert_eq!(check(&table, tiles).unwrap(), position_count(tiles));
    }
    // The picks do not depend on the memory.
    let once = sample(&table, 3000, 1 << 30).unwrap();
    let often = sample(&table, 3000, 0).unwrap();
    assert_eq!((once.passes, once.positions, once.of_all), (1, 3000, 3000));
    assert!(often.passes > 100);
    assert_eq!((once.moves, once.losing), (often.moves, often.losing));
    // Each position has a move for every cell but the poison.
    assert!((40 * 3000..=42 * 3000).contains(&once.moves), "{once:?}");
    let losing = areas[41..].iter().flatten().filter(|&&value| value == 0);
    assert!(losing.count() > 0 && once.losing < 150, "{once:?}");
}

#[test]
fn every_wrong_value_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut areas = areas(10);
    let tiles = 9;
    for rank in 0..areas[tiles].len() {
        let position = Partition::at(9, rank as u64);
        let mirror = usize::try_from(position.mirror().rank()).unwrap();
        let right = areas[tiles][rank];
        for wrong in (0..9).filter(|&value| value != right) {
            areas[tiles][rank] = wrong;
            areas[tiles][mirror] = wrong;
            let table = open(directory.path(), &areas);
            let error = check(&table, 10).unwrap_err();
            assert!(matches!(error, CheckError::Wrong(_)), "{error}");
            let (text, named) = (error.to_string(), position.clone().representative());
            let says = |part: &str| assert!(text.contains(part), "{text}");
            says(&format!("the position {named} (9 tiles, rank "));
            says(&format!("has the value {wrong} in the table"));
            says(&format!("it is {right};"));
            assert!(check(&table, 8).is_ok());
        }
        areas[tiles][rank] = right;
        areas[tiles][mirror] = right;
    }
}

#[test]
fn wrong_values_are_met_by_a_sample() {
    let directory = tempfile::tempdir().unwrap();
    let mut areas = areas(42);
    // One in ten of 42 tiles, and nothing that is always checked.
    for rank in (0..areas[42].len()).step_by(10) {
        let mirror = Partition::at(42, rank as u64).mirror().rank();
        let wrong = (areas[42][rank] + 1) % 42;
        areas[42][rank] = wrong;
        areas[42][usize::try_from(mirror).unwrap()] = wrong;
    }
    let table = open(directory.path(), &areas);
    assert!(check(&table, 41).is_ok());
    let error = sample(&table, 400, 1 << 20).unwrap_err().to_string();
    assert!(error.contains("(42 tiles, rank"), "{error}");
    // Of the losing ones some are missing, which others have counted up to 39 tiles only.
    assert!(check_known(&table).is_ok());
}

#[test]
fn counts_of_others_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let mut areas = areas(5);
    let column = areas[5][0];
    areas[5][0] = 0;
    *areas[5].last_mut().unwrap() = 0;
    assert_eq!(column, 4);
    let table = open(directory.path(), &areas);
    let error = check_known(&table).unwrap_err().to_string();
    assert!(error.contains("5 positions of 5 tiles"), "{error}");
    assert!(error.contains("found 3 losing"), "{error}");
}

#[test]
fn a_table_that_is_replaced_while_it_is_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut areas = areas(6);
    let folder = publish(directory.path(), SMALL, &areas);
    let lists = FolderLists::read(&folder).unwrap();
    lists.open(&folder).unwrap();
    areas[6][0] = 1;
    *areas[6].last_mut().unwrap() = 1;
    publish(directory.path(), SMALL, &areas);
    let error = lists.open(&folder).unwrap_err();
    assert!(error.to_string().contains("it changed while"), "{error}");
}

/// A pass decides what fits in memory: some 1,000 positions of 43 queries of 24 bytes in a MiB, and never fewer than
/// 480 queries. Of a sample of 3,000 positions, 1 of 651 is wrong with a chance of 1 % when none of them is.
#[test]
fn a_sample_says_what_it_has_picked() {
    let directory = tempfile::tempdir().unwrap();
    let table = open(directory.path(), &areas(43));
    let told = RefCell::new(Vec::new());
    let watch = |part| {
        told.borrow_mut().push(part);
        ControlFlow::Continue(())
    };
    let report = check_sample(&table, asked(3000, 7, 1 << 20), &watch).unwrap();
    assert_eq!((report.seed, report.passes), (7, 3));
    assert_eq!((report.one_in_of_all, report.one_in_of_listed), (651, 1));
    // About one position in 38 of 41 to 43 tiles is losing.
    assert!((50..110).contains(&report.losing), "{report:?}");
    // The largest positions of the last pass need not be of the last shard.
    let told = told.into_inner();
    let end = *told.last().unwrap();
    assert!(told.is_sorted() && (0.95..=1.0).contains(&end), "{end}");
    let least = sample(&table, 3000, 0).unwrap();
    assert!((300..400).contains(&least.passes), "{least:?}");
}

/// There is nothing above the 40 tiles that are checked anyway, so all positions are picked from.
#[test]
fn a_small_table_is_sampled_in_whole() {
    let directory = tempfile::tempdir().unwrap();
    let areas = areas(40);
    let report = sample(&open(directory.path(), &areas), 2000, 1 << 30).unwrap();
    assert_eq!(report.positions, 2000);
    // Each has fewer moves than tiles.
    assert!((20 * 2000..39 * 2000).contains(&report.moves), "{report:?}");
}

/// The values of the largest shard, the bytes of its file, and a mebibyte to decode it.
#[test]
fn a_shard_takes_what_it_is_said_to_take() {
    let directory = tempfile::tempdir().unwrap();
    let table = open(directory.path(), &areas(25));
    let infos = table.manifest().shards().enumerate();
    let taken = infos.map(|(number, info)| {
        let values = table.read_shard(number).unwrap();
        values.len() as u64 + info.bytes
    });
    assert_eq!(shard_bytes(&table), taken.max().unwrap() + (1 << 20));
}

#[test]
fn checks_that_are_stopped_end() {
    let directory = tempfile::tempdir().unwrap();
    let table = open(directory.path(), &areas(6));
    let stop = |_| ControlFlow::Break(());
    let stopped = |error| assert!(matches!(error, CheckError::Stopped), "{error}");
    stopped(gathered(&table, 6, &stop).unwrap_err());
    stopped(check_sample(&table, asked(8, 1, 0), &stop).unwrap_err());
}
