//! Checks tables of Grundy values by the definition: the value of a position is the least number that is not the value
//! of a position that one move leads to.
//!
//! A check makes moves on the rows, and takes the values of the positions after them from the table. A check of all
//! positions, those of the fewest tiles first, finds every table with a wrong value: the first wrong value contradicts
//! right ones.
//!
//! [`gather`] keeps the values of small areas in memory, and [`Areas::check`] compares each of them with the
//! definition. [`check_sample`] does the same for random positions of the larger areas, in one pass over the table for
//! each batch.

use std::ops::Range;

use chomp_table::known;
use chomp_table::partition::count;
use chomp_table::rng::Rng;
use chomp_table::values::Values;
use chomp_table::values::shard::ValueShardSize;
use chomp_table::{Partition, TableError};

use crate::known::BY_AREA;
use crate::sample::{Sample, SampleReport, fraction_done, one_in, random_below};
use crate::{CheckError, Watch, ensure, tell};

/// All positions of at most `TILES_CHECKED` tiles are always checked.
pub const TILES_CHECKED: u32 = 40;

/// The ranks that a thread checks at a time.
const PIECE_RANKS: usize = 1 << 14;
/// No position of 120 tiles has more moves.
const MOVES_MAX: usize = 120;

/// The memory that [`Values::read_shard`] takes for any shard, in bytes: its values, and the bytes of its file.
pub fn shard_bytes(table: &Values) -> u64 {
    let shards = table.manifest().shards();
    let largest = shards.map(|shard| shard.stored + shard.bytes).max();
    largest.unwrap_or(0) + (1 << 20)
}

/// The number of positions of 1 to `tiles` tiles. [`Areas`] takes a byte of memory for each.
pub fn position_count(tiles: u32) -> u64 {
    (1..=tiles).map(count).sum()
}

/// The values of all positions up to some number of tiles, both of each mirror pair: by tiles, then by rank.
#[derive(Debug)]
pub struct Areas(Vec<Vec<u8>>);

/// Some positions of one area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    tiles: u32,
    ranks: Range<u64>,
}

/// Takes the values of each shard of `table` from [`Values::read_shard`], in order, and keeps those of positions of at
/// most `tiles` tiles. Fails at the first error of a shard.
pub fn gather(
    table: &Values,
    tiles: u32,
    shards: impl Iterator<Item = Result<Vec<u8>, TableError>>,
    watch: Watch<'_>,
) -> Result<Areas, CheckError> {
    let manifest = table.manifest();
    let all = position_count(manifest.tiles);
    let mut seen = 0;
    let mut areas = Areas(vec![Vec::new()]);
    for (span, stored) in manifest.spans().zip(shards) {
        let stored = stored?;
        seen += span.ranks.end - span.ranks.start;
        if span.area <= tiles {
            if span.ranks.start == 0 {
                areas.0.push(vec![0; size(count(span.area))]);
            }
            span.spread(&stored, &mut areas.0[span.area as usize]);
        }
        tell(watch, seen, all)?;
    }
    Ok(areas)
}

impl Areas {
    /// All positions, in pieces, the fewest tiles first.
    pub fn pieces(&self) -> Vec<Piece> {
        let pieces = |tiles: u32| {
            let starts = (0..count(tiles)).step_by(PIECE_RANKS);
            starts.map(move |start| Piece {
                tiles,
                ranks: start..count(tiles).min(start + PIECE_RANKS as u64),
            })
        };
        let tiles = u32::try_from(self.0.len()).expect("at most 121");
        (1..tiles).flat_map(pieces).collect()
    }

    /// Compares each value of a piece with the definition. The table has one value for a mirror pair, so one position
    /// of the pair is checked. Returns the number of positions, both of a pair counted. Fails if the value of a
    /// position is not the least that its moves do not lead to.
    pub fn check(&self, table: &Values, piece: &Piece) -> Result<u64, CheckError> {
        let area = &self.0[piece.tiles as usize];
        let mut position = Partition::at(piece.tiles, piece.ranks.start);
        let mut checked = 0;
        for rank in piece.ranks.clone() {
            checked += position.stands_for();
            if position.is_representative() {
                let left = position.moves();
                let left = left.map(|(_, left)| self.0[left.area() as usize][size(left.rank())]);
                let mut led_to = 0;
                left.for_each(|value| led_to |= bit(value));
                compare(table, &position, area[size(rank)], led_to)?;
            }
            position.advance();
        }
        Ok(checked)
    }
}

/// The set of one value, which is less than the 120 tiles of the largest position.
fn bit(value: u8) -> u128 {
    1 << value
}

/// Returns [`CheckError::Wrong`] unless `value` is the least number that the moves do not lead to.
fn compare(
    table: &Values,
    position: &Partition,
    value: u8,
    led_to: u128,
) -> Result<(), CheckError> {
    let right = led_to.trailing_ones();
    ensure(u32::from(value) == right, || {
        let (tiles, rank) = (position.area(), position.rank());
        let mut shards = table.manifest().shards().zip(table.manifest().spans());
        let shard = shards.find(|(_, span)| span.area == tiles && span.ranks.contains(&rank));
        let file = shard.map_or("no shard", |(shard, _)| &shard.name);
        format!(
            "the position {position} ({tiles} tiles, rank {rank}, {file}) has the value {value} in the table; \
             by the values there of what its moves leave it is {right}"
        )
    })
}

