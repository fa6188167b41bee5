//! Power cuts: what clients had been told is there, whatever the disk had not written yet.
//!
//! A server runs under a recorder (`tests/power/recorder`) that notes, in order, what it does to its directory and when it
//! gives which bytes to which client. From the record we compute what a disk may hold if the power goes at some record, the
//! *image*, let the real binary open it, and hold it against what had been given to clients by then. `disk.rs` computes,
//! `judge.rs` holds against.
//!
//! The model, as hostile as ext4, xfs or btrfs may be:
//! - What is done to a file before an `fsync` or `fdatasync` of it begins is safe once that returns; nothing else is, neither
//!   by `sync_file_range` nor by waiting. What is done while a sync runs is not covered by it.
//! - Bytes that are not safe: each sector of 512 bytes is as it was after any of the writes to it, or before them, whatever
//!   its neighbours are. A sector itself is never torn.
//! - The length of a file that is not safe is any that it has had since, told apart from its bytes: what it should hold and
//!   does not reads as zeros.
//! - Names (made, renamed, removed) are safe after a sync of their *folder*; a sync of the file does not do. Of those that
//!   are not safe the first so many are there, per folder, in order: a later one never without an earlier one.
//! - What is safe stays as it is. No block is damaged, and none is written elsewhere.
//!
//! `LONGHAUL_POWER_IMAGES` sets the number of images (300 unless it says otherwise, 3,000 with `LONGHAUL_LONG`; a new recording
//! for each 300), `LONGHAUL_SEED` the seed, which is printed. A recording depends on the order of threads, so a seed does not
//! bring the same images back: an image that loses something is kept, and the failure says where.

mod chance;
mod disk;
mod judge;
mod model;
mod process;
#[path = "../power/recorder/src/record.rs"]
mod record;
mod recording;
mod wire;
mod workload;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use chance::Chance;
use disk::{Disk, Mood};
use judge::{Question, judge};
use process::Process;
use record::Record;
use recording::{Death, Life, Recorder, Recording, folder};
use workload::{Client, Until};

use crate::support::{TRIAL, is_long};

/// How many ended jobs are kept in the lives that remove old ones.
const KEPT: usize = 12;
/// Images of one recording.
const IMAGES: u64 = 300;
/// Most images that are kept because they lost something.
const LOST_MAX: u64 = 5;
/// Images opened at once.
const JUDGES: u64 = 2;

/// Lives of a server: the first one makes the directory and ends in order, one is killed, one removes old jobs and is
/// killed, one dies while it opens, one dies before a sync, one is only read, and one ends in order.
fn record(seed: u64, breach: Option<&'static str>) -> Recording {
    let recorder = Recorder::new(breach);
    let plain = format!("{TRIAL}[queue]\nworkers = 8\n[server]\nshutdown_grace = \"50ms\"\n");
    let trims = format!("{plain}[retention]\nmax_jobs = {KEPT}\n");
    let mut chance = Chance::new(seed, 0);
    live(&recorder, &plain, Until::Jobs(14), &mut chance);
    live(&recorder, &plain, Until::Gone, &mut chance);
    live(&recorder, &trims, Until::Gone, &mut chance);
    // One that dies while it opens.
    if let Ok(process) = recorder.start(&plain, Death::Records(1 + chance.below(50) as u64)) {
        recorder.kill(process);
    }
    unsynced(&recorder, &mut chance);
    live(&recorder, &plain, Until::Jobs(4), &mut chance);
    recorder.finish()
}

/// A server dies with writes that no sync covers, and the next one shows what they say: by then it must be safe.
fn unsynced(recorder: &Recorder, chance: &mut Chance) {
    // Opening takes fewer.
    let death = Death::Syncs(40 + chance.below(5) as u64);
    let connect = |process: &Process, chance| {
        Client::connect(&process.address, &recorder.ports, &recorder.journal, chance, "unsynced").expect("a connection")
    };
    let process = recorder.start(&still(), death).unwrap_or_else(|said| panic!("no start: {said}"));
    connect(&process, Chance::new(chance.next(), 0)).submit_small();
    recorder.kill(process);
    let process = recorder.start(&still(), Death::Never).unwrap_or_else(|said| panic!("no start: {said}"));
    (0..10).for_each(|_| connect(&process, Chance::new(0, 0)).look());
    recorder.kill(process);
}

