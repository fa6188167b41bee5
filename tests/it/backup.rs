//! `backup`, `restore`, `compact`, `export` of the real binary, under load, cut short, and with clients from before.

#[path = "backup/ends.rs"]
mod ends;
#[path = "backup/swaps.rs"]
mod swaps;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::support::server::binary;
use crate::support::{Client, Server, TRIAL, is_long};

/// What a command said, and its exit code.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Said {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: status.code(), out: text(stdout), err: text(stderr) }
}

fn longhaul(words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(words).env_remove("LONGHAUL_SERVER").env_remove("LONGHAUL_TOKEN");
    command
}

/// Words with a path at the end.
fn with_path(words: &[&str], path: &Path) -> Said {
    run(longhaul(words).arg(path))
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address())
}

fn back_up(server: &Server, file: &Path) -> Said {
    with_path(&["backup", "--json", "--server", &url(server)], file)
}

fn restore(file: &Path, data_dir: &Path) -> Said {
    run(longhaul(&["restore", "--json"]).arg(file).arg("--data-dir").arg(data_dir))
}

fn whole(data_dir: &Path) {
    let said = with_path(&["verify", "--data-dir"], data_dir);
    assert_eq!(said.code, Some(0), "{said:?}");
}

fn value(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"))
}

/// Jobs of every kind, submitted and cancelled as fast as they are answered, until told to stop.
fn load(client: &Client, stop: &AtomicBool, done: &AtomicU64, name: &str) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let payload = match n % 4 {
            0 => json!({"do": "noop"}),
            1 => json!({"do": "fail", "times": 1}),
            2 => json!({"do": "progress", "steps": 3}),
            _ => json!({"do": "echo", "text": "ü".repeat(40_000), "bytes": 90_000}),
        };
        let key = format!("{name}-{n}");
        let id = client.submit_job(json!({"type": "trial", "payload": payload, "idempotencyKey": key, "tags": [name]}));
        done.fetch_add(1, Ordering::Relaxed);
        if n % 5 == 0 {
            client.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
        }
    }
}

/// The events with their epoch cut off: what a history is apart from its name.
fn story(events: &[Value]) -> Vec<(u64, Value)> {
    let cut = |event: &Value| {
        let mut event = event.clone();
        let id = event["event_id"].take();
        let (_, position) = id.as_str().expect("an id").split_once('-').expect("an epoch");
        (position.parse().expect("a position"), event)
    };
    events.iter().map(cut).collect()
}

/// The position of `asOf` in what `backup --json` says.
fn as_of(backup: &Value) -> u64 {
    let text = backup["asOf"].as_str().expect("an event id");
    text.split_once('-').expect("an epoch").1.parse().expect("a position")
}

#[test]
fn backups_taken_under_load_and_retention_restore_to_their_position() {
    let rounds = if is_long() { 200 } else { 6 };
    // Ended jobs go at once when there are more than a few: holds have something to hold.
    let config = format!("{TRIAL}\n[retention]\nmax_jobs = 300\n");
    let server = Server::start(&config);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let loads: Vec<_> = (0..3)
        .map(|n| {
            let (client, stop, done) = (server.client(), stop.clone(), done.clone());
            std::thread::spawn(move || load(&client, &stop, &done, &format!("load-{n}")))
        })
        .collect();
    let place = tempfile::tempdir().expect("a directory");
    let mut taken: Vec<(PathBuf, Value)> = Vec::new();
    for round in 0..rounds {
        // Some of it happens between two backups, and some while each is written.
        let wanted = done.load(Ordering::Relaxed) + 25;
        while done.load(Ordering::Relaxed) < wanted {
            std::thread::yield_now();
        }
        let file = place.path().join(format!("{round}.gz"));
        let said = value(&back_up(&server, &file));
        assert!(taken.last().is_none_or(|(_, last)| as_of(last) < as_of(&said)), "load goes on");
        let mode = std::fs::metadata(&file).expect("a backup").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it holds every payload");
        taken.push((file, said));
    }
    stop.store(true, Ordering::Relaxed);
    loads.into_iter().for_each(|load| load.join().expect("a load"));
    for (file, backup) in &taken {
        let data = file.with_extension("data");
        let restored = value(&restore(file, &data));
        for count in ["jobs", "entries", "bodies", "asOf"] {
            assert_eq!(restored[count], backup[count]);
        }
        whole(&data);
        std::fs::remove_dir_all(&data).expect("removed");
    }
}