/// Compares the number of losing positions of each area with what others found. Returns how many were compared.
pub fn check_known(table: &Values) -> Result<u64, CheckError> {
    let mut compared = 0;
    for (area, &known) in table.manifest().areas.iter().zip(BY_AREA) {
        let found = area.positions_by_value().first().copied().unwrap_or(0);
        ensure(found == known, || {
            let tiles = area.tiles;
            format!(
                "the table has {found} positions of {tiles} tiles with the value 0; others have found {known} losing ones"
            )
        })?;
        compared += 1;
    }
    let manifest = table.manifest();
    if manifest.size() == ValueShardSize::PUBLISHED {
        let known = known::compare_values(|tiles| manifest.fingerprint_of(tiles));
        known.map_err(|other| CheckError::Wrong(other.to_string()))?;
    }
    Ok(compared)
}

/// Decides random positions of more than [`TILES_CHECKED`] tiles, each as likely as any other. If the table has no such
/// positions, all positions may be picked. Fails if the table cannot be read; if the value of a position is not the
/// least that its moves do not lead to.
pub fn check_sample(
    table: &Values,
    sample: Sample,
    watch: Watch<'_>,
) -> Result<SampleReport, CheckError> {
    let tiles = table.manifest().tiles;
    let checked = if tiles > TILES_CHECKED {
        position_count(TILES_CHECKED)
    } else {
        0
    };
    let all = position_count(tiles) - checked;
    let most = usize::try_from(sample.memory / size_of::<Query>() as u64).unwrap_or(usize::MAX);
    let most = most.clamp(4 * MOVES_MAX, u32::MAX as usize);
    let mut rng = Rng(sample.seed);
    let mut report = SampleReport {
        seed: sample.seed,
        one_in_of_all: one_in(sample.positions),
        one_in_of_listed: one_in(0),
        ..SampleReport::default()
    };
    while report.positions < sample.positions {
        let mut batch = Batch::default();
        let left = sample.positions - report.positions;
        while (batch.positions.len() as u64) < left && batch.queries.len() + MOVES_MAX < most {
            batch.push(numbered(checked + random_below(&mut rng, all)));
        }
        let (before, these) = (report.positions, batch.positions.len() as u64);
        let watch = |fraction| watch(fraction_done(before, these, sample.positions, fraction));
        report.moves += batch.queries.len() as u64 - these;
        report.losing += batch.decide(table, &watch)?;
        report.positions += these;
        report.passes += 1;
    }
    report.of_all = report.positions;
    Ok(report)
}

/// The position with this number: by tiles, then by rank.
fn numbered(mut number: u64) -> Partition {
    let mut tiles = 1;
    while number >= count(tiles) {
        number -= count(tiles);
        tiles += 1;
    }
    Partition::at(tiles, number)
}

/// A position to be looked up, the representative of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Query {
    /// Tiles and rank.
    address: (u32, u64),
    /// Twice the number of the position that is decided; 1 more if its own value is looked up.
    tag: u64,
}

/// Positions that are decided in one pass.
#[derive(Debug, Default)]
struct Batch {
    positions: Vec<Partition>,
    queries: Vec<Query>,
}

impl Batch {
    fn push(&mut self, position: Partition) {
        let tag = 2 * self.positions.len() as u64;
        let query = |position: Partition, tag| {
            let position = position.representative();
            let address = (position.area(), position.rank());
            Query { address, tag }
        };
        self.queries.push(query(position.clone(), tag + 1));
        let moves = position.moves();
        self.queries.extend(moves.map(|(_, left)| query(left, tag)));
        self.positions.push(position);
    }

    /// Compares all of them with the definition. Returns how many are losing.
    fn decide(mut self, table: &Values, watch: Watch<'_>) -> Result<u64, CheckError> {
        let mut found = vec![(0, 0); self.positions.len()];
        self.queries.sort_unstable();
        look_up(table, &self.queries, watch, |tag, value| {
            let (own, led_to) = &mut found[size(tag / 2)];
            if tag % 2 == 1 {
                *own = value;
            } else {
                *led_to |= bit(value);
            }
        })?;
        let mut losing = 0;
        for (position, (own, led_to)) in self.positions.iter().zip(found) {
            compare(table, position, own, led_to)?;
            losing += u64::from(own == 0);
        }
        Ok(losing)
    }
}

/// Calls `tell_value` with the tag and the value of each of `queries`, which ascend.
fn look_up(
    table: &Values,
    queries: &[Query],
    watch: Watch<'_>,
    mut tell_value: impl FnMut(u64, u8),
) -> Result<(), CheckError> {
    let manifest = table.manifest();
    let all = position_count(manifest.tiles);
    let mut seen = 0;
    let mut rest = queries;
    for (number, span) in manifest.spans().enumerate() {
        let end = (span.area, span.ranks.end);
        let (these, others) = rest.split_at(rest.partition_point(|query| query.address < end));
        rest = others;
        seen += span.ranks.end - span.ranks.start;
        if these.is_empty() {
            continue;
        }
        let stored = table.read_shard(number)?;
        let mut position = Partition::at(span.area, span.ranks.start);
        let (mut rank, mut before) = (span.ranks.start, 0);
        for query in these {
            while rank < query.address.1 {
                before += usize::from(position.is_representative());
                position.advance();
                rank += 1;
            }
            tell_value(query.tag, stored[before]);
        }
        tell(watch, seen, all)?;
    }
    Ok(())
}

fn size(number: u64) -> usize {
    usize::try_from(number).expect("it counts what is in memory")
}
