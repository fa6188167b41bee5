//! The seeds of the fuzz targets, what they have found, and some thousand inputs near them: on stable, without a fuzzer.
//! `fuzz/README.md` says how the targets are run; `recovery` has a file of its own, `recovery_replay`.
//!
//! `LONGHAUL_FUZZ_ROUNDS` sets how many inputs near the seeds each target gets, `LONGHAUL_SEED` the seed, which is printed.

use std::path::Path;

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

/// Inputs near the seeds, for each target, unless the environment says otherwise.
const ROUNDS: u64 = 1_000;

#[test]
fn stored_records_of_any_bytes_are_read_or_refused() {
    replay("codec");
}

#[test]
fn any_text_is_a_configuration_or_complained_about_where_it_is_wrong() {
    replay("config");
}

#[test]
fn whatever_a_child_prints_has_a_sound_outcome() {
    replay("handler_lines");
}

#[test]
fn cursors_are_what_they_say_or_refused() {
    replay("last_event_id");
}

#[test]
fn every_life_of_a_job_tells_one_story() {
    replay("machine");
}

#[test]
fn every_message_to_mcp_is_answered_as_json_rpc() {
    replay("mcp");
}

#[test]
fn every_request_is_answered_with_a_status_of_the_contract() {
    replay("http");
}

#[test]
fn each_target_is_replayed() {
    let source = include_str!("fuzz_replay.rs");
    for (name, _) in targets::ALL {
        assert!(source.contains(&format!("replay({name:?})")), "{name}");
    }
}

/// Every seed and every find of a target, and inputs near them.
fn replay(name: &str) {
    let (_, run) = targets::ALL.iter().find(|(target, _)| *target == name).expect("a target");
    let folder = |kind: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(kind).join(name);
    let mut inputs = Vec::new();
    for path in files(&folder("seeds")).into_iter().chain(files(&folder("crashes"))) {
        let bytes = std::fs::read(&path).expect("a readable seed");
        inputs.push(bytes.clone());
        let _told = Told(format!("{} of {name}", path.display()), &bytes);
        run(&bytes);
    }
    assert!(!inputs.is_empty(), "{name} has seeds");
    let from_environment = |name: &str, default| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let (rounds, seed) = (from_environment("LONGHAUL_FUZZ_ROUNDS", ROUNDS), from_environment("LONGHAUL_SEED", 1));
    println!("{name}: {} seeds and finds, {rounds} rounds, seed {seed}", inputs.len());
    let mut chance = Chance(seed);
    for round in 0..rounds {
        let bytes = chance.near(&inputs);
        let _told = Told(format!("round {round} of {name}, seed {seed}"), &bytes);
        run(&bytes);
    }
}

/// The files of a folder by name; none if there is no folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}

/// An input that is being tried: printed if that ends in a panic.
struct Told<'a>(String, &'a [u8]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: b\"{}\"", self.0, self.1.escape_ascii());
        }
    }
}

/// A small generator (splitmix): reproducible by its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % n.max(1) as u64).expect("below a usize")
    }

    /// One of the inputs with a few changes.
    fn near(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, inputs);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        /// Bytes that mean something somewhere.
        const TELLING: &[u8] = b"\0\x01\x02\x03\n\r \"\\{}[]:,=&%.-+09aZ$\x7f\x80\xc3\xed\xff";
        let at = self.below(bytes.len() + 1);
        let to = at + self.below(bytes.len() + 1 - at);
        match self.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..to)),
            2 => bytes.insert(at, TELLING[self.below(TELLING.len())]),
            3 => bytes.extend_from_within(at..to),
            4 => {
                let other = &inputs[self.below(inputs.len())];
                let from = self.below(other.len() + 1);
                bytes.splice(at..to, other[from..].iter().copied());
            }
            5 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            _ if at < bytes.len() => bytes[at] = TELLING[self.below(TELLING.len())],
            _ => {}
        }
    }
}
