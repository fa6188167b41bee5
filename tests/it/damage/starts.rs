//! Row 54: started while the last one dies, started twice. `LONGHAUL_LONG=1` restarts 200 times.

use serde_json::json;

use super::served::{self, Start};
use super::told::{Outcome, base, outcome, refused, serve};
use crate::support::is_long;

#[test]
fn case_54_a_server_started_as_the_last_one_dies_waits_a_little_and_serves() {
    let rounds = if is_long() { 200 } else { 20 };
    let place = base().copy();
    let mut served = serve(place.path());
    for round in 0..rounds {
        // Not waited for: the next one meets the dying one's lock.
        served.kill();
        let next = match served::start(place.path()) {
            Start::Serves(next) => next,
            Start::Ended(end) => panic!("round {round}: {end:?}"),
        };
        drop(std::mem::replace(&mut served, next));
    }
    assert_eq!(served.end().code, Some(0));
    assert_eq!(outcome(place.path(), &base().told).expect("whole").0, Outcome::Whole);
}

#[test]
fn case_54_a_second_server_is_refused_in_one_line_and_the_first_is_unharmed() {
    let place = base().copy();
    let first = serve(place.path());
    let Start::Ended(second) = served::start(place.path()) else { panic!("two servers on one directory") };
    assert_eq!(refused(&second, 7), Ok(Outcome::Refused));
    let pid = first.pid().as_raw_nonzero().to_string();
    assert!(second.said.contains(&format!("process {pid}")), "{second:?}");
    let id = first.client.submit(json!({"do": "noop"}));
    assert_eq!(first.client.job(&id)["status"], "pending");
    assert_eq!(served::verify(place.path()).code, Some(7));
    assert_eq!(first.end().code, Some(0));
    assert_eq!(served::verify(place.path()).code, Some(0));
}
