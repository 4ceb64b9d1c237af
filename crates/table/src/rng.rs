//! Pseudo-random numbers from a seed (splitmix64).

/// Hashes `value`: distinct values give distinct numbers without a visible pattern.
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut mixed = value;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A sequence of pseudo-random numbers, determined by its seed.
#[derive(Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    /// True with probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The index of some element of a slice of this length; none if it is empty.
    pub fn index(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| usize::try_from(self.below(len as u64)).expect("below a usize"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of S. Vigna's program.
    #[test]
    fn it_is_splitmix64() {
        for (seed, numbers) in [
            (0, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]),
            (
                1_234_567,
                [6_457_827_717_110_365_317, 3_203_168_211_198_807_973],
            ),
        ] {
            let mut rng = Rng(seed);
            assert_eq!([(); 2].map(|()| rng.next_u64()), numbers);
        }
    }

    #[test]
    fn choices_follow_from_the_numbers() {
        let numbers = |seed| {
            std::iter::repeat_with({
                let mut rng = Rng(seed);
                move || rng.next_u64()
            })
        };
        let mut rng = Rng(7);
        for number in numbers(7).take(20) {
            assert_eq!(rng.below(10), number % 10);
        }
        let mut rng = Rng(7);
        for number in numbers(7).take(20) {
            assert_eq!(rng.once_in(3), number.is_multiple_of(3));
        }
        let mut rng = Rng(7);
        assert_eq!(rng.index(0), None);
        for number in numbers(7).take(20) {
            assert_eq!(rng.index(5), usize::try_from(number % 5).ok());
        }
    }
}
