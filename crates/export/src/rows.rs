//! The positions of a table of Grundy values that a request asks for.

use std::ops::{ControlFlow, RangeInclusive};

use chomp_table::Partition;
use chomp_table::partition::count;
use chomp_table::values::Values;

use crate::filter::{Filter, Rectangle};
use crate::{ExportError, ExportProgress, Pieces};

const PIECE_ROWS: usize = 1 << 13;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) position: Partition,
    pub(crate) tiles: u8,
    pub(crate) rank: u32,
    pub(crate) value: u8,
}

pub(crate) struct RequestedRows<'a> {
    pub(crate) table: &'a Values,
    pub(crate) filter: Filter,
    pub(crate) tiles: RangeInclusive<u32>,
    pub(crate) watch: &'a mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
}

impl RequestedRows<'_> {
    pub(crate) fn len(&self) -> u64 {
        let positions = self.tiles.clone().flat_map(|tiles| {
            let mut position = Partition::first(tiles);
            (0..count(tiles)).map(move |_| {
                let this = position.clone();
                position.advance();
                this
            })
        });
        positions
            .filter(|position| takes(&self.filter, position))
            .count() as u64
    }
}

impl Pieces for RequestedRows<'_> {
    type Item = Row;

    fn for_each_piece(
        &mut self,
        mut visit: impl FnMut(&[Row]) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        let total = self.tiles.clone().map(count).sum();
        let (mut read, mut written) = (0, 0);
        let mut piece = Vec::with_capacity(PIECE_ROWS);
        for tiles in self.tiles.clone() {
            let values = self.table.area(tiles)?;
            let mut position = Partition::first(tiles);
            let tiles = u8::try_from(tiles).expect("at most 120");
            for (rank, &value) in (0..).zip(&values) {
                if takes(&self.filter, &position) {
                    let position = position.clone();
                    piece.push(Row {
                        position,
                        tiles,
                        rank,
                        value,
                    });
                }
                if piece.len() == PIECE_ROWS {
                    visit(&piece)?;
                    written += piece.len() as u64;
                    piece.clear();
                }
                position.advance();
            }
            read += values.len() as u64;
            if (self.watch)(ExportProgress { read, total }).is_break() {
                return Err(ExportError::Stopped);
            }
        }
        visit(&piece)?;
        Ok(written + piece.len() as u64)
    }
}

/// Whether a position is exported: one of each mirror pair, the one with the lower rank of those that fit, or both.
fn takes(filter: &Filter, position: &Partition) -> bool {
    let columns = position.rows().first().copied().unwrap_or(0);
    let rows = u32::try_from(position.rows().len()).expect("at most 120");
    let fits = |rows: u32, columns: u32| {
        let inside = |within: Rectangle| rows <= within.rows() && columns <= within.columns();
        filter.within.is_none_or(inside)
    };
    filter.bits.is_none_or(|bits| rows + columns <= bits)
        && fits(rows, columns)
        && (filter.both || position.is_representative() || !fits(columns, rows))
}
