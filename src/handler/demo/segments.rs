//! Stage two: purchases sorted into segments by category, recency and price band.
//!
//! In: purchases. Out: one segment per category, the largest first. "Recent" is counted from the history's own last day, so
//! that an old export gives the same answer for ever.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::gifts::Gift;
use super::history::Purchase;
use super::money;

/// A category misspelt by at most this many letters is still that category.
const MISSPELT_MAX: usize = 2;

/// How long ago the last purchase was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recency {
    /// Within 90 days.
    Recent,
    /// Within a year.
    Steady,
    /// Longer ago.
    Dormant,
}

impl Recency {
    fn of(days: i32) -> Self {
        match days {
            ..=90 => Self::Recent,
            91..=365 => Self::Steady,
            366.. => Self::Dormant,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Steady => "steady",
            Self::Dormant => "dormant",
        }
    }
}

/// What one thing costs there, usually.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// Below 15.
    Low,
    /// Below 45.
    Middle,
    /// From 45 up.
    High,
}

impl Band {
    /// The band of a price.
    pub const fn of(cents: i64) -> Self {
        match cents {
            ..1_500 => Self::Low,
            1_500..4_500 => Self::Middle,
            4_500.. => Self::High,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Middle => "middle",
            Self::High => "high",
        }
    }
}

/// The purchases of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The catalogue's name for it where it has one.
    pub category: String,
    /// How many purchases.
    pub purchases: usize,
    /// Their share of all, in thousandths.
    pub share_per_mille: i64,
    /// What they cost together.
    pub spent_cents: i64,
    /// The day of the last.
    pub last: Date,
    /// How long that was before the last of all.
    pub recency: Recency,
    /// Of the median price.
    pub band: Band,
}

impl Segment {
    /// As the result shows it.
    pub fn to_json(&self) -> Value {
        json!({
            "category": self.category,
            "purchases": self.purchases,
            "spent": money(self.spent_cents),
            "lastPurchase": self.last.to_string(),
            "recency": self.recency.name(),
            "priceBand": self.band.name(),
        })
    }
}

/// The segments of these purchases: most purchases first, then by name.
pub fn of(purchases: &[Purchase], gifts: &[Gift]) -> Vec<Segment> {
    let mut known: Vec<&str> = gifts.iter().map(|gift| gift.category.as_str()).collect();
    known.dedup();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut by_category: BTreeMap<String, Vec<&Purchase>> = BTreeMap::new();
    for purchase in purchases {
        let name = names.entry(&purchase.category).or_insert_with(|| canonical(&purchase.category, &known));
        by_category.entry(name.clone()).or_default().push(purchase);
    }
    let Some(newest) = purchases.iter().map(|purchase| purchase.date).max() else { return Vec::new() };
    let segment = |(category, members)| segment(category, members, purchases.len(), newest);
    let mut segments: Vec<Segment> = by_category.into_iter().filter_map(segment).collect();
    segments.sort_by(|a, b| b.purchases.cmp(&a.purchases).then_with(|| a.category.cmp(&b.category)));
    segments
}

/// `None` without members, which no category is.
fn segment(category: String, members: Vec<&Purchase>, of_all: usize, newest: Date) -> Option<Segment> {
    let last = members.iter().map(|purchase| purchase.date).max()?;
    let mut prices: Vec<i64> = members.iter().map(|purchase| purchase.unit_cents).collect();
    prices.sort_unstable();
    let sum = |total: i64, p: &&Purchase| total.saturating_add(p.unit_cents.saturating_mul(i64::from(p.quantity)));
    Some(Segment {
        category,
        purchases: members.len(),
        share_per_mille: i64::try_from(members.len() * 1_000 / of_all.max(1)).unwrap_or(0),
        spent_cents: members.iter().fold(0, sum),
        last,
        recency: Recency::of(newest.since(last).map_or(i32::MAX, |span| span.get_days())),
        band: Band::of(prices[prices.len() / 2]),
    })
}

/// The catalogue's name for a category, however it was spelt; its own where the catalogue has none.
fn canonical(written: &str, known: &[&str]) -> String {
    let plain = written.trim().to_lowercase();
    if plain.is_empty() {
        return "Other".into();
    }
    let distance = |name: &&&str| strsim::levenshtein(&name.to_lowercase(), &plain);
    let nearest = known.iter().min_by_key(distance).filter(|name| distance(name) <= MISSPELT_MAX.min(plain.len() / 3));
    nearest.map_or_else(|| written.trim().to_owned(), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_found_however_it_is_spelt() {
        let known = ["Books", "Coffee & Tea", "Art"];
        for (written, expected) in [
            ("BOOKS", "Books"),
            ("books ", "Books"),
            ("Boks", "Books"),
            ("Coffe & Tea", "Coffee & Tea"),
            ("Cat", "Cat"),
            ("", "Other"),
            ("Boats and more", "Boats and more"),
        ] {
            assert_eq!(canonical(written, &known), expected, "{written}");
        }
    }

    #[test]
    fn segments_know_share_recency_and_price_band() {
        let purchase = |category: &str, date: &str, unit_cents| Purchase {
            order: String::new(),
            date: date.parse().expect("a date"),
            item: "thing".into(),
            category: category.into(),
            quantity: 2,
            unit_cents,
        };
        let purchases = [
            purchase("b", "2024-06-01", 1_000),
            purchase("a", "2024-05-01", 5_000),
            purchase("a", "2022-01-01", 4_400),
            purchase("b", "2023-01-01", 900),
            purchase("c", "2023-01-01", 2_000),
        ];
        let found = of(&purchases, &[]);
        let plain = |s: &Segment| (s.category.clone(), s.share_per_mille, s.spent_cents, s.recency, s.band);
        let expected = [
            ("a".into(), 400, 18_800, Recency::Recent, Band::High),
            ("b".into(), 400, 3_800, Recency::Recent, Band::Low),
            ("c".into(), 200, 4_000, Recency::Dormant, Band::Middle),
        ];
        assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), expected);
    }
}
