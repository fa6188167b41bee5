//! Bytes as a row of choices.
//!
//! In: any bytes. Out: one small number after the other; zeros once they are used up. A byte each, so that a change of
//! one byte changes one choice and leaves what follows in its place.

/// What is left of the bytes.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// Yes once in `n` times.
    pub fn once_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }
}
