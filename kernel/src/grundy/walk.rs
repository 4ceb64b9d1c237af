//! The walk through the prefixes of the positions in one window.

use std::ops::Range;

use chomp_table::partition::{AREA_MAX, counts_within};

use super::{Lower, Set, set_of};

const LIMIT: usize = AREA_MAX as usize + 1;
/// The positions whose sets are in the cache together: 64 KiB.
const WINDOW: usize = 1 << 12;
/// Prefixes have rows of at least two cells.
const DEPTH_MAX: usize = AREA_MAX as usize / 2 + 1;

/// What is known of a prefix β, for q tiles after it.
#[derive(Clone)]
struct Prefix {
    /// |β|.
    size: usize,
    /// At q: the sum that the rows of β add to the rank of a position that begins with β and has q more tiles.
    ranks: [u64; LIMIT],
    /// The values of all prefixes of β, β itself included.
    first: Set,
    /// The values of β and q ones, of β without its last row and q + 1 ones, and so on.
    second: [Set; LIMIT + 1],
}

struct Walk<'a> {
    area: usize,
    lower: &'a Lower<'a>,
    window: Range<u64>,
    sets: &'a mut [Set],
    /// The prefixes on the way from the root, which is the first.
    path: &'a mut [Prefix],
}

/// Applies all moves of the positions of `area` from rank `start` on, one for each set, to the areas of `lower`.
pub(super) fn apply(area: u32, start: u64, sets: &mut [Set], lower: &Lower<'_>) {
    let area = area as usize;
    let root = Prefix {
        size: 0,
        ranks: [0; LIMIT],
        first: 0,
        second: [0; LIMIT + 1],
    };
    let path = &mut vec![root; DEPTH_MAX];
    for (start, sets) in (start..).step_by(WINDOW).zip(sets.chunks_mut(WINDOW)) {
        let window = start..start + sets.len() as u64;
        let mut walk = Walk {
            area,
            lower,
            window,
            sets,
            path,
        };
        walk.visit(0, area, area, 0);
    }
}

impl Walk<'_> {
    /// Applies the moves of the positions that begin with the first `depth` rows of the path, the last of them `last`.
    /// There are `rest` tiles more, and the first of these positions has the rank `start`.
    fn visit(&mut self, depth: usize, last: usize, rest: usize, start: u64) {
        self.visit_ones(depth, rest, start);
        for cut in 2..last {
            self.apply_column(depth, cut, rest, start);
        }
        for row in 2..=last.min(rest) {
            let below = start + counts_within(row - 1)[rest];
            let end = start + counts_within(row)[rest];
            if below < self.window.end && end > self.window.start {
                self.enter(depth, row);
                self.visit(depth + 1, row, rest - row, below);
            }
        }
    }

    /// The set of a rank in the window, or just after it.
    fn index(&self, rank: u64) -> usize {
        usize::try_from(rank - self.window.start).expect("a window is small")
    }

    /// Puts the prefix with one row more on the path.
    fn enter(&mut self, depth: usize, row: usize) {
        let (above, below) = self.path.split_at_mut(depth + 1);
        let (above, below) = (&above[depth], &mut below[0]);
        below.size = above.size + row;
        let rest = self.area - below.size;
        let counts = counts_within(row - 1);
        let (above_ranks, counts) = (&above.ranks[row..], &counts[row..]);
        for ((rank, above), count) in below.ranks[..rest].iter_mut().zip(above_ranks).zip(counts) {
            *rank = above + count;
        }
    }

    /// Looks up the values of the prefix with ones after it, and applies the moves of the position of `area` among these in the
    /// first two columns.
    fn visit_ones(&mut self, depth: usize, rest: usize, start: u64) {
        let (above, here) = self.path.split_at_mut(depth);
        let here = &mut here[0];
        let (mut first, second) = above
            .last()
            .map_or((0, &[0; LIMIT + 1]), |above| (above.first, &above.second));
        let mut own = second[rest + 1];
        // Without tiles there is no position: area 0 is never there.
        for ones in 0..rest {
            let value = self.lower.value(here.size + ones, here.ranks[ones]);
            let set = set_of(value);
            own |= set;
            here.second[ones] = second[ones + 1] | set;
            if ones == 0 {
                first |= set;
            }
        }
        here.first = first;
        own |= first;
        if self.window.contains(&start) {
            let at = self.index(start);
            self.sets[at] |= own;
        }
    }

    /// Applies the moves that cut rows to `cut` cells of all positions with no other row longer than that.
    fn apply_column(&mut self, depth: usize, cut: usize, rest: usize, start: u64) {
        let from = self.window.start.max(start);
        let end = start + counts_within(cut)[rest];
        let to = self.window.end.min(end);
        if from >= to {
            return;
        }
        let sets = self.index(from)..self.index(to);
        let sets = &mut self.sets[sets];
        let counts = counts_within(cut - 1);
        let mut rank = from - start;
        let mut after = rest;
        for prefix in self.path[..depth].iter().rev() {
            after += cut;
            rank += counts[after];
            if self.lower.has(prefix.size + after) {
                let rank = prefix.ranks[after] + rank;
                self.lower
                    .pieces(prefix.size + after, rank, sets.len(), |done, values| {
                        for (set, &value) in sets[done..].iter_mut().zip(values) {
                            *set |= set_of(value);
                        }
                    });
            }
        }
    }
}
