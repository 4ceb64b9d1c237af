//! Chomp in space: all boxes of three dimensions up to one.
//!
//! # The mathematics
//!
//! A position is a **plane partition**: layers `P_1` ⊇ `P_2` ⊇ …, Young diagrams. A move takes a cell (x, y, z) and all
//! beyond it: layers before z stay, the others are cut by (x, y) as in the plane. Who takes (1, 1, 1) loses.
//!
//! Let h be the number of layers, the **height** of the line of cells (1, 1, z), and call the rest of a position, the
//! cells outside of this line, its **surroundings**. For given surroundings at most one height is losing, as of two the
//! higher one can be cut to the lower. As in [`few`](crate::few) it is the least height, at least that of the
//! surroundings, that no losing position excludes which a move in the surroundings leads to; and there is none if some
//! cut of the line below the height of the surroundings, which leaves `P_1`, …, `P_h`, is losing.
//!
//! Surroundings are chains `Q_1` ⊇ `Q_2` ⊇ … of diagrams, where that of one cell and the empty one are the same. They
//! are numbered in lexicographic order, each diagram after those that it contains. A move leads to a smaller number:
//! the first layer that changes loses cells. So half a byte for each number, the losing height, is all that is kept.
//!
//! # How it is computed
//!
//! The numbers that moves (x, y, z), z ≥ 1, lead to share their ends, so each takes two looks into tables. Surroundings
//! with the same first two layers are a task. Tasks with equally many cells there are independent: threads share them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use chomp_table::digest::{Digest, DigestBuilder};

/// The largest side of a box.
pub const SIDE_MAX: usize = 15;
/// The most diagrams that a layer may be.
const LAYERS_MAX: usize = 1 << 12;

/// The diagram without cells, and that of one cell.
const NONE: u16 = 0;

/// All positions inside one box of three dimensions.
#[derive(Debug)]
pub struct Space {
    /// The sides of a layer, and the number of layers.
    sides: [usize; 3],
    /// For each of these sides, the index of that side in the given box.
    axes: [usize; 3],
    /// The rows of each diagram, by number of cells.
    diagrams: Vec<Vec<usize>>,
    /// Index x·columns + y of each diagram: what a move at that cell leaves.
    cuts: Vec<Vec<u16>>,
    /// Index z − 1, then the diagram of layer z − 1, then that of layer z: the chains before it.
    starts: Vec<Vec<u32>>,
    surroundings: usize,
}

/// The losing positions of a [`Space`].
#[derive(Debug)]
pub struct SolvedSpace<'a> {
    space: &'a Space,
    heights: Heights,
    /// Index (a, b, c): the losing positions with exactly these sides.
    losing: Vec<u64>,
}

/// For each number of surroundings the losing height, 0 if there is none: two in a byte, the lower number in the lower
/// bits.
#[derive(Debug)]
struct Heights(Vec<AtomicU8>);

impl Heights {
    fn new(surroundings: usize) -> Heights {
        Heights(
            (0..surroundings.div_ceil(2))
                .map(|_| AtomicU8::new(0))
                .collect(),
        )
    }

    fn get(&self, number: usize) -> u8 {
        self.0[number / 2].load(Ordering::Relaxed) >> (number % 2 * 4) & 15
    }

    /// Sets a height that was 0.
    fn set(&self, number: usize, height: u8) {
        self.0[number / 2].fetch_or(height << (number % 2 * 4), Ordering::Relaxed);
    }
}

/// The box is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a box of three dimensions has sides of 1 to {SIDE_MAX}, at most {LAYERS_MAX} layers and 2^32 surroundings"
)]
pub struct TooLarge;

