//! A small generator (splitmix64): reproducible by its seed, and as many independent ones as there are images.

/// A row of numbers.
pub struct Chance(u64);

impl Chance {
    /// The row of this seed and this number.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut chance = Self(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        chance.next();
        chance
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One below this; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small").max(1);
        usize::try_from(self.next() % bound).expect("small")
    }
}
