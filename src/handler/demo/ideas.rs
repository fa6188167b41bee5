//! Stages three and four: gifts that fit the profile, the segments and the budget; and their ranking.
//!
//! In: the catalogue, the segments, a profile, a budget. Out: gifts with points and the reasons for them. Whole points only, so
//! that every machine ranks alike.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::gifts::Gift;
use super::history::Purchase;
use super::money;
use super::segments::{Band, Recency, Segment};

/// Words of a profile that are looked at.
pub const PROFILE_WORDS_MAX: usize = 200;

/// Matching words that still add points: a profile that repeats itself is not heard louder.
const MATCHES_MAX: usize = 4;

const POINTS_PER_MATCH: i64 = 30;
const POINTS_FOR_ALL_PURCHASES: i64 = 100;
const POINTS_FOR_RECENT: i64 = 12;
const POINTS_FOR_DORMANT: i64 = -6;
const POINTS_FOR_BAND: i64 = 6;
const POINTS_FOR_PRICE: i64 = 15;
const POINTS_FOR_OWNED: i64 = -25;
const POINTS_PER_SIBLING: i64 = -9;

/// Words that say nothing about a gift.
const EMPTY_WORDS: [&str; 24] = [
    "and", "the", "for", "who", "with", "her", "his", "she", "they", "their", "that", "this", "from", "has", "have",
    "love", "like", "likes", "loves", "enjoy", "very", "old", "year", "years",
];

/// A gift, and what speaks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idea<'a> {
    /// The gift.
    pub gift: &'a Gift,
    /// More is better.
    pub points: i64,
    /// For people.
    pub reasons: Vec<String>,
}

impl Idea<'_> {
    /// As partial and result show it.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.gift.name,
            "category": self.gift.category,
            "price": money(self.gift.price_cents),
            "points": self.points,
            "reasons": self.reasons,
        })
    }
}

/// Every gift within the budget, those that fit profile and purchases best first.
///
/// # Errors
/// No gift is that cheap; says what the cheapest costs.
pub fn first<'a>(
    gifts: &'a [Gift],
    segments: &[Segment],
    profile: &str,
    budget_cents: i64,
) -> Result<Vec<Idea<'a>>, String> {
    let wanted: Vec<(String, String)> = spoken_words(profile);
    let segments: HashMap<&str, &Segment> = segments.iter().map(|s| (s.category.as_str(), s)).collect();
    let within = gifts.iter().filter(|gift| gift.price_cents <= budget_cents);
    let mut ideas: Vec<Idea<'a>> =
        within.map(|gift| idea(gift, &wanted, segments.get(gift.category.as_str()).copied())).collect();
    if ideas.is_empty() {
        let cheapest = gifts.iter().map(|gift| gift.price_cents).min().unwrap_or_default();
        return Err(format!(
            "no gift fits a budget of {}; the cheapest costs {}",
            money(budget_cents),
            money(cheapest)
        ));
    }
    sort(&mut ideas);
    Ok(ideas)
}

fn idea<'a>(gift: &'a Gift, wanted: &[(String, String)], segment: Option<&Segment>) -> Idea<'a> {
    let matching: Vec<&str> = wanted
        .iter()
        .filter(|(stem, _)| gift.tags.contains(stem))
        .map(|(_, spoken)| spoken.as_str())
        .take(MATCHES_MAX)
        .collect();
    let mut idea = Idea { gift, points: 0, reasons: Vec::new() };
    if !matching.is_empty() {
        idea.points += POINTS_PER_MATCH * matching.len() as i64;
        idea.reasons.push(format!("matches {} in the profile", matching.join(", ")));
    }
    if let Some(segment) = segment {
        idea.points += POINTS_FOR_ALL_PURCHASES * segment.share_per_mille / 1_000;
        idea.reasons.push(format!("{} purchases of {}", segment.purchases, segment.category));
    }
    idea
}

