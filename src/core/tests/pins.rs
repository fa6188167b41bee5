//! While a backup pins, nothing is forgotten; afterwards, or when it takes too long, retention goes on.

use super::rig::{Rig, block_on, options};
use crate::core::{Keep, Options, PIN_MAX, PinRefusal, Retention};
use crate::job::{Millis, Rules};
use crate::store::Store;

/// A core that keeps ended jobs for a second, and one of them.
fn rig() -> (Rig, crate::job::JobId) {
    let plain = Keep { keep: Millis::seconds(1), ..Keep::default() };
    let retention = Retention { plain, ..Retention::default() };
    let rig = Rig::with(Options { retention, ..options() }, Rules::default());
    let id = rig.submit();
    let claim = rig.claim();
    rig.done(&claim);
    (rig, id)
}

fn is_kept(rig: &Rig, id: crate::job::JobId) -> bool {
    rig.settle();
    rig.store.job(id).expect("readable").is_some()
}

#[test]
fn what_comes_of_age_under_a_pin_goes_once_it_is_released() {
    let (rig, id) = rig();
    let pin = block_on(rig.core.pin()).expect("the core answers").expect("free");
    assert_eq!(block_on(rig.core.pin()).expect("the core answers"), Err(PinRefusal::Taken));
    rig.advance(Millis::seconds(60));
    assert!(is_kept(&rig, id));
    rig.core.unpin(pin);
    rig.settle();
    assert!(!is_kept(&rig, id));
    let again = block_on(rig.core.pin()).expect("the core answers").expect("free again");
    rig.core.unpin(pin);
    assert!(is_pinned(&rig, &again), "a late end of an old pin ends nothing");
}

fn is_pinned(rig: &Rig, pin: &crate::store::Pin) -> bool {
    rig.settle();
    rig.store.is_pinned(pin)
}

#[test]
fn a_pin_ends_by_itself_and_retention_goes_on() {
    let (rig, id) = rig();
    let pin = block_on(rig.core.pin()).expect("the core answers").expect("free");
    rig.advance(Millis(PIN_MAX.0 - 1));
    assert!(is_kept(&rig, id) && is_pinned(&rig, &pin));
    rig.advance(Millis(1));
    rig.settle();
    assert!(!is_pinned(&rig, &pin) && !is_kept(&rig, id));
}

#[test]
fn a_server_that_drains_begins_no_backup() {
    let (rig, _) = rig();
    rig.core.drain();
    assert_eq!(block_on(rig.core.pin()).expect("the core answers"), Err(PinRefusal::Draining));
}