impl Space {
    /// The positions inside a box with these sides. Fails if it is too large.
    pub fn new(sides: [usize; 3]) -> Result<Space, TooLarge> {
        if sides.iter().any(|side| !(1..=SIDE_MAX).contains(side)) {
            return Err(TooLarge);
        }
        // Layers are small, and there are as many as possible.
        let mut axes = [0, 1, 2];
        axes.sort_by_key(|&axis| sides[axis]);
        let sides = axes.map(|axis| sides[axis]);
        let [rows, columns, layers] = sides;
        let mut diagrams = Vec::new();
        all_diagrams(rows, columns, &mut Vec::new(), &mut diagrams)?;
        diagrams.retain(|rows| rows.iter().sum::<usize>() != 1);
        diagrams.sort_by_key(|rows| (rows.iter().sum::<usize>(), rows.clone()));
        let number = |cut: &[usize]| match diagrams.iter().position(|rows| rows == cut) {
            Some(number) => u16::try_from(number).expect("at most 2^12"),
            None => NONE,
        };
        let cut = |rows: &Vec<usize>, x: usize, y: usize| -> Vec<usize> {
            let cut = rows.iter().enumerate();
            cut.map(|(row, &length)| if row < x { length } else { length.min(y) })
                .collect()
        };
        let cells = || (0..rows).flat_map(|x| (0..columns).map(move |y| (x, y)));
        let cuts = diagrams.iter();
        let cuts = cuts.map(|rows| cells().map(|(x, y)| number(&cut(rows, x, y))).collect());
        let cuts: Vec<Vec<u16>> = cuts.collect();
        let (starts, surroundings) = starts(&diagrams, layers)?;
        Ok(Space {
            sides,
            axes,
            diagrams,
            cuts,
            starts,
            surroundings,
        })
    }

    /// The number of surroundings, of which each is looked at once. Solving takes half as many bytes.
    pub fn surroundings(&self) -> u64 {
        self.surroundings as u64
    }

    /// The bytes that solving takes.
    pub fn memory(&self) -> u64 {
        let tables = self
            .starts
            .iter()
            .map(|starts| starts.len() * 4)
            .sum::<usize>();
        let cuts = self.cuts.iter().map(|cuts| cuts.len() * 2).sum::<usize>();
        self.surroundings.div_ceil(2) as u64 + (tables + cuts) as u64
    }

    /// The positions: `MacMahon`'s number of plane partitions, the empty one included.
    pub fn positions(&self) -> u64 {
        let [a, b, c] = self.sides.map(|side| side as u128);
        let mut lines: Vec<(u128, u128)> = Vec::new();
        for i in 1..=a {
            for j in 1..=b {
                lines.push((i + j + c - 1, i + j - 1));
            }
        }
        // Each product of the first ones is the number for a smaller box, or a part of it: common factors go at once.
        let (mut above, mut below) = (1_u128, 1_u128);
        for (more, less) in lines {
            above *= more;
            below *= less;
            let common = greatest_common_divisor(above, below);
            above /= common;
            below /= common;
        }
        u64::try_from(above / below).expect("a position has surroundings and one of 16 heights")
    }

    /// Finds all losing positions. `control` hears how many surroundings are done; none if it said not to go on.
    pub fn solve(
        &self,
        threads: NonZeroUsize,
        control: &(dyn Fn(u64) -> bool + Sync),
    ) -> Option<SolvedSpace<'_>> {
        let heights = Heights::new(self.surroundings);
        let sizes: Vec<usize> = self.diagrams.iter().map(|rows| rows.iter().sum()).collect();
        let mut tasks: Vec<(usize, u16, u16)> = Vec::new();
        for first in 0..self.diagrams.len() {
            for second in 0..=first {
                if self.sides[2] == 1 && second > 0 || !self.contains(first, second) {
                    continue;
                }
                let number = |at: usize| u16::try_from(at).expect("at most 2^12");
                tasks.push((sizes[first] + sizes[second], number(first), number(second)));
            }
        }
        tasks.sort_unstable();
        let (done, stopped) = (AtomicU64::new(0), AtomicUsize::new(0));
        let mut losing = vec![0; self.sides.iter().map(|side| side + 1).product()];
        for group in tasks.chunk_by(|a, b| a.0 == b.0) {
            let next = AtomicUsize::new(0);
            let work = || {
                let mut walk = Walk {
                    space: self,
                    heights: &heights,
                    losing: vec![0; self.sides.iter().map(|side| side + 1).product()],
                    layers: vec![NONE; self.sides[2] + 1],
                    before: vec![0; self.sides[2] + 1],
                };
                while let Some(&(_, first, second)) =
                    group.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if stopped.load(Ordering::Relaxed) > 0 {
                        break;
                    }
                    let count = walk.task(first, second);
                    if !control(done.fetch_add(count, Ordering::Relaxed) + count) {
                        stopped.store(1, Ordering::Relaxed);
                    }
                }
                walk.losing
            };
            let found: Vec<Vec<u64>> = std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
                let mut found = vec![work()];
                found.extend(
                    others
                        .into_iter()
                        .map(|other| other.join().expect("no thread panics")),
                );
                found
            });
            for part in found {
                losing
                    .iter_mut()
                    .zip(part)
                    .for_each(|(all, more)| *all += more);
            }
            if stopped.load(Ordering::Relaxed) > 0 {
                return None;
            }
        }
        Some(SolvedSpace {
            space: self,
            heights,
            losing,
        })
    }

    fn contains(&self, outer: usize, inner: usize) -> bool {
        contains(&self.diagrams[outer], &self.diagrams[inner])
    }

    /// The chains before those whose layer z is `inner`, inside `outer`, of those with the same layers before z.
    fn start(&self, z: usize, outer: u16, inner: u16) -> usize {
        self.starts[z - 1][usize::from(outer) * self.diagrams.len() + usize::from(inner)] as usize
    }

    fn place(&self, [a, b, c]: [usize; 3]) -> usize {
        let [_, columns, layers] = self.sides;
        (a * (columns + 1) + b) * (layers + 1) + c
    }
}

