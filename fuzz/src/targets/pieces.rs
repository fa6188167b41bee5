//! Bytes as a row of choices, and as text in sections.
//!
//! In: any bytes. Out: one small number after the other, zeros once they are used up; or what stands between separators.
//! A change of one byte changes one choice and leaves what follows in its place.

/// What is left of the bytes.
pub struct Pieces<'a>(pub &'a [u8]);

impl<'a> Pieces<'a> {
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

    /// A number below `n`, which is 1 to 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// One of these.
    pub fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Yes for odd bytes.
    pub fn coin(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// The next bytes, as many as the next byte says.
    pub fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// The same as text, what is no UTF-8 replaced.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.some()).into_owned()
    }
}
