//! Pins: what is there when one is taken can be read until it is released, and goes afterwards as it always did.

use bytes::Bytes;

use super::super::{Pin, Store};
use super::story::{Story, job};
use super::{Promise, Subject};
use crate::job::{BodyRef, ClaimNo, Class, End, Entry, Failure, LOGS_MAX, Part, Position, Timestamp};

pub(super) const PROMISES: &[(&str, Promise)] = &[
    ("under a pin nothing is forgotten", under_a_pin_nothing_is_forgotten),
    ("a pin shows nothing that came after it", a_pin_shows_nothing_that_came_after_it),
    ("a pinned body outlives being dropped", a_held_body_outlives_being_dropped),
    ("pinned logs outlive being dropped", held_logs_outlive_being_dropped),
    ("a later pin ends the one before", a_later_pin_ends_the_one_before),
];

fn numbers(store: &dyn Store, pin: &Pin) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    // Page by page, so that no page misses what the next one begins with.
    loop {
        let after = Position(found.last().copied().unwrap_or(0));
        let page = store.pinned_entries(pin, after, 2).expect("works");
        if page.is_empty() {
            return found;
        }
        found.extend(page.iter().map(|logged| logged.position.0));
    }
}

fn under_a_pin_nothing_is_forgotten(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let (first, kept, third) = (job(1).live(store), job(2).die(store), job(3).live(store));
    store.forget(&[first.id()]).expect("works");
    let pin = store.pin().expect("works");
    assert!(store.is_pinned(&pin));
    store.forget(&[kept.id(), third.id()]).expect("it is no error");
    assert!(store.job(kept.id()).expect("works").is_some(), "passed over");
    assert_eq!(store.bounds().floor, pin.bounds.floor);
    assert_eq!(numbers(store, &pin), (4..=9).collect::<Vec<_>>());
    store.forget(&[third.id()]).expect("works");
    store.unpin(&pin);
    assert!(!store.is_pinned(&pin));
    store.forget(&[third.id()]).expect("works");
    assert!(store.job(third.id()).expect("works").is_none());
    let below = store.pin().expect("works");
    assert_eq!(numbers(store, &below), [4, 5, 6], "below the floor as well");
    assert!(below.bounds.floor.0 > 6);
}

fn a_pin_shows_nothing_that_came_after_it(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut one = job(1);
    one.create(store);
    let pin = store.pin().expect("works");
    one.start(store);
    job(2).live(store);
    assert_eq!(numbers(store, &pin), [1]);
    assert_eq!(pin.bounds.last, Position(1));
}

fn pinned(store: &dyn Store, story: &Story, name: BodyRef) -> Option<Bytes> {
    let limit = usize::try_from(name.len).expect("a test's length");
    store.pinned_body(story.id(), name, 0, limit).expect("works")
}

fn a_held_body_outlives_being_dropped(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    for (number, len) in [(1, 10), (2, 5_000), (3, 100_000)] {
        let mut story = job(number);
        story.create(store);
        story.start(store);
        let values: Vec<Bytes> = (0..4_u8).map(|n| vec![n; len].into()).collect();
        let name = |n: usize| BodyRef::of(Part::Partial, 1 << 32 | n as u64, &values[n]);
        story.partial(store, 0, &values[0]);
        story.partial(store, 1, &values[1]);
        let pin = store.pin().expect("works");
        story.partial(store, 2, &values[2]);
        story.partial(store, 3, &values[3]);
        assert_eq!(pinned(store, &story, name(1)).as_ref(), Some(&values[1]), "{len} bytes");
        let part = store.pinned_body(story.id(), name(1), 3, 4).expect("works");
        assert_eq!(part, Some(values[1].slice(3..7)));
        assert_eq!(pinned(store, &story, name(0)), None, "it was dropped before");
        store.unpin(&pin);
        assert_eq!(pinned(store, &story, name(1)), None);
        assert_eq!(pinned(store, &story, name(3)).as_ref(), Some(&values[3]));
    }
}

fn held_logs_outlive_being_dropped(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    story.create(store);
    let attempt = |story: &mut Story, claim: u64| {
        story.start(store);
        let log = super::story::body(Part::Log, claim, &format!("log of {claim}").into());
        let failure = Failure::new(Class::Transient, None, "again");
        let (claim, name) = (ClaimNo(claim), Some(log.name));
        let (end, next_at) = (End::Failed, Timestamp(0));
        let entry = Entry::Retrying { claim, end, failure, retry: 1, max_attempts: 99, next_at, log: name };
        story.put(store, vec![entry], vec![log]);
    };
    let most = LOGS_MAX as u64;
    (1..=most).for_each(|claim| attempt(&mut story, claim));
    let pin = store.pin().expect("works");
    (most + 1..=2 * most + 2).for_each(|claim| attempt(&mut story, claim));
    for claim in 1..=most {
        let text = Bytes::from(format!("log of {claim}"));
        let name = BodyRef::of(Part::Log, claim, &text);
        assert_eq!(pinned(store, &story, name), Some(text));
    }
    store.unpin(&pin);
}

fn a_later_pin_ends_the_one_before(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let first = store.pin().expect("works");
    let second = store.pin().expect("works");
    assert!(!store.is_pinned(&first) && store.is_pinned(&second));
    store.unpin(&first);
    assert!(store.is_pinned(&second), "who comes late ends nothing");
}
