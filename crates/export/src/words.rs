//! The stored words of a table turned into the words of an export, ascending.
//!
//! A table stores the smaller word of each mirror pair. If an export needs only these, they pass through in their
//! order. Mirror images come in no order. Their high bits are their **place**: a first pass over the table counts the
//! words at each place, and each further pass collects and sorts the words of as many places as fit in memory.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::word::mask;
use chomp_table::{Table, TableError, Word};

use crate::filter::Selection;
use crate::{ExportError, ExportProgress, Pieces};

const PLACE_BITS: u32 = 16;

/// The words of a selection. Each method that visits them reads the table again.
pub(crate) struct Words<'a> {
    pub(crate) table: &'a Table,
    pub(crate) selection: Selection,
    /// The most bytes of the words that are sorted at a time.
    memory: u64,
    watch: &'a mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
    progress: ExportProgress,
    totals: Option<Totals>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) words: u64,
    /// The largest word; 0 if there are none.
    pub(crate) largest: u64,
    /// The high 32 bits of the words.
    pub(crate) blocks: BTreeSet<u32>,
    /// At each place, the number of words there; nothing if the stored words are in order.
    places: Vec<u64>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(
        table: &'a Table,
        selection: Selection,
        memory: u64,
        watch: &'a mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
    ) -> Words<'a> {
        Words {
            table,
            selection,
            memory,
            watch,
            progress: ExportProgress::default(),
            totals: None,
        }
    }

    /// An upper bound of the number of words in the selection, from the manifest.
    #[cfg(feature = "formats")]
    pub(crate) fn count_max(&self) -> u64 {
        self.table.manifest().losing_by_bits[self.selection.bits as usize]
    }

    pub(crate) fn count(&mut self) -> Result<u64, ExportError> {
        if self.selection.is_as_stored() {
            Ok(self.stored())
        } else {
            Ok(self.totals()?.words)
        }
    }

    /// Counts the words in a pass of its own, when they are asked for the first time.
    pub(crate) fn totals(&mut self) -> Result<Totals, ExportError> {
        if let Some(totals) = &self.totals {
            return Ok(totals.clone());
        }
        let mut totals = Totals::default();
        let shift = self.selection.bits.saturating_sub(PLACE_BITS);
        if !self.selection.is_of_stored() {
            totals.places = vec![0; 1 << PLACE_BITS];
        }
        let mut last = None;
        // Another pass follows.
        self.expect_passes(2);
        self.for_each_unsorted(|word| {
            let word = word.get();
            totals.words += 1;
            totals.largest = totals.largest.max(word);
            if let Some(place) = totals.places.get_mut(place(word, shift)) {
                *place += 1;
            }
            let block = u32::try_from(word >> 32).expect("the high half of a word");
            if last.replace(block) != Some(block) {
                totals.blocks.insert(block);
            }
        })?;
        self.totals = Some(totals.clone());
        Ok(totals)
    }

    /// Calls `visit` with each place that has words, in order, and with these words, ascending. `counts` has the number
    /// of words at each place, as from [`count_by_place`](Words::count_by_place). Returns the number of all words.
    pub(crate) fn for_each_place(
        &mut self,
        counts: &[u64],
        place_of: impl Fn(Word) -> Option<usize>,
        mut visit: impl FnMut(usize, &[u64]) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        let passes = passes(counts, self.memory / 8);
        self.expect_passes(passes.len() as u64);
        let mut all = 0;
        for pass in passes {
            // Where the next word of each place goes.
            let mut next = Vec::with_capacity(pass.len());
            let mut end = 0;
            for &count in &counts[pass.clone()] {
                next.push(end);
                end += usize::try_from(count).expect("words that are to fit in memory");
            }
            let mut words = vec![0; end];
            self.for_each_unsorted(|word| {
                if let Some(place) = place_of(word).filter(|place| pass.contains(place)) {
                    let next = &mut next[place - pass.start];
                    words[*next] = word.get();
                    *next += 1;
                }
            })?;
            let mut start = 0;
            for (place, end) in pass.zip(next) {
                // Digests check all that a table gives, so every pass sees equal words.
                assert_eq!((end - start) as u64, counts[place], "place {place}");
                let words = &mut words[start..end];
                words.sort_unstable();
                if !words.is_empty() {
                    visit(place, words)?;
                }
                start = end;
            }
            all += end as u64;
        }
        Ok(all)
    }

    pub(crate) fn count_by_place(
        &mut self,
        places: usize,
        place_of: impl Fn(Word) -> Option<usize>,
    ) -> Result<Vec<u64>, ExportError> {
        let mut counts = vec![0; places];
        self.expect_passes(2);
        self.for_each_unsorted(|word| {
            if let Some(place) = place_of(word) {
                counts[place] += 1;
            }
        })?;
        Ok(counts)
    }

    /// Calls `visit` with all words, unsorted: each stored one before its mirror image.
    fn for_each_unsorted(&mut self, mut visit: impl FnMut(Word)) -> Result<(), ExportError> {
        let selection = self.selection;
        self.for_each_stored_piece(|piece| {
            for &word in piece {
                selection.images(Word::new(word)).for_each(&mut visit);
            }
            Ok(())
        })
    }

    /// Calls `visit` with the stored words of no more bits than the selection, ascending, in pieces.
    fn for_each_stored_piece(
        &mut self,
        mut visit: impl FnMut(&[u64]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let (bits, expected) = (self.selection.bits, self.stored());
        let largest = mask(bits);
        let mut read = 0;
        for piece in self.table.words() {
            let piece = piece?;
            let within = piece.partition_point(|&word| word <= largest);
            read += within as u64;
            self.progress.read += within as u64;
            if (self.watch)(self.progress).is_break() {
                return Err(ExportError::Stopped);
            }
            visit(&piece[..within])?;
            if within < piece.len() {
                break;
            }
        }
        if read == expected {
            return Ok(());
        }
        let what = format!(
            "it says that {expected} words of at most {bits} bits are stored, and there are {read}"
        );
        let file = self.table.folder().join(MANIFEST_NAME);
        Err(TableError::damaged(file, what).into())
    }

    /// Sets the total of the progress: `passes` more passes over the table follow.
    fn expect_passes(&mut self, passes: u64) {
        self.progress.total = self.progress.read + passes * self.stored();
    }

    /// The number of stored words that have no more bits than the selection, as the manifest says.
    fn stored(&self) -> u64 {
        let bits = self.selection.bits;
        let losing = self.table.manifest().losing_by_bits[bits as usize];
        // Each even number of bits has one losing position that is its own mirror image.
        losing.midpoint(u64::from(bits / 2))
    }
}

