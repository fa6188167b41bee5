//! Medians and quantiles.

use std::time::Duration;

/// The middle of a few figures; 0 of none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// How long each of many things took.
#[derive(Default)]
pub struct Lengths(Vec<u32>);

impl Lengths {
    /// One more, in whole microseconds.
    pub fn add(&mut self, length: Duration) {
        self.0.push(u32::try_from(length.as_micros()).unwrap_or(u32::MAX));
    }

    /// All of another.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// In milliseconds, the length that so many per cent do not exceed.
    pub fn quantile_ms(&mut self, per_cent: usize) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() * per_cent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(0.0, |micros| f64::from(*micros) / 1_000.0)
    }
}