impl SolvedSpace<'_> {
    /// The losing positions inside a box with these sides, which are at most those of the whole.
    pub fn losing(&self, sides: [usize; 3]) -> u64 {
        let [a, b, c] = self.space.axes.map(|axis| sides[axis]);
        let mut sum = 0;
        for x in 1..=a {
            for y in 1..=b {
                sum += (1..=c)
                    .map(|z| self.losing[self.space.place([x, y, z])])
                    .sum::<u64>();
            }
        }
        sum
    }

    /// The winning first moves of a box with these sides: the cells, counted from 1.
    pub fn openings(&self, sides: [usize; 3]) -> Vec<[usize; 3]> {
        let space = self.space;
        let [a, b, c] = space.axes.map(|axis| sides[axis]);
        let mut moves = Vec::new();
        for x in 0..a {
            for y in 0..b {
                for z in 0..c {
                    let full: Vec<usize> = (0..space.sides[0])
                        .map(|row| if row < a { b } else { 0 })
                        .collect();
                    let cut: Vec<usize> = full
                        .iter()
                        .enumerate()
                        .map(|(row, &length)| if row < x { length } else { length.min(y) })
                        .collect();
                    let layers: Vec<&[usize]> = (0..c)
                        .map(|layer| if layer < z { &full[..] } else { &cut })
                        .collect();
                    if self.is_losing(&layers) {
                        let mut cell = [0; 3];
                        for (axis, at) in space.axes.into_iter().zip([x, y, z]) {
                            cell[axis] = at + 1;
                        }
                        moves.push(cell);
                    }
                }
            }
        }
        moves.sort_unstable();
        moves
    }

    /// The digest of the losing heights of all surroundings, by number, two in a byte.
    pub fn digest(&self) -> Digest {
        let mut digest = DigestBuilder::default();
        for bytes in self.heights.0.chunks(1 << 12) {
            let bytes = bytes.iter().map(|byte| byte.load(Ordering::Relaxed));
            digest.push(&bytes.collect::<Vec<u8>>());
        }
        digest.finish()
    }

    /// Whether a position with these layers is losing; all of them inside the box.
    fn is_losing(&self, layers: &[&[usize]]) -> bool {
        let space = self.space;
        let height = layers.iter().take_while(|rows| rows[0] > 0).count();
        let (mut number, mut outer) = (0, space.diagrams.len() - 1);
        for (z, rows) in (1..).zip(layers) {
            let inner = space.diagrams.iter().position(|it| it == rows).unwrap_or(0);
            let [outer_number, inner_number] =
                [outer, inner].map(|at| u16::try_from(at).expect("at most 2^12"));
            number += space.start(z, outer_number, inner_number);
            outer = inner;
        }
        height > 0 && usize::from(self.heights.get(number)) == height
    }
}

struct Walk<'a> {
    space: &'a Space,
    heights: &'a Heights,
    losing: Vec<u64>,
    /// Index z: the layer; at 0 the whole.
    layers: Vec<u16>,
    /// Index z: the number of the chains before, as far as layer z says.
    before: Vec<usize>,
}

