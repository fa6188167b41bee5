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

/// Lives of 128 jobs: created, started, one progress, completed.
fn live_together(store: &Sled, from: u64) {
    let mut stories: Vec<Story> = (from..from + 128)
        .map(|n| job_with(n, |spec| spec.key = key(&n.to_string()).filter(|_| n.is_multiple_of(4))))
        .collect();
    let mut steps: Vec<Vec<Change>> = vec![stories.iter_mut().map(creation).collect()];
    let max_attempts = stories[0].spec.max_attempts;
    let started = Entry::Started { claim: ClaimNo(1), attempt: 1, max_attempts, worker: "w1".into() };
    for entry in [started, Entry::Progress(Progress { step: Some(1), ..Progress::default() })] {
        steps.push(stories.iter_mut().map(|story| change(story, vec![entry.clone()], Vec::new())).collect());
    }
    let result =
        body(Part::Result, 1, &Bytes::from_static(b"{\"answer\": 42, \"text\": \"as short as most results are\"}"));
    let ends = stories.iter_mut().map(|story| {
        let (result_name, summary) = (Some(result.name), "".into());
        let completion = Completion { summary, result: result_name, content: None, is_error: false, lossy: false };
        let (completion, duration) = (Arc::new(completion), Millis(1));
        let end = Entry::Completed { claim: ClaimNo(1), completion, attempts: 1, duration, inline: None, log: None };
        change(story, vec![end], vec![result.clone()])
    });
    steps.push(ends.collect());
    for group in &steps {
        assert!(store.commit(group).expect("works").iter().all(Result::is_ok));
    }
}

/// The most memory that this process has had, in MiB.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0_u64) / 1024
}

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
