//! Questions by the real binary and real programs: answered in place, after the hold, and over a killed server.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::server::binary;
use crate::support::{Client, Server, TRIAL};

/// Asks for a size and a colour; its result is the answers. Told of them by the job line, it does not ask.
const PROGRAM: &str = r#"
read -r job
case "$job" in
*'"answers"'*) printf '{"type":"result","data":%s}\n' "$job" ;;
*)
  echo '{"type":"ask","key":"size","message":"Which size?","schema":{"type":"object","properties":{"size":{"enum":["S","M"]}},"required":["size"]}}'
  echo '{"type":"ask","key":"colour","message":"Which colour?"}'
  read -r first
  read -r second
  printf '{"type":"result","data":[%s,%s]}\n' "$first" "$second"
  ;;
esac
"#;

/// One worker, the program, and the tool that does what its payload says.
fn config(ask_hold: &str) -> String {
    format!(
        "[queue]\nworkers = 1\n{TRIAL}\n[tools.order]\ndescription = \"asks\"\n\
         run = {{ kind = \"command\", output = \"events\", ask_hold = \"{ask_hold}\", command = [\"/bin/sh\", \"-c\", '''{PROGRAM}'''] }}\n"
    )
}

/// A job that has asked both of its questions.
fn asking(client: &Client) -> String {
    let id = client.submit_job(json!({"type": "order", "payload": {}}));
    let asked = client.stream(&format!("/api/jobs/{id}/events"), None);
    assert_eq!(asked.filter(|event| event.event == "job.input_required").take(2).count(), 2);
    id
}

