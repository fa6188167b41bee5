//! Chance that a seed repeats.

/// A small generator (splitmix): reproducible by its seed.
pub struct Chance(u64);

impl Chance {
    /// Number `stream` of those that this seed has.
    pub fn of(seed: u64, stream: u64) -> Self {
        Self(Self(seed ^ stream.rotate_left(32)).number())
    }

    /// The seed that a person asked for (`LONGHAUL_SEED`), or a new one.
    pub fn seed() -> u64 {
        number("LONGHAUL_SEED", std::process::id().into())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n
    }

    /// Another generator.
    pub fn branch(&mut self) -> Self {
        Self(self.number())
    }
}

/// A number from the environment, or what stands for it.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
