//! What retention removes is gone, and said to be gone; what it keeps is there, for readers at, above and below the floor.

use std::collections::HashMap;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::support::sse::Event;
use crate::support::{Client, Server};

/// Two tools: one whose jobs go soon, one whose jobs stay.
const CONFIG: &str = r#"
[tools.trial]
description = "is forgotten soon"
run = { kind = "trial" }
retention = { max_jobs = 40 }

[tools.keeper]
description = "is kept"
run = { kind = "trial" }
"#;
const KEPT: usize = 40;
const SUBMITTERS: usize = 4;
const EACH: usize = 120;

fn position(id: &str) -> u64 {
    id.split_once('-').and_then(|(_, position)| position.parse().ok()).expect(id)
}

fn id_of(event: &Event) -> &str {
    event.id.as_deref().expect("an event has an id")
}

fn id_at(events: &[Value], at: usize) -> String {
    events[at]["event_id"].as_str().expect("an id").to_owned()
}

/// Submits from several threads at once, and waits for the ends.
fn load(client: &Client) -> Vec<JoinHandle<()>> {
    let submitter =
        |client: Client| move || (0..EACH).for_each(|_| drop(client.ended(&client.submit(json!({"do": "noop"})))));
    (0..SUBMITTERS).map(|_| std::thread::spawn(submitter(client.clone()))).collect()
}

/// Follows the feed from this event to the end of the next job that is kept, over many cuts, and checks that it is
/// contiguous or says that it is not. Each piece brings at least one event, so it comes to an end.
fn follow(client: &Client, mut last: String) {
    let mut marker = None;
    let mut steps: HashMap<String, Vec<String>> = HashMap::new();
    loop {
        let mut stream = client.stream("/api/events", Some(&last));
        for event in stream.by_ref().take(25) {
            if event.event == "stream.reset" {
                assert_eq!(event.data["reason"], "trimmed");
                let first = position(event.data["firstEventId"].as_str().expect("where it goes on"));
                assert!(position(&last) < first, "what was lost lies between");
                steps.clear();
                continue;
            }
            let id = id_of(&event).to_owned();
            assert!(position(&last) < position(&id), "events come once, in order");
            last = id;
            let job = event.data["job_id"].as_str().expect("a job").to_owned();
            if event.data["payload"]["type"] == "keeper" {
                marker = Some(job.clone());
            }
            check_step(&mut steps, &job, &event.event);
            if event.event == "job.completed" && marker.as_ref() == Some(&job) {
                return;
            }
        }
    }
}

/// A job whose creation was seen is seen whole.
fn check_step(steps: &mut HashMap<String, Vec<String>>, job: &str, event: &str) {
    if event == "job.created" {
        steps.insert(job.to_owned(), Vec::new());
    }
    let Some(so_far) = steps.get_mut(job) else { return };
    let expected = ["job.created", "job.started", "job.completed"][so_far.len()];
    assert_eq!(event, expected, "of job {job} after {so_far:?}");
    so_far.push(event.to_owned());
}

#[test]
fn readers_at_above_and_below_the_floor_are_told_all_or_that_something_is_gone() {
    let mut server = Server::start(CONFIG);
    let client = server.client();
    let keeper = client.submit_job(json!({"type": "keeper", "payload": {"do": "progress", "steps": 100}}));
    client.ended(&keeper);
    let path = format!("/api/jobs/{keeper}/events");
    let of_keeper = client.pages(&path, None);
    let (early, middle) = (id_at(&of_keeper, 0), id_at(&of_keeper, 50));

    let submitters = load(&client);
    let (reader, late_reader, from) = (client.clone(), client.clone(), id_at(&of_keeper, of_keeper.len() - 1));
    let live = std::thread::spawn(move || follow(&reader, from));
    submitters.into_iter().for_each(|submitter| submitter.join().expect("all are accepted and end"));
    let marker = client.submit_job(json!({"type": "keeper", "payload": {"do": "noop"}}));
    live.join().expect("the feed holds for whoever keeps up");
    follow(&late_reader, id_at(&of_keeper, 0));
    client.ended(&marker);
    let kept = settled(&client);
    assert_eq!(kept.len(), KEPT);

    for round in ["before", "after"] {
        // Below the floor: the feed says so, the kept job's own stream has everything.
        let mut stream = client.stream("/api/events", Some(&early));
        let reset = stream.next().expect("a reset");
        assert_eq!(
            (&*reset.event, &reset.data["reason"], reset.id),
            ("stream.reset", &json!("trimmed"), None),
            "{round}"
        );
        let first = stream.next().expect("what is kept");
        assert_eq!(Some(id_of(&first)), reset.data["firstEventId"].as_str());
        assert!(
            position(id_of(&first)) > position(of_keeper.last().expect("some")["event_id"].as_str().expect("an id"))
        );
        let own: Vec<Value> = client.stream(&path, Some(&middle)).map(|event| event.data).collect();
        assert_eq!(own, of_keeper[51..], "{round}: below the floor a kept job is served on its own stream");
        assert_eq!(client.pages(&path, None), of_keeper);
        // At the floor and above: no reset, and the same as the pages.
        let log = client.pages("/api/events", None);
        for at in [0, log.len() / 2] {
            let after = client.stream("/api/events", Some(&id_at(&log, at))).take(log.len() - at - 1);
            assert_eq!(after.map(|event| event.data).collect::<Vec<_>>(), log[at + 1..], "{round}");
        }
        server.kill();
        let (holds, said) = server.verify();
        assert!(holds, "{said}");
        server.start_again();
    }
}

/// The jobs of the forgetful tool, once no more than may be are there.
fn settled(client: &Client) -> Vec<Value> {
    for _ in 0..10_000 {
        let page = client.get("/api/jobs?type=trial&limit=100").json();
        let jobs = page["jobs"].as_array().expect("jobs").clone();
        if jobs.len() <= KEPT {
            return jobs;
        }
    }
    panic!("retention does not come to its end");
}