/// What a person types.
fn type_in(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    let output = command.args(words).env("LONGHAUL_SERVER", format!("http://{}", server.address())).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn types(client: &Client, id: &str) -> Vec<String> {
    let events = client.pages(&format!("/api/jobs/{id}/events"), None);
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn status(client: &Client, id: &str) -> Value {
    client.job(id)["status"].clone()
}

#[test]
fn a_program_that_waits_is_answered_in_place_and_its_job_runs_once() {
    let server = Server::start(&config("1h"));
    let client = server.client();
    let id = asking(&client);
    let (code, shown) = type_in(&server, &["get", &id]);
    assert!(code == Some(0) && shown.contains("input_required"), "{shown}");
    assert!(shown.contains(r#"size: Which size? {"type":"object","#), "{shown}");
    let (code, refused) = type_in(&server, &["answer", &id, "size", r#"{"size":"XL"}"#]);
    assert!(code == Some(5) && refused.contains("/answers/size/content/size"), "{refused}");
    let (code, said) = type_in(&server, &["answer", &id, "size", r#"{"size":"M"}"#]);
    assert!(code == Some(0) && said.starts_with(&format!("{id} is input_required\nit asks colour: ")), "{said}");
    let (code, _) = type_in(&server, &["answer", &id, "colour", "--decline"]);
    assert_eq!(code, Some(0));
    let job = client.ended(&id);
    let answers = json!([
        {"type": "answer", "key": "size", "action": "accept", "content": {"size": "M"}},
        {"type": "answer", "key": "colour", "action": "decline"},
    ]);
    assert_eq!((&job["status"], &job["result"], &job["attempts"]), (&json!("completed"), &answers, &json!(1)));
    assert_eq!(types(&client, &id).iter().filter(|event| *event == "job.started").count(), 1);
    let (code, watched) = type_in(&server, &["watch", &id]);
    assert!(code == Some(0) && watched.contains("job.input_required size: Which size?"), "{watched}");
}

#[test]
fn a_program_that_is_not_answered_in_time_frees_its_worker_and_comes_back_with_the_answers() {
    let mut server = Server::start(&config("1s"));
    let id = asking(&server.client());
    // Of one worker: it is free, or this would never end.
    let client = server.client();
    let other = client.submit(json!({"do": "noop"}));
    assert_eq!(client.ended(&other)["status"], "completed");
    assert_eq!((status(&client, &id), &client.job(&id)["attempts"]), (json!("input_required"), &json!(0)));
    assert_eq!(type_in(&server, &["answer", &id, "size", r#"{"size":"S"}"#]).0, Some(0));
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    server.start_again();
    let client = server.client();
    let job = client.job(&id);
    assert_eq!((&job["status"], job["questions"].as_array().unwrap().len()), (&json!("input_required"), 1));
    assert_eq!(type_in(&server, &["answer", &id, "colour", "{}"]).0, Some(0));
    let job = client.ended(&id);
    let answers =
        json!({"size": {"action": "accept", "content": {"size": "S"}}, "colour": {"action": "accept", "content": {}}});
    assert_eq!((&job["result"]["answers"], &job["attempts"]), (&answers, &json!(1)));
    let told = [
        "job.created",
        "job.started",
        "job.input_required",
        "job.input_required",
        "job.input_received",
        "job.input_received",
        "job.started",
        "job.completed",
    ];
    assert_eq!(types(&client, &id), told);
}

#[test]
fn a_question_outlives_the_server_that_asked_it_and_the_job_completes_once() {
    let mut server = Server::start(&config("1h"));
    let id = asking(&server.client());
    assert_eq!(type_in(&server, &["answer", &id, "size", r#"{"size":"S"}"#]).0, Some(0));
    server.kill();
    server.start_again();
    let client = server.client();
    let job = client.job(&id);
    assert_eq!((&job["status"], &job["interruptions"]), (&json!("input_required"), &json!(1)));
    assert_eq!(job["questions"][0]["key"], "colour", "what was answered stays answered");
    assert_eq!(type_in(&server, &["answer", &id, "colour", "--cancel"]).0, Some(0));
    server.kill();
    server.start_again();
    let client = server.client();
    let job = client.ended(&id);
    let answers = json!({"size": {"action": "accept", "content": {"size": "S"}}, "colour": {"action": "cancel"}});
    assert_eq!((&job["status"], &job["result"]["answers"]), (&json!("completed"), &answers));
    let told = types(&client, &id);
    let count = |kind: &str| told.iter().filter(|event| *event == kind).count();
    assert_eq!((count("job.input_required"), count("job.completed")), (2, 1), "{told:?}");
    let (is_whole, said) = {
        server.kill();
        server.verify()
    };
    assert!(is_whole, "{said}");
}

#[test]
fn the_readme_s_program_asks_and_is_answered() {
    let (_, part) = include_str!("../../README.md").split_once("### Questions").expect("the part");
    let (tool, _) = part.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("the tool");
    let server = Server::start(tool);
    let client = server.client();
    for (words, status) in [(&["{\"note\": \"go on\"}"][..], "completed"), (&["--decline"], "failed")] {
        let (_, id) = type_in(&server, &["submit", "publish"]);
        let id = id.trim();
        client.stream(&format!("/api/jobs/{id}/events"), None).find(|event| event.event == "job.input_required");
        let (code, said) = type_in(&server, &[&["answer", id, "sure"], words].concat());
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(client.ended(id)["status"], status);
    }
}

#[test]
fn a_waiting_job_is_canceled_or_expires_at_once() {
    let server = Server::start(&config("1s"));
    let client = server.client();
    let id = asking(&client);
    let canceled = client.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
    // Its program may still be ending.
    assert!(matches!(canceled.status, 200 | 202), "{canceled:?}");
    assert_eq!(client.ended(&id)["status"], "canceled");
    assert_eq!(type_in(&server, &["answer", &id, "size", r#"{"size":"S"}"#]).0, Some(5));
    let id = client.submit_job(json!({"type": "order", "payload": {}, "expiresInMs": 300}));
    let job = client.ended(&id);
    assert_eq!((&job["status"], &job["cancel"]["reason"]), (&json!("canceled"), &json!("timeout")));
    assert!(job.get("questions").is_none());
}
