//! Boards that go on from what a folder has, or are larger than the memory.

use std::num::NonZeroUsize;
use std::path::Path;

use chomp_boxes::{Bounds, BoxSummary, Memory, Solver, ThinError};

use chomp_table::digest::Seal;

use super::Folder;

const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// All boards but one have eight rows.
fn open_folder(folder: &Path) -> Result<Folder, ThinError> {
    Folder::open(folder, 8, Seal::new(b"of the test"))
}

fn open(rows: usize, columns: usize, memory: u64, folder: &Path) -> Result<Solver, ThinError> {
    let bounds = Bounds::new(rows, columns).unwrap();
    let scratch = Box::new(open_folder(folder).unwrap());
    Solver::new(bounds, THREADS, memory, Some(scratch))
}

fn solver(columns: usize, memory: u64, folder: &Path) -> Solver {
    open(8, columns, memory, folder).unwrap()
}

fn advance(solver: &mut Solver) {
    assert!(solver.advance(&|_| true).unwrap());
}

/// Everything that is known in the end.
fn finish(mut solver: Solver) -> BoxSummary {
    while !solver.is_finished() {
        advance(&mut solver);
        solver.save().unwrap();
    }
    solver.summary().clone()
}

fn solve(columns: usize) -> BoxSummary {
    let bounds = Bounds::new(8, columns).unwrap();
    finish(Solver::new(bounds, THREADS, u64::MAX, None).unwrap())
}

/// Of a folder, only files that are ours are removed.
#[test]
fn files_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "first-draft",
        "first-1-draft",
        "first-1-0",
        ".first-1-0.x.partial",
    ];
    for name in names {
        chomp_durable_files::put(&folder.path().join(name), b"").unwrap();
    }
    let mut solver = solver(12, u64::MAX, folder.path());
    advance(&mut solver);
    advance(&mut solver);
    solver.save().unwrap();
    let there = names.map(|name| folder.path().join(name).try_exists().unwrap());
    assert_eq!(there, [true, true, false, false]);
    assert!(folder.path().join("first-2-1").try_exists().unwrap());
}

/// Whenever a process ends, the next one goes on from the last column that was saved; and a board with more columns
/// goes on from a smaller one.
#[test]
fn it_goes_on_from_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let expected = solve(12);
    for columns in 1..12 {
        // A finished solver saves no state, so the last column is not among these.
        let mut solver = solver(12, u64::MAX, folder.path());
        assert_eq!(solver.summary().columns(), columns - 1);
        advance(&mut solver);
        solver.save().unwrap();
        assert!(!solver.advance(&|_| false).unwrap());
    }
    let summary = finish(solver(12, u64::MAX, folder.path()));
    assert_eq!(summary, expected);
    let more = finish(solver(14, u64::MAX, folder.path()));
    assert_eq!(more, solve(14));
    let fewer = solver(5, u64::MAX, folder.path());
    assert!(fewer.is_finished());
    assert_eq!(fewer.summary().digests[5], expected.digests[5]);
    drop(fewer);
    let refused = open(9, 12, 0, folder.path());
    assert!(matches!(refused, Err(ThinError::Rows { found: 8 })));
}

#[test]
fn boards_larger_than_the_memory_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let expected = solve(12);
    let Memory { whole, .. } = Memory::of(&Bounds::new(8, 9).unwrap(), THREADS);
    let mut streamed = solver(12, whole, folder.path());
    while streamed.summary().columns() < 10 {
        assert_eq!(streamed.is_streamed(), streamed.summary().columns() > 9);
        advance(&mut streamed);
    }
    assert!(streamed.is_streamed());
    drop(streamed);
    let streamed = solver(12, whole, folder.path());
    assert_eq!(streamed.summary().columns(), 10);
    assert_eq!(finish(streamed), expected);
}

#[test]
fn a_damaged_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut left = solver(12, u64::MAX, folder.path());
    while left.summary().columns() < 5 {
        advance(&mut left);
    }
    left.save().unwrap();
    drop(left);
    for name in ["first-5-3", "box.json"] {
        let path = folder.path().join(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[7] ^= 1;
        let short = &good[..good.len() - 1];
        for (content, memory) in [
            (&bad[..], u64::MAX),
            (&bad, 0),
            (short, u64::MAX),
            (short, 0),
        ] {
            chomp_durable_files::put(&path, content).unwrap();
            let solver = open(8, 12, memory, folder.path());
            let error = solver.and_then(|mut solver| solver.advance(&|_| true));
            assert!(
                matches!(error, Err(ThinError::Damaged { .. })),
                "{name}: {error:?}"
            );
        }
        chomp_durable_files::put(&path, &good).unwrap();
    }
    assert_eq!(finish(solver(12, 0, folder.path())), solve(12));
}

#[test]
fn one_process_at_a_time_has_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = open_folder(folder.path()).unwrap();
    let second = open_folder(folder.path());
    assert!(matches!(second, Err(ThinError::File(_))));
    drop(scratch);
    assert!(open_folder(folder.path()).is_ok());
}
