//! Tokens, from `token new` to the wire: whoever has none gets nothing, and whoever has one sees their own.

use std::process::Command;

use serde_json::json;

use crate::support::server::binary;
use crate::support::{Server, TRIAL};

/// A new token of that name, and the lines that let it in.
pub fn token(name: &str) -> (String, String) {
    let output = Command::new(binary()).args(["token", "new", "--name", name]).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let (token, lines) = said.split_once('\n').expect("a token and its lines");
    (token.to_owned(), lines.to_owned())
}

#[test]
fn a_token_lets_its_owner_in_and_shows_nobody_else_s_jobs() {
    let mut server = Server::start(TRIAL);
    let anyone = server.client();
    let local = anyone.submit(json!({"do": "noop"}));
    let [(anns, ann_in), (bobs, bob_in)] = ["ann", "bob"].map(token);
    server.reconfigure(&format!("{TRIAL}\n{ann_in}\n{bob_in}"));
    server.crash();
    assert_eq!(anyone.get(&format!("/api/jobs/{local}")).status, 401, "now a token is needed");
    assert_eq!(anyone.with_token("lh_wrong").get("/api/jobs").status, 401);
    let (ann, bob) = (anyone.with_token(&anns), anyone.with_token(&bobs));
    let job = ann.submit(json!({"do": "noop"}));
    assert_eq!(ann.ended(&job)["owner"], "ann");
    for path in [format!("/api/jobs/{job}"), format!("/api/jobs/{job}/events"), format!("/api/jobs/{local}")] {
        let answer = bob.get(&path);
        assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("no_such_job")), "{path}");
    }
    let mut stream = ann.stream(&format!("/api/jobs/{job}/events"), None);
    assert_eq!(stream.status, 200);
    assert!(stream.head.contains("cache-control: no-store, no-transform"), "{}", stream.head);
    assert!(stream.head.contains("x-accel-buffering: no"), "{}", stream.head);
    assert_eq!(stream.by_ref().last().expect("events").event, "job.completed");
}
