//! For each second row the set of first rows that its moves exclude: bitmaps one behind the other. Second row n has the
//! words from its own, as no first row is shorter, to the longest one's: at most `width`. A first row beyond widens it.

use std::ops::Range;

#[derive(Debug)]
pub(super) struct Set {
    pub(super) seconds: Range<usize>,
    /// The words from that of the shortest first row to that of the longest one.
    most: usize,
    /// How many words each second row has. The first of them is that of a first row of the same length.
    width: usize,
    /// The first second row with fewer words to the longest first row. From it on, second rows have only these.
    full: usize,
    pub(super) words: Vec<u64>,
}

impl Set {
    /// An empty one, for first rows of at most `most` cells.
    pub(super) fn new(seconds: Range<usize>, most: usize) -> Set {
        let mut set = Set {
            most: most / 64 - seconds.start / 64 + 1,
            seconds,
            width: 0,
            full: 0,
            words: Vec::new(),
        };
        set.lay_out(0);
        set
    }

    /// Where the words of a second row are, and how many.
    #[inline]
    fn place(&self, second: usize) -> (usize, usize) {
        let start = self.seconds.start;
        if second < self.full {
            return ((second - start) * self.width, self.width);
        }
        // 64 second rows have the same number of words, and the next 64 one less.
        let (whole, rest) = ((second - self.full) / 64, (second - self.full) % 64);
        let narrow = self.width - 1;
        let before = 64 * (whole * narrow - whole * whole.saturating_sub(1) / 2);
        let width = narrow - whole;
        (
            (self.full - start) * self.width + before + rest * width,
            width,
        )
    }

    #[inline]
    pub(super) fn of(&self, second: usize) -> &[u64] {
        let (place, width) = self.place(second);
        &self.words[place..][..width]
    }

    #[inline]
    pub(super) fn insert(&mut self, second: usize, first: usize) {
        let word = first / 64 - second / 64;
        if word >= self.width {
            self.widen(word + 1 + word / 8);
        }
        let (place, _) = self.place(second);
        self.words[place + word] |= 1 << (first % 64);
    }

    /// Gives each second row `width` words, or all if it has fewer.
    pub(super) fn lay_out(&mut self, width: usize) {
        self.width = width.min(self.most);
        self.full = (self.seconds.start / 64 + self.most + 1 - self.width) * 64;
    }

    /// The words of all second rows.
    pub(super) fn len(&self) -> usize {
        self.place(self.seconds.end).0
    }

    #[cold]
    fn widen(&mut self, width: usize) {
        let mut wide = Set {
            words: Vec::new(),
            seconds: self.seconds.clone(),
            ..*self
        };
        wide.lay_out(width);
        wide.words = vec![0; wide.len()];
        for second in self.seconds.clone() {
            let (place, of) = (wide.place(second).0, self.of(second));
            wide.words[place..][..of.len()].copy_from_slice(of);
        }
        *self = wide;
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Becomes what another set has for the second rows of this one.
    pub(super) fn copy(&mut self, other: &Set) {
        self.words.clear();
        self.lay_out(other.width);
        let skipped = other.place(self.seconds.start).0;
        self.words.extend_from_slice(&other.words[skipped..]);
    }

    /// Sets the smallest width with at least `words` words in all; false if there is none.
    pub(super) fn fit(&mut self, words: usize) -> bool {
        let width = (0..=self.most).find(|&width| {
            self.lay_out(width);
            self.len() >= words
        });
        width.is_some() && self.len() == words
    }
}
