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
//! `LONGHAUL_POWER_IMAGES` sets the number of images (300 unless it says otherwise; a new recording for each 300),
//! `LONGHAUL_SEED` the seed, which is printed.

mod chance;
mod disk;
mod judge;
mod process;
#[path = "../power/recorder/src/record.rs"]
mod record;
mod recording;
mod wire;
mod workload;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use chance::Chance;
use disk::{Disk, Mood};
use judge::{Question, judge};
use record::Record;
use recording::{Life, Recorder, Recording, folder};
use workload::{Client, Known, Until};

use crate::support::TRIAL;

/// How many ended jobs are kept in the lives that remove old ones.
const KEPT: usize = 12;
/// Images of one recording.
const IMAGES: u64 = 300;
/// Images opened at once.
const JUDGES: u64 = 2;

/// Lives of a server: the first one makes the directory and ends in order, one is killed, one removes old jobs and is
/// killed, one dies while it opens, and one ends in order.
fn record(seed: u64, breach: Option<&'static str>) -> Recording {
    let recorder = Recorder::new(breach);
    let plain = format!("{TRIAL}[queue]\nworkers = 8\n");
    let trims = format!("{plain}[retention]\nmax_jobs = {KEPT}\n");
    let mut chance = Chance::new(seed, 0);
    live(&recorder, &plain, Until::Jobs(14), &mut chance);
    live(&recorder, &plain, Until::Gone, &mut chance);
    live(&recorder, &trims, Until::Gone, &mut chance);
    let last = 1 + chance.below(50) as u64;
    if let Ok(process) = recorder.start(&plain, Some(last)) {
        recorder.kill(process);
    }
    live(&recorder, &plain, Until::Jobs(4), &mut chance);
    recorder.finish()
}

/// One life with three clients and a reader. Either they have enough, or the server is killed under them.
fn live(recorder: &Recorder, config: &str, until: Until, chance: &mut Chance) {
    let process = recorder.start(config, None).unwrap_or_else(|said| panic!("no start: {said}"));
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

/// What is lost of so many images of a recording.
fn losses(recording: &Recording, images: u64, seed: u64) -> Vec<String> {
    let tmp = folder();
    let config = tmp.path().join("longhaul.toml");
    std::fs::write(&config, format!("{TRIAL}[queue]\nworkers = 0\n")).expect("the configuration is written");
    let next = AtomicU64::new(0);
    let losses = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..JUDGES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= images {
                        return;
                    }
                    let image = tmp.path().join(number.to_string());
                    let found = image_of(recording, number, seed, &image, &config);
                    losses.lock().expect("losses").extend(found);
                    std::fs::remove_dir_all(&image).expect("the image goes");
                }
            });
        }
    });
    losses.into_inner().expect("losses")
}

fn image_of(
    recording: &Recording,
    number: u64,
    seed: u64,
    image: &std::path::Path,
    config: &std::path::Path,
) -> Vec<String> {
    let mut chance = Chance::new(seed, number);
    let cut = cut(recording, &mut chance);
    let mood = match chance.below(20) {
        0..=4 => Mood::Lost,
        5..=6 => Mood::Kept,
        7..=10 => Mood::Cut,
        _ => Mood::Torn,
    };
    Disk::after(recording.root, &recording.records[..cut]).cut(mood, &mut chance, image);
    let known = recording.facts.partition_point(|(at, _)| *at <= cut);
    let facts: Vec<&Known> = recording.facts[..known].iter().map(|(_, known)| known).collect();
    let trims = recording.lives.iter().any(|life| life.trims && life.from < cut);
    let question = Question {
        image,
        config,
        facts,
        kept: trims.then_some(KEPT),
        verify_first: number % 8 == 7,
        goes_on: number % 4 == 0,
    };
    let wrong = judge(&question);
    let of = recording.records.len();
    wrong.into_iter().map(|why| format!("seed {seed}, image {number}, cut {cut} of {of}, {mood:?}: {why}")).collect()
}

/// The record is whole: what it leads to is what there is.
fn check(recording: &Recording) {
    let tmp = folder();
    let image = tmp.path().join("whole");
    Disk::after(recording.root, &recording.records).cut(Mood::Kept, &mut Chance::new(0, 0), &image);
    let difference = disk::difference(&recording.folder(), &image);
    assert!(difference.is_empty(), "the recorder has missed something: {difference:?}");
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn what_clients_were_told_survives_every_power_cut() {
    let images = from_environment("LONGHAUL_POWER_IMAGES", IMAGES);
    let seed = from_environment("LONGHAUL_SEED", u64::from(std::process::id()));
    let mut lost = Vec::new();
    for round in 0..images.div_ceil(IMAGES) {
        let recording = record(seed + round, None);
        check(&recording);
        let count = IMAGES.min(images - round * IMAGES);
        let (records, facts) = (recording.records.len(), recording.facts.len());
        println!("seed {}: {records} records, {facts} facts, {count} images", seed + round);
        lost.extend(losses(&recording, count, seed + round));
    }
    assert!(lost.is_empty(), "{} losses:\n{}", lost.len(), lost.join("\n"));
}
