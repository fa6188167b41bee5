//! Stores of each released format, as they were written then: this longhaul reads them, or says why not.
//!
//! `tests/data/format-N.txt` is the directory, `format-N.json` what the server of that time said of it. `LONGHAUL_GOLDEN=make`
//! writes both for the present format: once, when it is released, and never again.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::served;
use super::told::{STILL, Told, serve, store};
use crate::support::Client;

/// Formats that this longhaul must open.
const FORMATS: &[u32] = &[1, 2];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Bytes of a file on one line.
const ROW: usize = 90;

/// A folder as text: each file with its length, and its rows that are not all zero; `=` stands for the row before.
fn pack(folder: &Path, under: &str, text: &mut String) {
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").file_name()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let name = format!("{under}{}", name.to_string_lossy());
        if path.is_dir() {
            writeln!(text, "folder {name}").expect("written");
            pack(&path, &format!("{name}/"), text);
            continue;
        }
        let bytes = fs::read(&path).expect("readable");
        writeln!(text, "file {name} {}", bytes.len()).expect("written");
        let mut before: &[u8] = &[];
        for (row, bytes) in bytes.chunks(ROW).enumerate() {
            if bytes == before && bytes[0] != 0 {
                writeln!(text, "{} =", row * ROW).expect("written");
            } else if bytes.iter().any(|byte| *byte != 0) {
                writeln!(text, "{} {}", row * ROW, BASE64_STANDARD.encode(bytes)).expect("written");
            }
            before = bytes;
        }
    }
}

fn unpack(text: &str, folder: &Path) {
    let mut file: Option<(PathBuf, Vec<u8>)> = None;
    let put = |file: Option<(PathBuf, Vec<u8>)>| file.map(|(path, bytes)| fs::write(path, bytes).expect("written"));
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            // What a line means is said at `pack`.
            ["folder", name] => fs::create_dir_all(folder.join(name)).expect("made"),
            ["file", name, len] => {
                put(file.replace((folder.join(name), vec![0; len.parse().expect("a length")])));
            }
            [at, "="] => {
                let at: usize = at.parse().expect("a place");
                file.as_mut().expect("a file").1.copy_within(at - ROW..at, at);
            }
            [at, row] => {
                let (at, row): (usize, _) =
                    (at.parse().expect("a place"), BASE64_STANDARD.decode(row).expect("base64"));
                file.as_mut().expect("a file").1[at..at + row.len()].copy_from_slice(&row);
            }
            _ => panic!("no such line: {line}"),
        }
    }
    put(file);
}

fn as_json(told: &Told, epoch: &str) -> Value {
    json!({"epoch": epoch, "jobs": told.jobs, "results": told.results, "events": told.events})
}

/// Makes the golden store of the present format, if asked to.
#[test]
fn a_golden_store_is_made_when_asked_for() {
    if std::env::var_os("LONGHAUL_GOLDEN").is_none_or(|wish| wish != "make") {
        return;
    }
    let place = tempfile::tempdir().expect("made");
    let config = place.path().join("longhaul.toml");
    fs::write(&config, STILL.replace("workers = 0", "workers = 4")).expect("written");
    let served = serve(place.path());
    // Few of each kind: it is kept for good.
    let ids = submit(&served.client);
    assert_eq!(served.end().code, Some(0));
    fs::write(&config, STILL).expect("written");
    let served = serve(place.path());
    let told = Told::by(&served.client, &ids).expect("it answers");
    let first = served.client.pages("/api/events", Some("earliest"))[0]["event_id"].clone();
    let epoch = first.as_str().and_then(|id| id.split('-').next()).expect("an id").to_owned();
    assert_eq!(served.end().code, Some(0));
    let mut text = String::new();
    pack(&store(place.path()), "", &mut text);
    let format = FORMATS.last().expect("one");
    fs::create_dir_all(data("")).expect("made");
    fs::write(data(&format!("format-{format}.txt")), text).expect("written");
    let told = serde_json::to_string_pretty(&as_json(&told, &epoch)).expect("JSON");
    fs::write(data(&format!("format-{format}.json")), told).expect("written");
}

/// One job of each kind, small where it can be.
fn submit(client: &Client) -> Vec<String> {
    let trial = |payload: Value| json!({"type": "trial", "payload": payload});
    let ended = [
        trial(json!({"do": "noop"})),
        trial(json!({"do": "echo", "bytes": 5_000})),
        trial(json!({"do": "echo", "bytes": 70_000})),
        trial(json!({"do": "progress", "steps": 70})),
        trial(json!({"do": "fail", "times": 9, "class": "permanent"})),
        trial(json!({"do": "fail", "times": 1})),
        trial(json!({"do": "partial", "data": {"list": [1, 2, 3]}})),
        json!({"type": "trial", "payload": {"do": "noop"}, "idempotencyKey": "a-key", "tags": ["a tag", "another"],
            "priority": 7}),
    ];
    let mut ids: Vec<String> = ended.into_iter().map(|job| client.submit_job(job)).collect();
    ids.iter().for_each(|id| drop(client.ended(id)));
    let replayed = client.post(&format!("/api/jobs/{}/retry", ids[4]), &json!({}));
    ids.push(replayed.json()["id"].as_str().expect("an id").to_owned());
    client.ended(&ids[8]);
    ids.push(client.submit_job(json!({"type": "trial", "payload": {"do": "noop"}, "delayMs": 360 * 86_400_000_u64})));
    ids
}

#[test]
fn each_released_format_opens_and_holds_what_was_put_in() {
    for format in FORMATS {
        let place = tempfile::tempdir().expect("made");
        fs::write(place.path().join("longhaul.toml"), STILL).expect("written");
        let text = fs::read_to_string(data(&format!("format-{format}.txt"))).expect("the golden store");
        unpack(&text, &{
            fs::create_dir_all(store(place.path())).expect("made");
            store(place.path())
        });
        let told = fs::read_to_string(data(&format!("format-{format}.json"))).expect("what was told of it");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let verified = served::verify(place.path());
        assert_eq!(verified.code, Some(0), "format {format}: {verified:?}");
        let marker = || fs::read_to_string(store(place.path()).join("FORMAT")).expect("readable");
        assert!(marker().ends_with(&format!(" {format}\n")), "who only looks changes nothing");
        let served = serve(place.path());
        let ids: Vec<String> = told["jobs"].as_object().expect("jobs").keys().cloned().collect();
        let newest = FORMATS.last().expect("one");
        assert!(marker().ends_with(&format!(" {newest}\n")), "an older longhaul must not open it from here on");
        let now = Told::by(&served.client, &ids).expect("it answers");
        let epoch = told["epoch"].as_str().expect("an epoch");
        assert_eq!(as_json(&now, epoch), told, "format {format}");
        // It is a copy, so its log is another one: a cursor of that time is told so.
        let mut stream = served.client.stream("/api/events", Some(&format!("{epoch}-1")));
        assert_eq!(stream.next().expect("an event").event, "stream.reset");
        drop(stream);
        assert_eq!(served.end().code, Some(0));
        assert_eq!(served::verify(place.path()).code, Some(0));
    }
}
