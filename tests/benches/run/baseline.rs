//! The plain way to build the table: one bit a position, and the moves of each position tried one
//! after the other until one leads to a losing position. This is the method of the programs
//! before this one, written as well as it can be: the moves are tried in the order that finds a
//! losing position soonest, after 16 probes in the mean of all positions of 22 bits.

/// The number of losing positions of at most `bits` bits.
pub(crate) fn losing(bits: u32) -> u64 {
    let positions = 1_usize << (bits - 1);
    let mut losing = vec![0_u64; positions.div_ceil(64)];
    let mut count = 0;
    for index in 1..positions {
        if !has_move_to_losing(index as u64 * 2, &losing) {
            losing[index / 64] |= 1 << (index % 64);
            count += 1;
        }
    }
    count
}

#[inline]
fn has_move_to_losing(word: u64, losing: &[u64]) -> bool {
    let is_losing = |index: u64| losing[(index / 64) as usize] >> (index % 64) & 1 == 1;
    let mut starts = word;
    while starts != 0 {
        // The 1 furthest to the left whose moves are not yet tried, and what it can move past.
        let start = starts.ilog2();
        starts ^= 1 << start;
        let prefix = word >> start >> 1 << start << 1;
        let mut ends = !word & ((1 << start) - 1);
        let mut ones = start + 1 - ends.count_ones();

        // The segment down to the last bit leaves trailing 1s, which are dropped.
        let shorter = prefix | ((1 << ones) - 1);
        if is_losing(shorter >> shorter.trailing_ones() >> 1) {
            return true;
        }
        let mut end = 0;
        ends &= ends - 1;
        while ends != 0 {
            let next_end = ends.trailing_zeros();
            ends &= ends - 1;
            // Between two 0s there are only 1s, and they leave the segment.
            ones -= next_end - end - 1;
            end = next_end;
            if is_losing((prefix | ((1 << ones) - 1) << end | word & ((1 << end) - 1)) >> 1) {
                return true;
            }
        }
    }
    false
}
