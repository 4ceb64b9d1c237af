//! The merge of Grundy values: the ranges of some ranks of one area become the bytes of one shard.

use chomp_table::values::shard::{ShardPlace, ShardSize, ValueShardWriter};
use chomp_table::{Head, RankBits};

use super::MergeError;
use crate::merged::MergedValues;

/// A shard of values that is being filled.
#[derive(Debug)]
pub struct ValueMerger {
    number: u32,
    next: Head,
    /// The first range that is not in it.
    end: Head,
    shard: ValueShardWriter,
}

impl ValueMerger {
    /// Shard number `number` of a table of `tiles` tiles.
    ///
    /// # Errors
    ///
    /// [`MergeError::Beyond`] if there is none.
    pub fn new(tiles: u32, rank_bits: RankBits, number: u32) -> Result<ValueMerger, MergeError> {
        let index = usize::try_from(number).expect("32 bits");
        let place = ShardSize::PUBLISHED.places(tiles).nth(index);
        let place = place.ok_or(MergeError::Beyond { number })?;
        let ShardPlace { area, ranks, .. } = &place;
        let last = rank_bits.head(*area, ranks.end - 1);
        Ok(ValueMerger {
            number,
            next: rank_bits.head(*area, ranks.start),
            end: Head(last.0 + 1),
            shard: ValueShardWriter::new(index, place),
        })
    }

    /// The range that is to be pushed next; none if all were.
    pub fn next(&self) -> Option<Head> {
        (self.next < self.end).then_some(self.next)
    }

    /// Takes the values of the next range.
    ///
    /// # Panics
    ///
    /// If it is not the next range.
    pub fn push(&mut self, head: Head, values: &[u8]) {
        assert_eq!(Some(head), self.next(), "ranges come in order");
        self.next = Head(head.0 + 1);
        self.shard.push(values);
    }

    /// The shard, and what it says of itself.
    ///
    /// # Panics
    ///
    /// If ranges are missing.
    pub fn finish(self) -> (MergedValues, Vec<u8>) {
        let (shard, bytes) = self.shard.finish();
        let number = self.number;
        (MergedValues { number, shard }, bytes)
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::values::shard::decode_shard;
    use chomp_table::{Division, Partition};

    use crate::merged::MergedShard;

    use super::*;

    /// The values that a shard has to store: those of the representatives.
    fn stored(place: &ShardPlace, value: impl Fn(u64) -> u8) -> Vec<u8> {
        let mut position = Partition::at(place.area, place.ranks.start);
        let mut stored = Vec::new();
        for rank in place.ranks.clone() {
            if position.is_representative() {
                stored.push(value(rank));
            }
            position.advance();
        }
        stored
    }

    /// No two ranges have the same values, so none can stand for another.
    #[test]
    fn a_shard_has_the_values_of_each_range_in_its_place() {
        let tiles = 34;
        let rank_bits = RankBits::new(8).unwrap();
        let value = |rank: u64| u8::try_from((rank ^ rank >> 8) % 31).unwrap();
        let number = tiles - 1;
        let place = ShardSize::PUBLISHED.places(tiles).last().unwrap();
        let mut merger = ValueMerger::new(tiles, rank_bits, number).unwrap();
        while let Some(head) = merger.next() {
            let (_, ranks) = rank_bits.ranks(head).unwrap();
            merger.push(head, &ranks.map(value).collect::<Vec<_>>());
        }
        let (of_area, bytes) = merger.finish();
        let found = decode_shard(&bytes, &of_area.shard, &place).unwrap();
        assert_eq!(found, stored(&place, value));
    }

    /// 81 are the fewest tiles that have more than one shard.
    #[test]
    fn the_second_shard_of_an_area_has_its_ranges() {
        let rank_bits = RankBits::new(20).unwrap();
        let places: Vec<_> = ShardSize::PUBLISHED.places(81).collect();
        assert_eq!((places[80].area, places[80].ranks.start), (81, 0));
        let place = &places[81];
        assert_eq!((place.area, place.ranks.start), (81, 1 << 24));
        let value = |rank| u8::try_from(rank % 79).unwrap();
        let mut merger = ValueMerger::new(81, rank_bits, 81).unwrap();
        let mut heads = Vec::new();
        while let Some(head) = merger.next() {
            let (area, ranks) = rank_bits.ranks(head).unwrap();
            assert_eq!(area, 81);
            merger.push(head, &ranks.map(value).collect::<Vec<_>>());
            heads.push(head);
        }
        assert_eq!(
            heads,
            [1 << 24, 17 << 20].map(|rank| rank_bits.head(81, rank))
        );
        let (of_area, bytes) = merger.finish();
        assert_eq!(of_area.number, 81);
        let found = decode_shard(&bytes, &of_area.shard, place).unwrap();
        assert!(!found.is_empty());
        assert_eq!(found, stored(place, value));

        let said = MergedShard::from(of_area.clone());
        let file = said.file().unwrap();
        assert_eq!(file.name, "shard-0081.zst");
        assert_eq!(file.bytes, bytes.len() as u64);
        let parse = |values: &MergedValues, tiles| {
            let json = serde_json::to_vec(values).unwrap();
            MergedShard::parse(&json, Division::Ranks(rank_bits), tiles)
        };
        assert_eq!(parse(&of_area, 81).unwrap(), said);
        let (mut renamed, mut moved) = (of_area.clone(), of_area.clone());
        renamed.shard.name = "shard-0080.zst".to_owned();
        moved.number = 80;
        for (wrong, tiles) in [(&renamed, 81), (&moved, 81), (&of_area, 80)] {
            assert!(parse(wrong, tiles).is_err(), "{wrong:?} of {tiles} tiles");
        }

        let beyond = ValueMerger::new(81, rank_bits, 82);
        assert!(matches!(beyond, Err(MergeError::Beyond { number: 82 })));
    }
}