impl Walk<'_> {
    /// All surroundings with these first layers. Returns how many there were.
    fn task(&mut self, first: u16, second: u16) -> u64 {
        let full = u16::try_from(self.space.diagrams.len() - 1).expect("at most 2^12");
        self.layers.fill(NONE);
        self.layers[0] = full;
        self.put(1, first);
        if first == NONE {
            self.look(0);
            return 1;
        }
        if self.space.sides[2] == 1 || second == NONE {
            self.look(1);
            return 1;
        }
        if self.is_dead(1) {
            return 0;
        }
        self.put(2, second);
        self.further(2)
    }

    fn put(&mut self, z: usize, layer: u16) {
        let outer = self.layers[z - 1];
        self.layers[z] = layer;
        self.before[z] = self.before[z - 1] + self.space.start(z, outer, layer);
    }

    /// Whether the first z layers alone are losing: all positions with these and a further one can be cut to them.
    fn is_dead(&self, z: usize) -> bool {
        usize::from(self.heights.get(self.before[z])) == z
    }

    /// All surroundings with the first z layers.
    fn further(&mut self, z: usize) -> u64 {
        self.look(z);
        if z == self.space.sides[2] || self.is_dead(z) {
            return 1;
        }
        let mut count = 1;
        for layer in 1..=self.layers[z] {
            if self.space.contains(self.layers[z].into(), layer.into()) {
                self.put(z + 1, layer);
                count += self.further(z + 1);
            }
        }
        self.layers[z + 1] = NONE;
        count
    }

    /// Finds the losing height of the surroundings with these layers, of which `count` are more than one cell.
    fn look(&mut self, count: usize) {
        let space = self.space;
        let least = count.max(1);
        let all: u32 = ((1 << (space.sides[2] + 1)) - 1) & !((1 << least) - 1);
        let mut excluded = 0_u32;
        if count > 0 {
            let cells = space.sides[0] * space.sides[1];
            for cell in 1..cells {
                // From the top down: the chain of what is cut from here on.
                let (mut tail, mut above) = (0, NONE);
                for z in (1..=count).rev() {
                    let layer = self.layers[z];
                    let cut = space.cuts[usize::from(layer)][cell];
                    if z < count {
                        tail += space.start(z + 1, cut, above);
                    }
                    above = cut;
                    if cut == layer {
                        continue;
                    }
                    let number =
                        self.before[z - 1] + space.start(z, self.layers[z - 1], cut) + tail;
                    excluded |= 1 << self.heights.get(number);
                }
                if excluded & all == all {
                    return;
                }
            }
        }
        let height = (all & !excluded).trailing_zeros();
        if all & !excluded == 0 {
            return;
        }
        self.heights.set(
            self.before[count],
            u8::try_from(height).expect("at most 15"),
        );
        let first = &space.diagrams[usize::from(self.layers[1])];
        let rows = first
            .iter()
            .take_while(|&&length| length > 0)
            .count()
            .max(1);
        let place = space.place([rows, first[0].max(1), height as usize]);
        self.losing[place] += 1;
    }
}

