//! The last three rows (a, b, v), a ≥ b ≥ v: all triples of one atom at a time.

/// The largest bound whose triples fit one word.
pub(crate) const SMALL: usize = 5;
/// The largest bound for whose triples there are masks.
const MASKED: usize = 16;
pub(crate) const MASK_WORDS: usize = bits(MASKED).div_ceil(64);

/// The number of triples of a bound.
pub(crate) const fn bits(bound: usize) -> usize {
    (bound + 1) * (bound + 2) * (bound + 3) / 6
}

/// Where the triples begin that begin with `first`.
const fn threes(first: usize) -> usize {
    first * (first + 1) * (first + 2) / 6
}

/// Where, among the triples that begin alike, those begin whose second number is this.
const fn twos(second: usize) -> usize {
    second * (second + 1) / 2
}

pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().expect("bitmaps have slack");
    u64::from_le_bytes(*word)
}

pub(crate) fn store(bytes: &mut [u8], at: usize, word: u64) {
    let place = bytes[at..].first_chunk_mut().expect("bitmaps have slack");
    *place = word.to_le_bytes();
}

/// The lowest `count` bits, at most 63.
const fn low(count: usize) -> u64 {
    (1 << count) - 1
}

/// The largest bound for whose triples the first words of a mask are enough.
const MIDDLE: usize = 9;
const MIDDLE_WORDS: usize = bits(MIDDLE).div_ceil(64);

#[derive(Debug)]
pub(crate) struct Last {
    /// The triples in their order, and how many of their numbers are not 0.
    triples: Vec<[u8; 4]>,
    threes: Vec<usize>,
    twos: Vec<usize>,
    /// For each triple of the bound of masks: those from which a move leads to it.
    masks: Vec<[u64; MASK_WORDS]>,
}

impl Last {
    pub(crate) fn new(columns: usize) -> Last {
        let columns = u8::try_from(columns).expect("at most 250 columns");
        let triples = (0..=columns).flat_map(|a| {
            let pairs = (0..=a).flat_map(|b| (0..=b).map(move |v| (b, v)));
            pairs.map(move |(b, v)| [a, b, v, [a, b, v].map(|n| u8::from(n > 0)).iter().sum()])
        });
        let mut last = Last {
            triples: triples.collect(),
            threes: (0..=usize::from(columns).max(MASKED)).map(threes).collect(),
            twos: (0..=usize::from(columns).max(MASKED)).map(twos).collect(),
            masks: Vec::new(),
        };
        let masked = |index| {
            let mut mask = [0; MASK_WORDS];
            last.exclude(index, MASKED, &mut mask);
            mask
        };
        let most = last.triples.len().min(bits(MASKED));
        last.masks = (0..most).map(masked).collect();
        last
    }

    pub(crate) fn rows(&self, index: usize) -> usize {
        self.triples[index][3].into()
    }

    /// Finds the losing triples of a small bound. `free` has the triples that no move in another row excludes.
    pub(crate) fn solve_small(&self, mut free: u64, mut found: impl FnMut(usize)) -> u64 {
        let mut losing = 0;
        while free != 0 {
            let index = free.trailing_zeros() as usize;
            losing |= 1 << index;
            free &= !(self.masks[index][0] | 1 << index);
            found(index);
        }
        losing
    }

    /// Finds the losing triples of any bound. `taken` has the triples that are not free, and gets those that moves in
    /// these rows exclude; it has at least the words of a mask. `losing` gets the losing ones, word by word.
    pub(crate) fn solve(
        &self,
        bound: usize,
        words: usize,
        taken: &mut [u64],
        mut losing: impl FnMut(usize, u64),
        mut found: impl FnMut(usize),
    ) {
        for word in 0..words {
            let mut here = 0;
            let mut free = !taken[word];
            while free != 0 {
                let bit = free.trailing_zeros();
                let index = word * 64 + bit as usize;
                here |= 1 << bit;
                found(index);
                self.exclude(index, bound, taken);
                free = !taken[word] & (!1 << bit);
            }
            losing(word, here);
        }
    }

