//! The filter of an export.

use std::str::FromStr;

use chomp_table::Word;
use chomp_table::position::TIMES;

use crate::ExportError;

/// More rows or columns than a position of 64 bits has.
const SIDE_MAX: u32 = 64;
/// The most cells that a position of 64 bits has: those of the square of 32.
const AREA_MAX: u32 = 1024;

/// The positions to export. By default, every losing position of the table, one of each mirror pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The most bits of a position.
    pub bits: Option<u32>,
    /// The range of the number of cells.
    pub areas: Option<AreaRange>,
    /// Of a mirror pair, the position inside this box is exported; if both fit, without `both`, the smaller word.
    pub within: Option<Rectangle>,
    /// Both positions of each mirror pair, as far as each meets the other conditions.
    pub both: bool,
}

/// Numbers of cells from `least` to `most`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaRange {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// A box, 1 to 64 rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    rows: u32,
    columns: u32,
}

/// A number from 1 to `most`, in digits.
fn number(text: &str, most: u32) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits)?;
    (1..=most).contains(&number).then_some(number)
}

impl FromStr for AreaRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AreaRange, String> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (number(least, AREA_MAX), number(most, AREA_MAX)) {
            (Some(least), Some(most)) if least <= most => Ok(AreaRange { least, most }),
            _ => Err(format!(
                "an area is a number of cells, as 20, or a range, as 20-30, from 1 to {AREA_MAX}"
            )),
        }
    }
}

impl Rectangle {
    /// The box of `rows` rows and `columns` columns, if both are from 1 to 64.
    pub fn new(rows: u32, columns: u32) -> Option<Rectangle> {
        let sides = 1..=SIDE_MAX;
        (sides.contains(&rows) && sides.contains(&columns)).then_some(Rectangle { rows, columns })
    }

    /// The number of rows.
    pub fn rows(self) -> u32 {
        self.rows
    }

    /// The number of columns.
    pub fn columns(self) -> u32 {
        self.columns
    }

    /// Whether it is its own mirror image.
    pub fn is_square(self) -> bool {
        self.rows == self.columns
    }
}

impl FromStr for Rectangle {
    type Err = String;

    fn from_str(text: &str) -> Result<Rectangle, String> {
        let sides = text.split_once(TIMES);
        let sides =
            sides.map(|(rows, columns)| (number(rows, SIDE_MAX), number(columns, SIDE_MAX)));
        match sides {
            Some((Some(rows), Some(columns))) => Ok(Rectangle { rows, columns }),
            _ => Err(format!(
                "a box is rows x columns, as 8x10, from 1 to {SIDE_MAX} each"
            )),
        }
    }
}

/// A filter whose positions are all in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    /// No position of it has more bits.
    pub(crate) bits: u32,
    pub(crate) filter: Filter,
}

impl Selection {
    /// The selection of `filter`, if a table of `table_bits` bits has all its positions.
    pub(crate) fn new(filter: Filter, table_bits: u32) -> Result<Selection, ExportError> {
        // The position of one row has the most bits of those of its area.
        let of_areas = filter.areas.map(|areas| areas.most + 1);
        let of_box = filter.within.map(|within| within.rows + within.columns);
        let wishes = [filter.bits, of_areas, of_box];
        let needed = wishes.into_iter().flatten().min().unwrap_or(table_bits);
        if needed > table_bits {
            return Err(ExportError::Beyond { needed, table_bits });
        }
        Ok(Selection {
            bits: needed,
            filter,
        })
    }

    /// Whether the selection is exactly the stored words of at most its bits.
    pub(crate) fn is_as_stored(&self) -> bool {
        let Filter {
            bits: _,
            areas,
            within,
            both,
        } = self.filter;
        areas.is_none() && within.is_none() && !both
    }

    /// Whether the selection has stored words only.
    pub(crate) fn is_of_stored(&self) -> bool {
        !self.filter.both && self.filter.within.is_none_or(Rectangle::is_square)
    }

    /// The images of `word` in the selection: itself, its mirror image, both or none. `word` is stored in the table,
    /// and has no more bits than the selection.
    pub(crate) fn images(&self, word: Word) -> impl Iterator<Item = Word> {
        let has_area = |areas: AreaRange| (areas.least..=areas.most).contains(&word.area());
        let mirror = word.mirror();
        let columns = word.get().count_ones();
        let rows = word.bits() - columns;
        let fits = |rows: u32, columns: u32| {
            let within = self.filter.within;
            within.is_none_or(|within| rows <= within.rows && columns <= within.columns)
        };
        let counts = self.filter.areas.is_none_or(has_area);
        let takes_word = counts && fits(rows, columns);
        let takes_mirror = counts
            && fits(columns, rows)
            && if self.filter.both {
                mirror != word
            } else {
                !takes_word
            };
        let images = [takes_word.then_some(word), takes_mirror.then_some(mirror)];
        images.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_and_boxes_as_people_write_them() {
        let areas = |least, most| Ok(AreaRange { least, most });
        assert_eq!("7".parse(), areas(7, 7));
        assert_eq!("7-9".parse(), areas(7, 9));
        assert_eq!("1-1024".parse(), areas(1, 1024));
        for wrong in [
            "", "0", "-", "7-", "-7", "9-7", "1-1025", "+7", "7-8-9", "x",
        ] {
            assert!(wrong.parse::<AreaRange>().is_err(), "{wrong}");
        }
        assert_eq!("8x10".parse(), Ok(Rectangle::new(8, 10).unwrap()));
        for wrong in [
            "", "8", "x", "8x", "x8", "0x8", "8x0", "65x1", "8x8x8", "+8x8",
        ] {
            assert!(wrong.parse::<Rectangle>().is_err(), "{wrong}");
        }
        assert_eq!(Rectangle::new(0, 1), None);
        assert_eq!(Rectangle::new(1, 65), None);
    }

    #[test]
    fn the_smallest_wish_says_which_bits_are_needed() {
        let needs = |bits: Option<u32>, areas: &str, within: &str| {
            let filter = Filter {
                bits,
                areas: areas.parse().ok(),
                within: within.parse().ok(),
                both: false,
            };
            match Selection::new(filter, 20) {
                Ok(selection) => Ok(selection.bits),
                Err(ExportError::Beyond { needed, table_bits }) => {
                    assert_eq!(table_bits, 20);
                    Err(needed)
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(needs(None, "", ""), Ok(20));
        assert_eq!(needs(Some(20), "", ""), Ok(20));
        assert_eq!(needs(Some(21), "", ""), Err(21));
        assert_eq!(needs(None, "19", ""), Ok(20));
        assert_eq!(needs(None, "3-20", ""), Err(21));
        assert_eq!(needs(Some(12), "3-20", ""), Ok(12));
        assert_eq!(needs(None, "", "10x10"), Ok(20));
        assert_eq!(needs(None, "", "10x11"), Err(21));
        assert_eq!(needs(Some(20), "", "30x30"), Ok(20));
        assert_eq!(needs(Some(30), "25", "64x64"), Err(26));
    }
}