fn contains(outer: &[usize], inner: &[usize]) -> bool {
    inner.iter().zip(outer).all(|(inner, outer)| inner <= outer)
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

fn all_diagrams(
    rows: usize,
    longest: usize,
    diagram: &mut Vec<usize>,
    all: &mut Vec<Vec<usize>>,
) -> Result<(), TooLarge> {
    if diagram.len() == rows {
        all.push(diagram.clone());
        return if all.len() > LAYERS_MAX {
            Err(TooLarge)
        } else {
            Ok(())
        };
    }
    for length in 0..=longest {
        diagram.push(length);
        all_diagrams(rows, length, diagram, all)?;
        diagram.pop();
    }
    Ok(())
}

/// For each layer the chains before, and the number of all chains.
fn starts(diagrams: &[Vec<usize>], layers: usize) -> Result<(Vec<Vec<u32>>, usize), TooLarge> {
    let count = diagrams.len();
    let mut starts = vec![Vec::new(); layers];
    // The chains from the layer after on, inside each diagram.
    let mut inside = vec![1_u64; count];
    for z in (0..layers).rev() {
        let mut of_layer = vec![0; count * count];
        let mut sums = vec![0; count];
        for outer in 0..count {
            let mut sum = 0_u64;
            for inner in 0..=outer {
                if contains(&diagrams[outer], &diagrams[inner]) {
                    of_layer[outer * count + inner] = u32::try_from(sum).map_err(|_| TooLarge)?;
                    sum += inside[inner];
                }
            }
            sums[outer] = sum;
        }
        starts[z] = of_layer;
        inside = sums;
    }
    let all = *inside.last().expect("the whole layer");
    let all = u32::try_from(all).map_err(|_| TooLarge)?;
    Ok((starts, all as usize))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A position as the heights of its lines, by rows.
    type Lines = Vec<usize>;

    /// Whether each position inside a box is losing, by the definition.
    fn by_definition([a, b, c]: [usize; 3]) -> BTreeMap<Lines, bool> {
        fn decide([a, b, c]: [usize; 3], lines: &Lines, known: &mut BTreeMap<Lines, bool>) -> bool {
            if let Some(&known) = known.get(lines) {
                return known;
            }
            let mut wins = false;
            for x in 0..a {
                for y in 0..b {
                    for z in 0..lines[x * b + y] {
                        let cut = lines.iter().enumerate();
                        let cut = cut.map(|(at, &height)| {
                            if at / b >= x && at % b >= y {
                                height.min(z)
                            } else {
                                height
                            }
                        });
                        wins |= decide([a, b, c], &cut.collect(), known);
                    }
                }
            }
            let is_losing = lines[0] > 0 && !wins;
            known.insert(lines.clone(), is_losing);
            is_losing
        }
        let mut known = BTreeMap::new();
        decide([a, b, c], &vec![c; a * b], &mut known);
        known
    }

    fn openings([a, b, c]: [usize; 3], known: &BTreeMap<Lines, bool>) -> Vec<[usize; 3]> {
        let cells = (0..a * b * c).map(|cell| [cell / (b * c), cell / c % b, cell % c]);
        let wins = |cell: &[usize; 3]| {
            let is_cut = |at: usize| at / b >= cell[0] && at % b >= cell[1];
            let line = |at: usize| if is_cut(at) { cell[2] } else { c };
            known[&(0..a * b).map(line).collect::<Lines>()]
        };
        cells
            .filter(wins)
            .map(|cell| cell.map(|at| at + 1))
            .collect()
    }

    #[test]
    fn boxes_are_those_of_the_definition() {
        let all = |_| true;
        for sides in [
            [1, 1, 1],
            [1, 1, 5],
            [3, 1, 4],
            [2, 2, 2],
            [3, 2, 4],
            [2, 3, 3],
            [3, 3, 3],
        ] {
            let space = Space::new(sides).unwrap();
            let known = by_definition(sides);
            assert_eq!(space.positions(), known.len() as u64, "{sides:?}");
            for threads in [1, 3] {
                let threads = NonZeroUsize::new(threads).unwrap();
                let solved = space.solve(threads, &all).unwrap();
                let losing = known.values().filter(|&&is_losing| is_losing).count();
                assert_eq!(solved.losing(sides), losing as u64, "{sides:?}");
                // All boxes inside, too.
                for inner in 0..sides.iter().product() {
                    let [_, b, c] = sides;
                    let inner = [inner / (b * c) + 1, inner / c % b + 1, inner % c + 1];
                    let known = by_definition(inner);
                    assert_eq!(solved.openings(inner), openings(inner, &known), "{inner:?}");
                    let losing = known.values().filter(|&&is_losing| is_losing).count();
                    assert_eq!(solved.losing(inner), losing as u64, "{inner:?}");
                }
            }
        }
        assert!(
            Space::new([2, 2, 2])
                .unwrap()
                .solve(NonZeroUsize::MIN, &|_| false)
                .is_none()
        );
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for sides in [[0, 1, 1], [1, 16, 1], [6, 6, 6], [15, 15, 15]] {
            assert_eq!(Space::new(sides).err(), Some(TooLarge), "{sides:?}");
        }
        assert_eq!(Space::new([4, 8, 4]).unwrap().positions(), 184_225_041);
    }
}