#[test]
fn a_restored_server_tells_the_same_story_and_goes_on() {
    let server = Server::start(TRIAL);
    let client = server.client();
    let done: Vec<String> = (0..20)
        .map(|n| client.submit(json!({"do": "fail", "times": n % 3, "n": n, "t": "ü".repeat(n * 700)})))
        .collect();
    done.iter().for_each(|id| drop(client.ended(id)));
    let key = json!({"type": "trial", "payload": {"do": "noop"}, "idempotencyKey": "once"});
    let keyed = client.submit_job(key.clone());
    client.ended(&keyed);
    let running = client.submit(json!({"do": "sleep", "ms": 600_000}));
    let mut stream = client.stream(&format!("/api/jobs/{running}/events"), None);
    assert!(stream.by_ref().any(|event| event.event == "job.started"));
    drop(stream);
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b.gz");
    let backup = value(&back_up(&server, &file));
    let cursor = backup["asOf"].as_str().expect("a cursor").to_owned();
    let before = client.pages("/api/events", None);
    let jobs: Vec<Value> = done.iter().chain([&keyed]).map(|id| client.job(id)).collect();
    drop(server);

    let mut again = Server::prepare(TRIAL);
    value(&restore(&file, &again.data_dir()));
    again.start_again();
    let client = again.client();
    for job in &jobs {
        assert_eq!(client.job(job["id"].as_str().expect("an id")), *job);
    }
    let log = client.pages("/api/events", None);
    assert_eq!(story(&log)[..before.len()], story(&before)[..], "each entry where it was");
    let epoch = |events: &[Value]| events[0]["event_id"].as_str().expect("an id")[..8].to_owned();
    assert_ne!(epoch(&log), epoch(&before), "another history");
    // What ran when it was taken runs again; its first attempt was interrupted.
    let job = client.job(&running);
    assert_eq!((&job["interruptions"], &job["attempts"]), (&json!(1), &json!(1)), "{job}");
    let same = client.post("/api/jobs", &key);
    assert_eq!((same.status, &same.json()["id"]), (200, &json!(keyed)), "the key names the job still");
    let mut feed = client.stream("/api/events", Some(&cursor));
    let reset = feed.next().expect("something is said first");
    assert_eq!((&*reset.event, &reset.data["reason"]), ("stream.reset", &json!("other_log")), "never silence");
    drop(feed);
    again.kill();
    whole(&again.data_dir());
}

#[test]
fn an_export_has_jobs_with_results_and_events_as_lines_or_rows() {
    let server = Server::start(TRIAL);
    let client = server.client();
    let ids: Vec<String> = (0..3).map(|n| client.submit(json!({"do": "noop", "n": n}))).collect();
    ids.iter().for_each(|id| drop(client.ended(id)));
    let waiting = client.submit_job(json!({"type": "trial", "payload": {"do": "noop"}, "delayMs": 3_600_000}));
    let said = run(&mut longhaul(&["export", "--server", &url(&server), "--events", "--status", "completed"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let lines: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|job| job["id"].as_str().expect("an id")).rev().collect::<Vec<_>>(), ids);
    for job in &lines {
        assert!(job["payload"]["do"] == "noop" && job.get("result").is_some(), "{job}");
        let types: Vec<_> = job["events"].as_array().expect("events").iter().map(|event| &event["type"]).collect();
        assert_eq!((types[0], types[types.len() - 1]), (&json!("job.created"), &json!("job.completed")));
    }
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("jobs.csv");
    let said = with_path(&["export", "--server", &url(&server), "--csv", "--out"], &file);
    assert_eq!(said.code, Some(0), "{said:?}");
    let rows = std::fs::read_to_string(&file).expect("written");
    assert!(rows.starts_with("id,type,status,") && rows.lines().count() == 5 && rows.contains(&waiting), "{rows}");
    let twice = with_path(&["export", "--server", &url(&server), "--csv", "--out"], &file);
    assert_eq!(twice.code, Some(2), "never over what is there: {twice:?}");
}