/// One life with three clients and a reader. Either they have enough, or the server is killed under them.
fn live(recorder: &Recorder, config: &str, until: Until, chance: &mut Chance) {
    let process = recorder.start(config, Death::Never).unwrap_or_else(|said| panic!("no start: {said}"));
    let enough = recorder.journal.len() + 100 + chance.below(100);
    let connect = |name: String, chance| {
        Client::connect(&process.address, &recorder.ports, &recorder.journal, chance, &name).expect("a connection")
    };
    let mut reader = connect("reader".into(), Chance::new(0, 0));
    let workers: Vec<_> = (0..3)
        .map(|n| {
            let seed = chance.next();
            connect(format!("{seed}-{n}"), Chance::new(seed, n))
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(move || reader.read());
        let workers: Vec<_> = workers.into_iter().map(|mut worker| scope.spawn(move || worker.work(until))).collect();
        if until == Until::Gone {
            recorder.journal.wait_for(enough);
            recorder.kill(process);
        } else {
            workers.into_iter().for_each(|worker| worker.join().expect("a client"));
            let (status, said) = process.stop();
            assert!(status.success(), "{status}: {said}");
        }
    });
}

/// A record to cut behind: anywhere, right behind what a client was told, while a server opened, or near a change of names.
fn cut(recording: &Recording, chance: &mut Chance) -> usize {
    let records = &recording.records;
    let one_of = |chance: &mut Chance, wanted: fn(&Record) -> bool| {
        let all: Vec<usize> = (0..records.len()).filter(|at| wanted(&records[*at])).collect();
        all[chance.below(all.len())]
    };
    let within = |chance: &mut Chance, life: &Life| life.from + chance.below(life.serves - life.from + 1);
    match chance.below(5) {
        0 => chance.below(records.len() + 1),
        1 => one_of(chance, |record| matches!(record, Record::Sent { .. })) + 1,
        2 => {
            let life = recording.lives[chance.below(recording.lives.len())];
            within(chance, &life)
        }
        3 => within(chance, &recording.lives[0]),
        _ => {
            let named = |record: &Record| {
                matches!(record, Record::Renamed { .. } | Record::Removed { .. } | Record::Created { .. })
            };
            (one_of(chance, named) + chance.below(7)).saturating_sub(3).min(records.len())
        }
    }
}

/// What is lost of so many images of a recording. Where nothing should be, the images that lose something are kept.
fn losses(recording: &Recording, images: u64, seed: u64, keeps: bool) -> Vec<String> {
    let tmp = folder();
    let config = tmp.path().join("longhaul.toml");
    std::fs::write(&config, still()).expect("the configuration is written");
    let next = AtomicU64::new(0);
    let losses = Mutex::new(Vec::new());
    let kept = AtomicU64::new(if keeps { 0 } else { LOST_MAX });
    let judge_images = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < images
        {
            let place = tmp.path().join(number.to_string());
            let image = Image { recording, seed, number };
            let mut found = image.judge(&place, &config);
            if !found.is_empty() && kept.fetch_add(1, Ordering::Relaxed) < LOST_MAX {
                let kept = std::env::temp_dir().join(format!("longhaul-lost-{seed}-{number}"));
                // What an earlier run kept under this name.
                let _ = std::fs::remove_dir_all(&kept);
                drop(image.build(&kept));
                found.push(format!("that image is kept as {}", kept.display()));
            }
            losses.lock().expect("losses").extend(found);
            std::fs::remove_dir_all(&place).expect("the image goes");
        }
    };
    std::thread::scope(|scope| (0..JUDGES).for_each(|_| drop(scope.spawn(judge_images))));
    losses.into_inner().expect("losses")
}

