//! Helpers that tests of several modules share.

use std::sync::Arc;

use chomp_access::Participants;
use chomp_kernel::{Evaluator, Isa, Source};
use chomp_store::merge::{Merger, ShardBounds};
use chomp_store::objects::SimulatedStorage;
use chomp_store::part::PartBuilder;
use chomp_store::{Entry, Finders, Journal, PartName, ShardSummary, Storage, published};
use chomp_table::head::layers;
use chomp_table::manifest::folder_name;
use chomp_table::range::{decode, encode};
use chomp_table::{Range, RangeBits};
use tokio::sync::watch;

use crate::ready;
use crate::tools::Tools;

/// The list of a job of which nobody but the owner is a participant.
pub(crate) fn nobody() -> watch::Receiver<Participants> {
    watch::channel(Participants::default()).1
}

/// The least bits of a range: a small table has several ranges.
pub(crate) fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

/// The journal of a table whose ranges are all done, with a part for each layer in the storage. Each range goes through
/// `change` before others follow from it.
pub(crate) fn journal_of_ranges(
    storage: &Arc<SimulatedStorage>,
    bits: u32,
    mut change: impl FnMut(&mut Range),
) -> Arc<Journal> {
    let journal = Journal::open(storage.clone(), range_bits(), bits, 1, 2);
    let journal = ready(journal).unwrap();
    let mut evaluator = Evaluator::new(range_bits(), Isa::Portable);
    let mut sources = std::collections::HashMap::new();
    for (layer, heads) in (0..).zip(layers(bits, range_bits())) {
        let mut builder = PartBuilder::default();
        for head in heads {
            let mut range = evaluator.evaluate(head, &sources).unwrap();
            change(&mut range);
            sources.insert(head, Source::new(range.clone()));
            let (summary, record) = encode(&range, range_bits());
            builder.push(summary, &record);
        }
        let (bytes, ranges) = builder.finish();
        let lease = journal.epoch() << 32;
        let part = PartName { layer, lease };
        ready(storage.create(&part.key(), bytes)).unwrap();
        let done = Entry::Done {
            finders: Finders::default(),
            part,
            replicas: 2 + layer,
            ranges,
        };
        ready(journal.append(vec![done])).unwrap();
    }
    Arc::new(journal)
}

/// The shard with this number of a table whose ranges are all done, with its file in the storage.
pub(crate) fn merge(tools: &Tools, number: u32) -> ShardSummary {
    let ranges = tools.done_ranges(u64::MAX);
    let words = tools.shard_size.shard_words as u64;
    let mut skip = u64::from(number) * words;
    let begins = ranges.iter().find(|(_, row)| {
        let begins = skip < row.stored;
        skip -= if begins { 0 } else { row.stored };
        begins
    });
    let (head, _) = begins.expect("a shard of the table");
    let start = (number, *head, skip);
    let bounds = ShardBounds::new(&tools.journal.ledger(), tools.bits, words, start).unwrap();
    let mut merger = Merger::new(tools.bits, range_bits(), tools.shard_size, bounds);
    while let Some(head) = merger.next_head() {
        let range = ready(tools.read(head, |record| decode(record, range_bits()))).unwrap();
        let stored = tools.done_range(head).unwrap().stored;
        merger.push(head, &range.losing, stored).unwrap();
    }
    let (summary, bytes) = merger.finish().unwrap();
    if let (Some(file), Some(bytes)) = (summary.file(), bytes) {
        let folder = folder_name(tools.bits);
        let key = published::key(&folder, &file.name).unwrap();
        ready(published::put(&*tools.storage, &folder, &key, bytes.into())).unwrap();
    }
    summary
}
