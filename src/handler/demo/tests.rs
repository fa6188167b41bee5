//! Promises of the demo, kept from outside: the story it tells, its counts, its errors.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::clock::{Clock, Manual};
use crate::handler::testing::{Recorder, claim};
use crate::job::{Outcome, Timestamp};
use crate::work::{Report, Stop};

fn run(payload: &Value) -> (Outcome, Arc<Recorder>) {
    run_with(payload.to_string().into(), Millis(0))
}

fn run_with(payload: Bytes, pace: Millis) -> (Outcome, Arc<Recorder>) {
    let clock: Arc<dyn Clock> = Arc::new(Manual::at_time(Timestamp(1_000)));
    let recorder = Arc::new(Recorder::default());
    let claim = claim(Timestamp(600_000));
    let context = RunContext::new(&*recorder, &claim, &clock);
    let outcome = Analysis::new(pace).run(&claim, &payload, &context);
    recorder.keep_log(context.into_log());
    (outcome, recorder)
}

fn result(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Done(output) => serde_json::from_slice(output.data.as_ref().expect("data")).expect("JSON"),
        Outcome::Failed(failing) => panic!("failed: {}", failing.failure.message),
        Outcome::Asked => panic!("asked"),
    }
}

fn failure(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(_) | Outcome::Asked => panic!("done"),
        Outcome::Failed(failing) => {
            assert_eq!(failing.failure.class, Class::Permanent);
            failing.failure.message.to_string()
        }
    }
}

fn stargazer() -> Value {
    json!({"recipientProfile": "A retired teacher who loves gardening, astronomy and good tea", "budget": 80})
}

#[test]
fn the_story_is_two_steps_three_gifts_two_steps() {
    let (outcome, recorder) = run(&stargazer());
    let told: Vec<String> = recorder
        .reports()
        .into_iter()
        .map(|report| match report {
            Report::Progress(progress) => {
                format!("progress {}/{}", progress.step.expect("a step"), progress.total_steps.expect("a total"))
            }
            Report::Partial { data, .. } => {
                let partial: Value = serde_json::from_slice(&data).expect("JSON");
                format!("partial {}", partial["gifts"].as_array().expect("gifts").len())
            }
            Report::Ask { .. } => "ask".into(),
            Report::Delivered => "delivered".into(),
        })
        .collect();
    assert_eq!(told, ["progress 1/4", "progress 2/4", "partial 3", "progress 3/4", "progress 4/4"]);
    let result = result(&outcome);
    assert_eq!(result["gifts"].as_array().expect("gifts").len(), GIFTS_MAX);
}

#[test]
fn the_embedded_history_has_every_blemish_and_is_read_all_the_same() {
    let (outcome, recorder) = run(&stargazer());
    let history = result(&outcome)["history"].clone();
    let count = |name: &str| history[name].as_u64().expect("a count");
    assert_eq!(count("lines"), count("purchases") + count("duplicates") + count("broken"));
    assert!(count("purchases") > 3_000 && count("duplicates") > 20, "{history}");
    for fault in ["columns", "date", "item", "quantity", "price"] {
        assert!(history["brokenBy"][fault].as_u64().is_some_and(|n| n > 0), "{fault} in {history}");
    }
    let named = recorder.log().lines().filter(|line| line.starts_with("line ")).count() as u64;
    assert_eq!(named, count("broken").min(BROKEN_LOGGED_MAX as u64));
}

#[test]
fn gifts_fit_the_budget_and_the_profile_and_say_why() {
    let (outcome, _) = run(&stargazer());
    let result = result(&outcome);
    for gift in result["gifts"].as_array().expect("gifts") {
        assert!(gift["price"].as_f64().expect("a price") <= 80.0, "{gift}");
        assert!(!gift["reasons"].as_array().expect("reasons").is_empty(), "{gift}");
    }
    let first = &result["gifts"][0];
    assert!(first["reasons"][0].as_str().expect("a reason").starts_with("matches "), "{first}");
    let (outcome, _) = run(&json!({"recipientProfile": "A cyclist who plans long tours", "budget": 60}));
    assert_eq!(self::result(&outcome)["gifts"][0]["category"], "Cycling");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(run(&stargazer()).0, run(&stargazer()).0);
}

#[test]
fn the_result_fits_the_schema_that_the_tool_declares() {
    let validator = jsonschema::validator_for(&output_schema()).expect("a schema");
    assert!(validator.is_valid(&result(&run(&stargazer()).0)));
    let input = jsonschema::validator_for(&input_schema()).expect("a schema");
    assert!(input.is_valid(&stargazer()));
    assert!(!input.is_valid(&json!({"recipientProfile": "x", "budget": 0})));
}

#[test]
fn a_history_can_be_sent_along_and_one_without_usable_lines_is_refused_for_good() {
    let csv =
        "Order ID,Date,Product,Category,Qty,Price\n1,2024-01-05,Inner tube,Cycling,1,\"12,50\"\n2,2024-13-01,x,y,1,1\n";
    let mut payload = stargazer();
    payload["purchaseHistory"] = csv.into();
    let (outcome, recorder) = run(&payload);
    let history = json!({"lines": 2, "purchases": 1, "duplicates": 0, "broken": 1, "brokenBy": {"date": 1}});
    assert_eq!(result(&outcome)["history"], history);
    assert_eq!(recorder.log(), "line 3: no date that exists\n");
    payload["purchaseHistory"] = "Date,Product,Price\nnever,x,1\n".into();
    assert!(failure(&run(&payload).0).contains("1 × no date that exists"));
    payload["purchaseHistory"] = "".into();
    assert!(failure(&run(&payload).0).contains("empty"));
}

#[test]
fn what_cannot_be_analysed_is_a_permanent_failure() {
    for payload in [json!({}), json!([]), json!({"recipientProfile": 7, "budget": 1}), json!({"recipientProfile": "x"})]
    {
        assert!(failure(&run(&payload).0).starts_with("the payload"), "{payload}");
    }
    assert!(failure(&run(&json!({"recipientProfile": "x", "budget": -1})).0).starts_with("budget"));
    assert!(failure(&run(&json!({"recipientProfile": "x", "budget": 0.5})).0).contains("the cheapest costs"));
}

#[test]
fn a_pause_between_stages_ends_when_the_attempt_is_to_stop() {
    let clock: Arc<dyn Clock> = Arc::new(Manual::at_time(Timestamp(1_000)));
    let recorder = Arc::new(Recorder::default());
    let claim = claim(Timestamp(600_000));
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let context = RunContext::new(&*recorder, &claim, &clock);
            let payload = stargazer().to_string().into();
            Analysis::new(Millis::seconds(1)).run(&claim, &payload, &context)
        });
        claim.stop.set(Stop::Cancel);
        running.join().expect("no panic")
    });
    assert_eq!(outcome, crate::handler::stopped());
    assert_eq!(recorder.reports(), [Report::Delivered]);
}

#[test]
fn a_pause_ends_at_the_deadline() {
    let manual = Manual::at_time(Timestamp(1_000));
    let clock: Arc<dyn Clock> = Arc::new(manual.clone());
    let recorder = Arc::new(Recorder::default());
    let claim = claim(Timestamp(1_500));
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let context = RunContext::new(&*recorder, &claim, &clock);
            let payload = stargazer().to_string().into();
            Analysis::new(Millis::seconds(1)).run(&claim, &payload, &context)
        });
        manual.advance(Millis(500));
        running.join().expect("no panic")
    });
    assert_eq!(outcome, Outcome::timed_out("the attempt did not end in time"));
}