/// A configuration under which nothing runs and nothing is removed.
fn still() -> String {
    format!("{TRIAL}[queue]\nworkers = 0\n")
}

/// What one power cut leaves, by its number.
struct Image<'a> {
    recording: &'a Recording,
    seed: u64,
    number: u64,
}

impl Image<'_> {
    /// Writes it down: the record it was cut behind, and how; an error if a server refuses it meanwhile.
    fn build(&self, into: &Path) -> (usize, Result<Mood, String>) {
        let mut chance = Chance::new(self.seed, self.number);
        let cut = cut(self.recording, &mut chance);
        let mood = mood(&mut chance);
        let disk = Disk::after(self.recording.root, &self.recording.records[..cut]);
        if self.number % 10 == 9 {
            return (cut, cut_again(&disk, mood, &mut chance, into));
        }
        disk.cut(mood, &mut chance, into);
        (cut, Ok(mood))
    }

    /// Each promise that it breaks.
    fn judge(&self, image: &Path, config: &Path) -> Vec<String> {
        let (cut, mood) = self.build(image);
        let Self { recording, seed, number } = self;
        let known = recording.facts.partition_point(|(at, _)| *at <= cut);
        let trims = recording.lives.iter().any(|life| life.trims && life.from < cut);
        let wrong = match &mood {
            Err(said) => vec![said.clone()],
            Ok(_) => judge(&Question {
                image,
                config,
                facts: recording.facts[..known].iter().map(|(_, known)| known).collect(),
                kept: trims.then_some(KEPT),
                verify_first: number % 8 == 7,
                goes_on: number % 4 == 0,
            }),
        };
        let place = format!("seed {seed}, image {number}, cut {cut} of {}, {mood:?}", recording.records.len());
        wrong.into_iter().map(|why| format!("{place}: {why}")).collect()
    }
}

fn mood(chance: &mut Chance) -> Mood {
    match chance.below(20) {
        0..=4 => Mood::Lost,
        5..=6 => Mood::Kept,
        7..=10 => Mood::Cut,
        _ => Mood::Torn,
    }
}

/// The power goes again while a server opens what the first cut has left.
fn cut_again(disk: &Disk<'_>, first: Mood, chance: &mut Chance, into: &Path) -> Result<Mood, String> {
    let recording;
    let recorder = Recorder::new(None);
    disk.cut(first, chance, &recorder.root());
    let mut disk = Disk::of(&recorder.root());
    let death = if chance.below(3) > 0 { Death::Records(1 + chance.below(60) as u64) } else { Death::Never };
    match recorder.start(&still(), death) {
        Ok(process) => drop(recorder.kill(process)),
        Err(said) if matches!(death, Death::Records(_)) && said.contains("SIGABRT") => {}
        Err(said) => {
            std::fs::create_dir_all(into).expect("a folder of the image");
            return Err(format!("{first:?}, then refused: {said}"));
        }
    }
    recording = recorder.finish();
    let cut = chance.below(recording.records.len() + 1);
    disk.replay(&recording.records[..cut]);
    let mood = mood(chance);
    disk.cut(mood, chance, into);
    Ok(mood)
}

