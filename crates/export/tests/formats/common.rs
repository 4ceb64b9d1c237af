//! Exports into memory, and what they should hold.

use std::ops::ControlFlow;

use chomp_export::{ExportError, ExportReport, ExportRequest, Filter, Format, export};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Position, Table, Word};
use chomp_testing::definition;
use chomp_testing::tables::publish;

/// Small, so that there are many frames and shards.
pub(crate) const SMALL: ShardSize = ShardSize {
    frame_words: 50,
    shard_words: 400,
};

/// Calls `test` with the table of `bits` bits.
pub(crate) fn with_table(bits: u32, test: impl FnOnce(&Table)) {
    let dir = tempfile::tempdir().unwrap();
    publish(dir.path(), bits, SMALL);
    test(&Table::open(dir.path()).unwrap());
}

/// All losing positions of at most `bits` bits, by the definition; words ascend.
pub(crate) fn losing(bits: u32) -> Vec<Word> {
    let losing = definition::losing(bits);
    let losing = (0..losing.len()).filter(|&index| losing[index]);
    losing.map(|index| Word::new(index as u64 * 2)).collect()
}

/// The losing positions of at most `bits` bits of which one is taken from each mirror pair.
pub(crate) fn representatives(bits: u32) -> Vec<u64> {
    let words = losing(bits).into_iter();
    let words = words.filter(|word| word.mirror() >= *word);
    words.map(Word::get).collect()
}

pub(crate) fn rows_of(word: u64) -> Vec<u32> {
    Position::from(Word::new(word)).rows().to_vec()
}

/// The bytes of an export within `memory` bytes, and its report, which must be right.
pub(crate) fn bytes_with(
    table: &Table,
    format: Format,
    filter: Filter,
    memory: u64,
) -> Result<(ExportReport, Vec<u8>), ExportError> {
    let request = ExportRequest {
        format,
        filter,
        memory,
    };
    let mut bytes = Vec::new();
    let mut last = chomp_export::ExportProgress::default();
    let report = export(table, &request, &mut bytes, &mut |progress| {
        assert!(progress.read <= progress.total, "{progress:?}");
        assert!(progress.read >= last.read, "{progress:?} {last:?}");
        last = progress;
        ControlFlow::Continue(())
    })?;
    assert_eq!(last.read, last.total);
    assert_eq!(report.bytes, bytes.len() as u64);
    assert_eq!(report.sha256, Digest::of(&bytes));
    Ok((report, bytes))
}

/// The bytes and the report of an export with unlimited memory.
pub(crate) fn bytes(table: &Table, format: Format, filter: Filter) -> (ExportReport, Vec<u8>) {
    bytes_with(table, format, filter, u64::MAX).unwrap()
}

/// The words of an export, read from the simplest format.
pub(crate) fn words(table: &Table, filter: Filter, memory: u64) -> Vec<u64> {
    let (report, bytes) = bytes_with(table, Format::Words, filter, memory).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("word"));
    let words: Vec<u64> = lines.map(|line| line.parse().unwrap()).collect();
    assert_eq!(report.positions, words.len() as u64);
    words
}

/// The number in some bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}