    /// Sets the bits of the triples of a bound from which a move in one of the three rows leads to this one.
    fn exclude(&self, index: usize, bound: usize, bits: &mut [u64]) {
        let [a, b, v, _] = self.triples[index].map(usize::from);
        let mut longer = a + 1;
        if let (Some(mask), Some((near, _))) = (
            self.masks.get(index),
            bits.split_first_chunk_mut::<MASK_WORDS>(),
        ) {
            if bound <= MIDDLE {
                unite(&mut near[..MIDDLE_WORDS], &mask[..MIDDLE_WORDS]);
                return;
            }
            unite(near, mask);
            longer = MASKED + 1;
        } else {
            self.exclude_alike(a, b, v, bits);
        }
        // The first row was longer.
        let rest = self.twos[b] + v;
        if b < a {
            for start in self.threes.get(longer..=bound).unwrap_or_default() {
                set(bits, start + rest);
            }
            return;
        }
        // And so were those that were cut to the same length.
        for first in longer..=bound {
            let start = self.threes[first];
            for second in a..=first {
                let last = start + self.twos[second] + v;
                if v == a {
                    fill(bits, last, start + self.twos[second] + second);
                } else {
                    set(bits, last);
                }
            }
        }
    }

    /// The part of [`Last::exclude`] for the triples whose first row is `a` too.
    fn exclude_alike(&self, a: usize, b: usize, v: usize, bits: &mut [u64]) {
        let start = self.threes[a];
        if v < b {
            fill(bits, start + self.twos[b] + v + 1, start + self.twos[b] + b);
            for second in &self.twos[b + 1..=a] {
                set(bits, start + second + v);
            }
        } else {
            for second in b + 1..=a {
                let place = start + self.twos[second];
                fill(bits, place + v, place + second);
            }
        }
    }
}

fn unite(all: &mut [u64], more: &[u64]) {
    for (all, more) in all.iter_mut().zip(more) {
        *all |= more;
    }
}

fn set(bits: &mut [u64], index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

/// Sets the bits from the one to the other, both included.
fn fill(bits: &mut [u64], from: usize, to: usize) {
    let (first, last) = (from / 64, to / 64);
    let (after, before) = (!0 << (from % 64), !0 >> (63 - to % 64));
    if first == last {
        bits[first] |= after & before;
    } else {
        bits[first] |= after;
        bits[first + 1..last].fill(!0);
        bits[last] |= before;
    }
}

/// [`grow`] of an atom in one word: its bound is below the small one.
pub(crate) fn grow_small(atom: u64, bound: usize) -> u64 {
    let (size, pairs) = (bits(bound), twos(bound + 1));
    let first = atom >> threes(bound) & low(pairs);
    let second = atom >> (size - bound - 1) & low(bound + 1);
    let last = atom >> (size - 1) & 1;
    atom & low(size) | first << size | second << (size + pairs) | last << (size + pairs + bound + 1)
}

/// Gives the triples (x + 1, b, v) the bits of what they are when they are cut to `bound` = x.
pub(crate) fn grow(bytes: &mut [u8], bound: usize) {
    let (size, pairs) = (bits(bound), twos(bound + 1));
    copy(bytes, threes(bound), size, pairs);
    copy(bytes, size - bound - 1, size + pairs, bound + 1);
    copy(bytes, size - 1, size + pairs + bound + 1, 1);
}

/// Copies bits to a later place. What is behind that place, in its last word, is lost.
fn copy(bytes: &mut [u8], from: usize, to: usize, count: usize) {
    /// A word holds as many bits as this, whichever bit of a byte is the first.
    const STEP: usize = 56;
    for done in (0..count).step_by(STEP) {
        let (from, to) = (from + done, to + done);
        let bits = load(bytes, from / 8) >> (from % 8) & low(STEP.min(count - done));
        let kept = load(bytes, to / 8) & low(to % 8);
        store(bytes, to / 8, kept | bits << (to % 8));
    }
}