/// The record is whole: what it leads to is what there is.
fn check(recording: &Recording) {
    let tmp = folder();
    let image = tmp.path().join("whole");
    Disk::after(recording.root, &recording.records).copy(Mood::Kept, &mut Chance::new(0, 0), &image);
    let difference = disk::difference(&recording.folder(), &image);
    assert!(difference.is_empty(), "the recorder has missed something: {difference:?}");
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn seed() -> u64 {
    from_environment("LONGHAUL_SEED", u64::from(std::process::id()))
}

#[test]
fn what_clients_were_told_survives_every_power_cut() {
    let images = from_environment("LONGHAUL_POWER_IMAGES", if is_long() { 10 * IMAGES } else { IMAGES });
    let seed = seed();
    let mut lost = Vec::new();
    for round in 0..images.div_ceil(IMAGES) {
        let recording = record(seed + round, None);
        check(&recording);
        let count = IMAGES.min(images - round * IMAGES);
        let (records, facts) = (recording.records.len(), recording.facts.len());
        println!("seed {}: {records} records, {facts} facts, {count} images", seed + round);
        lost.extend(losses(&recording, count, seed + round, true));
    }
    assert!(lost.is_empty(), "{} losses:\n{}", lost.len(), lost.join("\n"));
}

#[test]
fn a_store_that_answers_before_it_syncs_is_caught() {
    let seed = seed();
    let lost = losses(&record(seed, Some("answer-before-sync")), 30, seed, false);
    println!("seed {seed}: {} losses, the first: {:?}", lost.len(), lost.first());
    assert!(!lost.is_empty(), "seed {seed}: nobody noticed");
}

/// A store is copied to a disk that has written nothing of it yet, a server opens it and takes a job: what is wrong if the
/// power goes right behind its answer.
fn lost_of_a_copy(breach: Option<&'static str>) -> Vec<String> {
    let recorder = Recorder::new(breach);
    taken(&recorder, 30, Death::Never);
    let disk = Disk::copied(&recorder.root());
    let from = recorder.count();
    taken(&recorder, 3, Death::Never);
    least_behind(&recorder.finish(), disk, from, usize::MAX)
}

#[test]
fn a_store_that_was_copied_here_unsynced_is_safe_once_it_answers() {
    assert_eq!(lost_of_a_copy(None), Vec::<String>::new());
}

#[test]
fn a_store_that_leaves_files_unsynced_at_open_is_caught() {
    let lost = lost_of_a_copy(Some("no-sync-at-open"));
    println!("{} losses, the first: {:?}", lost.len(), lost.first());
    assert!(!lost.is_empty(), "nobody noticed");
}

/// A server under which nothing runs takes so many small jobs, or dies while it opens. Whether it took them.
fn taken(recorder: &Recorder, jobs: usize, death: Death) -> bool {
    let process = match recorder.start(&still(), death) {
        Ok(process) => process,
        Err(said) if said.contains("SIGABRT") && !matches!(death, Death::Never) => return false,
        Err(said) => panic!("no start: {said}"),
    };
    let chance = Chance::new(0, 0);
    let name = recorder.count().to_string();
    let mut client = Client::connect(&process.address, &recorder.ports, &recorder.journal, chance, &name).unwrap();
    let all = (0..jobs).all(|number| client.submit(number, &json!({"do": "noop"})).is_ok());
    recorder.kill(process);
    all
}

/// A server dies after each of its records in turn while it opens; the next one opens what is there, and takes a job: what
/// is wrong if the power goes right behind its answer. What the first one left unsynced, nobody else would sync.
fn lost_after_a_death_at_each_record_of_an_opening(makes: bool, step: u64) -> Vec<String> {
    let number = AtomicU64::new(0);
    let lost = Mutex::new(Vec::new());
    let die_in_turn = || {
        loop {
            let last = 1 + step * number.fetch_add(1, Ordering::Relaxed);
            let recorder = Recorder::new(None);
            if !makes {
                taken(&recorder, 8, Death::Never);
            }
            let served = taken(&recorder, 1, Death::Records(last));
            taken(&recorder, 1, Death::Never);
            let recording = recorder.finish();
            let disk = Disk::after(recording.root, &[]);
            let wrong = least_behind(&recording, disk, 0, usize::MAX);
            lost.lock().expect("losses").extend(wrong.into_iter().map(|why| format!("died at {last}: {why}")));
            if served {
                return;
            }
        }
    };
    std::thread::scope(|scope| (0..JUDGES).for_each(|_| drop(scope.spawn(die_in_turn))));
    lost.into_inner().expect("losses")
}

#[test]
fn a_server_that_died_anywhere_while_it_made_the_store_costs_the_next_one_nothing() {
    assert_eq!(lost_after_a_death_at_each_record_of_an_opening(true, 1), Vec::<String>::new());
}

#[test]
fn a_server_that_died_anywhere_while_it_opened_costs_the_next_one_nothing() {
    let step = if is_long() { 1 } else { 3 };
    assert_eq!(lost_after_a_death_at_each_record_of_an_opening(false, step), Vec::<String>::new());
}

/// Submits a few jobs one after the other, to a server of this durability; what it said, and the history.
fn told_one_by_one(durability: &str) -> (String, Recording) {
    let recorder = Recorder::new(None);
    let config = format!("{}[store]\ndurability = \"{durability}\"\n", still());
    let process = recorder.start(&config, Death::Never).unwrap_or_else(|said| panic!("no start: {said}"));
    let chance = Chance::new(0, 0);
    let mut client = Client::connect(&process.address, &recorder.ports, &recorder.journal, chance, "one").unwrap();
    for number in 0..6 {
        let filler = "x".repeat(number * 20_000);
        client.submit(number, &json!({"do": "noop", "filler": filler})).expect("an answer");
    }
    let said = recorder.kill(process);
    (said, recorder.finish())
}

/// What is wrong with the least that a power cut leaves of this disk right behind the answer that told this fact, or the
/// last one.
fn least_behind<'a>(recording: &'a Recording, mut disk: Disk<'a>, from: usize, fact: usize) -> Vec<String> {
    let tmp = folder();
    let (image, config) = (tmp.path().join("image"), tmp.path().join("longhaul.toml"));
    std::fs::write(&config, still()).expect("the configuration is written");
    let facts = &recording.facts[..recording.facts.len().min(fact.saturating_add(1))];
    let (at, _) = facts.last().expect("a fact");
    disk.replay(&recording.records[from..*at]);
    disk.cut(Mood::Lost, &mut Chance::new(0, 0), &image);
    let facts = facts.iter().map(|(_, known)| known).collect();
    judge(&Question { image: &image, config: &config, facts, kept: None, verify_first: false, goes_on: true })
}

