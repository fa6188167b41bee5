//! Chance that can be had again: a small generator, and where its seed comes from.

/// A number from the environment.
pub fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A small generator (xorshift): reproducible by its seed.
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// 0 up to, and without, `n`; 0 if that is nothing.
    pub fn up_to(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}
