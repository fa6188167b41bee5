//! A store with a long history: how long it takes to open after a kill and to verify, and how much memory.
//!
//! `LONGHAUL_JOBS` says how many jobs, 3,000 unless it does. With `LONGHAUL_AT` the store is made in that folder, the process
//! then ends as if killed, and the next run finds it there: so the figures are those of a process that did not make it.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::job::{ClaimNo, Completion, Millis};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// One step of each, together.
fn step_together(store: &Sled, stories: &mut [Story], step: impl Fn(&mut Story) -> (Entry, Vec<Body>)) {
    let changes: Vec<Change> = stories
        .iter_mut()
        .map(|story| {
            let (entry, bodies) = step(story);
            Change { jobs: vec![story.step(vec![entry], bodies)], cells: Vec::new() }
        })
        .collect();
    let positions = store.commit(&changes).expect("works");
    for ((story, change), position) in stories.iter_mut().zip(&changes).zip(positions) {
        story.landed(&change.jobs[0], position.expect("no conflict"));
    }
}

/// Lives of 128 jobs: created, started, one progress, completed.
fn live_together(store: &Sled, from: u64) {
    let named = |n: u64| key(&n.to_string()).filter(|_| n.is_multiple_of(4));
    let mut stories: Vec<Story> = (from..from + 128).map(|n| job_with(n, |spec| spec.key = named(n))).collect();
    step_together(store, &mut stories, |story| (story.created(), vec![body(Part::Payload, 0, &story.payload)]));
    let max_attempts = stories[0].spec.max_attempts;
    step_together(store, &mut stories, |_| {
        (Entry::Started { claim: ClaimNo(1), attempt: 1, max_attempts, worker: "w1".into() }, Vec::new())
    });
    let progress = Progress { step: Some(1), ..Progress::default() };
    step_together(store, &mut stories, |_| (Entry::Progress(progress.clone()), Vec::new()));
    let result = body(Part::Result, 1, &Bytes::from_static(b"{\"answer\": 42, \"text\": \"short, as most results\"}"));
    step_together(store, &mut stories, |_| {
        let (name, summary) = (Some(result.name), "".into());
        let completion = Completion { summary, result: name, content: None, is_error: false, lossy: false };
        let (completion, duration) = (Arc::new(completion), Millis(1));
        let end = Entry::Completed { claim: ClaimNo(1), completion, attempts: 1, duration, inline: None, log: None };
        (end, vec![result.clone()])
    });
}

/// The most memory that this process has had, in MiB.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0_u64) / 1024
}

#[expect(clippy::print_stdout, reason = "what was measured is for whoever asks for it")]
#[test]
fn a_long_history_opens_and_is_verified() {
    let jobs = number("LONGHAUL_JOBS", 3_000).next_multiple_of(128);
    let clock = crate::clock::System;
    let own = Place::new();
    let at = std::env::var_os("LONGHAUL_AT").map(std::path::PathBuf::from);
    let dir = at.clone().unwrap_or_else(|| own.options().dir);
    let options = Options { dir: dir.clone(), cache_bytes: 64 * 1024 * 1024, durability: Durability::Process };
    let timed = |what: &str, begun: std::time::Duration| {
        let took = crate::clock::Clock::tick(&clock).saturating_sub(begun);
        println!("{what}: {took:?}, at most {} MiB so far", most_memory());
    };
    if !dir.exists() {
        let begun = crate::clock::Clock::tick(&clock);
        let store = Sled::open(&options).expect("it opens");
        store.live().expect("works");
        (1..=jobs).step_by(128).for_each(|from| live_together(&store, from));
        timed(&format!("{jobs} jobs made"), begun);
        if at.is_some() {
            // As a kill would leave it.
            std::process::exit(0);
        }
        drop(store);
    }
    let begun = crate::clock::Clock::tick(&clock);
    let store = Sled::open(&options).expect("it opens");
    assert_eq!(store.live().expect("works").len(), 0);
    timed("opened", begun);
    assert_eq!(store.totals().all().jobs, jobs);
    store.close().expect("closes");
    drop(store);
    let begun = crate::clock::Clock::tick(&clock);
    let report = super::super::verify(&dir).expect("verify looks through it");
    timed("verified", begun);
    assert!(report.is_whole(), "{:#?}", report.complaints);
    assert_eq!((report.jobs, report.entries), (jobs, 4 * jobs));
}