/// Whether, between two answers, the data file was written and then synced to its end.
fn is_synced(records: &[Record], data: u64) -> bool {
    let written = records.iter().rposition(|record| matches!(record, Record::Written { ino, .. } if *ino == data));
    let Some(written) = written else { return false };
    let ended =
        |wanted: u64| records.iter().any(|record| matches!(record, Record::SyncEnded { token } if *token == wanted));
    records[written..]
        .iter()
        .any(|record| matches!(record, Record::SyncBegan { ino, token } if *ino == data && ended(*token)))
}

#[test]
fn case_52_a_sync_of_the_data_file_stands_between_its_write_and_the_answer() {
    let (_, recording) = told_one_by_one("disk");
    let data = recording.inode_of("db");
    let answers: Vec<usize> = recording.facts.iter().map(|(at, _)| *at).collect();
    assert_eq!(answers.len(), 6);
    for (number, at) in answers.iter().enumerate().skip(1) {
        assert!(is_synced(&recording.records[answers[number - 1]..*at], data), "answer {number}");
        let wrong = least_behind(&recording, Disk::after(recording.root, &[]), 0, number);
        assert!(wrong.is_empty(), "answer {number}: {wrong:?}");
    }
}

#[test]
fn case_52_the_faster_mode_says_at_start_that_a_power_cut_may_lose_what_was_told() {
    let (said, recording) = told_one_by_one("process");
    assert!(said.contains("a power cut may lose what was acknowledged last"), "{said}");
    // And so it may: what the message says is true, and the test above would see it.
    let data = recording.inode_of("db");
    let answers: Vec<usize> = recording.facts.iter().map(|(at, _)| *at).collect();
    assert!(!is_synced(&recording.records[answers[0]..answers[5]], data));
    assert!(!least_behind(&recording, Disk::after(recording.root, &[]), 0, 5).is_empty());
}