impl Pieces for Words<'_> {
    type Item = u64;

    /// The words ascend.
    fn for_each_piece(
        &mut self,
        mut visit: impl FnMut(&[u64]) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        if !self.selection.is_of_stored() {
            let places = self.totals()?.places;
            let shift = self.selection.bits.saturating_sub(PLACE_BITS);
            let place_of = |word: Word| Some(place(word.get(), shift));
            return self.for_each_place(&places, place_of, |_, words| visit(words));
        }
        let (selection, mut count) = (self.selection, 0);
        let mut chosen = Vec::new();
        self.expect_passes(1);
        self.for_each_stored_piece(|piece| {
            let words = if selection.is_as_stored() {
                piece
            } else {
                let images = piece
                    .iter()
                    .flat_map(|&word| selection.images(Word::new(word)));
                chosen.clear();
                chosen.extend(images.map(Word::get));
                &chosen
            };
            count += words.len() as u64;
            visit(words)
        })?;
        Ok(count)
    }
}

fn place(word: u64, shift: u32) -> usize {
    usize::try_from(word >> shift).expect("65,536 places")
}

/// Runs of places that have at most `most` words together, or words at one place only.
fn passes(counts: &[u64], most: u64) -> Vec<Range<usize>> {
    let mut passes = Vec::new();
    let (mut start, mut words) = (0, 0);
    for (place, &more) in counts.iter().enumerate() {
        if words > 0 && more > 0 && words + more > most {
            passes.push(start..place);
            (start, words) = (place, 0);
        }
        words += more;
    }
    passes.push(start..counts.len());
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_as_large_as_the_memory() {
        let ends = |counts: &[u64], most| {
            let passes = passes(counts, most);
            let starts = passes.iter().map(|pass| pass.start);
            let ends: Vec<usize> = passes.iter().map(|pass| pass.end).collect();
            assert!(starts.eq([0].into_iter().chain(ends.clone()).take(ends.len())));
            ends
        };
        assert_eq!(ends(&[], 5), [0]);
        assert_eq!(ends(&[0, 9, 0, 9], 0), [3, 4]);
        assert_eq!(ends(&[3, 2, 1, 0, 7, 0], 5), [2, 4, 6]);
        assert_eq!(ends(&[3, 2, 1, 0, 7, 0], 100), [6]);
    }
}
