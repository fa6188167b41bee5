//! The data file truncated at any length, bits flipped anywhere in it: nothing acknowledged is missing in silence.
//!
//! `LONGHAUL_LONG=1` does all of the 100 lengths and 200 places, `LONGHAUL_SEED` moves them; the seed is printed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use super::told::{Outcome, base, outcome, store};
use crate::support::{Chance, is_long};

/// What came of each, and how often.
type Tally = BTreeMap<Outcome, usize>;

/// Damages copies of the data file, each once, and counts what came of it.
fn tally(what: &str, times: usize, mut damage: impl FnMut(&Path, u64, &mut Chance)) -> Tally {
    let seed = Chance::seed();
    let mut chance = Chance::of(seed, 0);
    let mut tally = Tally::new();
    for n in 0..times {
        let place = base().copy();
        let data = store(place.path()).join("db");
        let before = fs::read(&data).expect("readable");
        damage(&data, n as u64, &mut chance);
        let came = outcome(place.path(), &base().told);
        let at = before.iter().zip(&fs::read(&data).expect("readable")).position(|(a, b)| a != b);
        let came = came.unwrap_or_else(|why| panic!("seed {seed}, {what} {n} of {times} ({at:?}): {why}"));
        *tally.entry(came.0).or_default() += 1;
    }
    println!("seed {seed}, {times} times {what}: {tally:?}");
    tally
}

#[test]
fn a_truncated_data_file_loses_nothing_in_silence() {
    let times = if is_long() { 100 } else { 20 };
    let tally = tally("truncated", times, |data, n, chance| {
        let file = File::options().write(true).open(data).expect("there");
        let len = file.metadata().expect("readable").len();
        // One in each part of the file, and the very ends.
        let part = len / times as u64;
        let to = match n {
            0 => 1,
            1 => len - 1,
            n => n * part + chance.below(part),
        };
        file.set_len(to).expect("truncated");
    });
    assert!(tally.contains_key(&Outcome::Refused), "{tally:?}");
    assert!(!tally.contains_key(&Outcome::AllButABody), "{tally:?}");
}

#[test]
fn a_flipped_bit_of_the_data_file_is_harmless_or_said() {
    let times = if is_long() { 200 } else { 40 };
    // Most of them where something is written.
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
    let tally = tally("with a flipped bit", times, |data, n, chance| {
        let mut bytes = fs::read(data).expect("readable");
        let part = used(&bytes) / times as u64;
        let at = usize::try_from(n * part + chance.below(part)).expect("small");
        bytes[at] ^= 1 << chance.below(8);
        fs::write(data, bytes).expect("written");
    });
    assert!(tally.len() > 1, "{tally:?}");
    assert!(!tally.contains_key(&Outcome::AllButABody), "{tally:?}");
}
