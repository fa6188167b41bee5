//! The catalogue of gifts, embedded.
//!
//! In: nothing. Out: every gift. The file is part of the program, so a line that cannot be read is left out and a test says so.

use serde::Deserialize;

use super::history::cents;
use super::ideas::words;

const CATALOGUE: &str = include_str!("../../../data/demo/catalogue.csv");

/// Something that can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gift {
    /// What it is.
    pub name: String,
    /// Where a shop would put it.
    pub category: String,
    /// What it costs.
    pub price_cents: i64,
    /// The words that it answers to, in the form of `ideas::words`.
    pub tags: Vec<String>,
}

/// Every gift, in the order of the file.
pub fn embedded() -> Vec<Gift> {
    #[derive(Deserialize)]
    struct Line {
        name: String,
        category: String,
        price: String,
        tags: String,
    }
    let mut reader = csv::Reader::from_reader(CATALOGUE.as_bytes());
    let gift = |line: Line| {
        let tags = words(&format!("{} {} {}", line.tags, line.category, line.name));
        Some(Gift { price_cents: cents(&line.price)?, name: line.name, category: line.category, tags })
    };
    reader.deserialize().filter_map(Result::ok).filter_map(gift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_catalogue_is_a_gift() {
        assert_eq!(embedded().len(), CATALOGUE.lines().count() - 1);
    }
}