/// The same ideas with recency, price, what is owned already, and variety taken into account; the best first.
pub fn ranked<'a>(
    mut ideas: Vec<Idea<'a>>,
    segments: &[Segment],
    purchases: &[Purchase],
    budget_cents: i64,
) -> Vec<Idea<'a>> {
    let segments: HashMap<&str, &Segment> = segments.iter().map(|s| (s.category.as_str(), s)).collect();
    let owned: BTreeSet<Vec<String>> = purchases.iter().map(|purchase| words(&purchase.item)).collect();
    for idea in &mut ideas {
        if let Some(segment) = segments.get(idea.gift.category.as_str()) {
            weigh_segment(idea, segment);
        }
        if idea.gift.price_cents * 5 >= budget_cents * 2 {
            idea.points += POINTS_FOR_PRICE;
            idea.reasons.push("makes good use of the budget".into());
        }
        let name = words(&idea.gift.name);
        if owned.iter().any(|item| alike(item, &name)) {
            idea.points += POINTS_FOR_OWNED;
            idea.reasons.push("something like it was bought before".into());
        }
    }
    sort(&mut ideas);
    let mut siblings: HashMap<&str, i64> = HashMap::new();
    for idea in &mut ideas {
        let before = siblings.entry(idea.gift.category.as_str()).or_default();
        idea.points += POINTS_PER_SIBLING * *before;
        *before += 1;
    }
    sort(&mut ideas);
    ideas
}

fn weigh_segment(idea: &mut Idea<'_>, segment: &Segment) {
    match segment.recency {
        Recency::Recent => {
            idea.points += POINTS_FOR_RECENT;
            idea.reasons.push(format!("last bought there on {}", segment.last));
        }
        Recency::Steady => {}
        Recency::Dormant => {
            idea.points += POINTS_FOR_DORMANT;
            idea.reasons.push(format!("nothing bought there since {}", segment.last));
        }
    }
    if segment.band == Band::of(idea.gift.price_cents) {
        idea.points += POINTS_FOR_BAND;
    }
}

/// Two names that share half of their words, and two at least.
fn alike(a: &[String], b: &[String]) -> bool {
    let shared = a.iter().filter(|word| b.contains(word)).count();
    shared >= 2 && shared * 2 >= a.len().min(b.len())
}

fn sort(ideas: &mut [Idea<'_>]) {
    ideas.sort_by(|a, b| b.points.cmp(&a.points).then_with(|| a.gift.name.cmp(&b.gift.name)));
}

/// The distinct words of a text in the form in which they are compared, sorted.
pub fn words(text: &str) -> Vec<String> {
    let stems: BTreeSet<String> = spoken_words(text).into_iter().map(|(stem, _)| stem).collect();
    stems.into_iter().collect()
}

/// Each distinct word that says something: as it is compared, and as it was written; in the order of the text.
fn spoken_words(text: &str) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    text.split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 2 && !EMPTY_WORDS.contains(&word.as_str()))
        .map(|word| (stem(&word), word))
        .filter(|(stem, _)| seen.insert(stem.clone()))
        .take(PROFILE_WORDS_MAX)
        .collect()
}

/// Enough to find "garden" in "gardening" and "book" in "books".
fn stem(word: &str) -> String {
    let plain = ["ing", "ers", "er", "es", "s", "e"].iter().find_map(|ending| word.strip_suffix(ending));
    plain.filter(|stem| stem.chars().count() > 2).unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_its_other_forms() {
        for (a, b) in [("gardening", "gardens"), ("books", "book"), ("hiking", "hikes"), ("reader", "reading")] {
            assert_eq!(words(a), words(b), "{a} {b}");
        }
        assert_eq!(words("the art of tea, and of a tea"), ["art", "tea"]);
    }

    #[test]
    fn alike_names_share_half_of_their_words() {
        let alike = |a, b| alike(&words(a), &words(b));
        assert!(alike("Concert ticket", "concert tickets"));
        assert!(!alike("Hand cream", "Hand grinder with steel burrs"));
        assert!(!alike("Tea", "Tea set"));
    }
}
