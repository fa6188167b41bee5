//! Backups that are torn, edited, reordered, or made to do harm: refused as a whole, at the line that is wrong, and nothing
//! is left behind.

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::{Dump, LINE_MAX, Refusal, Unrestored, inspect, restore};
use super::world::{World, chance};
use super::{NOW, pages};
use crate::store::Store;
use crate::store::memory::Memory;

/// A backup of some lives, compressed.
fn sample(steps: usize) -> Vec<u8> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut world = World::new(7, store.clone());
    // Every position has its entry: none may be missing unnoticed.
    world.forgets = false;
    (0..steps).for_each(|_| world.step());
    let pin = store.pin().expect("works");
    pages(&*store, &mut Dump::new(pin, NOW), || ())
}

fn plain(packed: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text).expect("it is whole");
    text
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

/// The lines of a text, each with its newline.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Tries to restore it: the refusal. Nothing may be left.
fn refused(file: &[u8]) -> Refusal {
    let place = tempfile::tempdir().expect("a directory");
    let data = place.path().join("data");
    match restore(file, &data.join("store")) {
        Err(Unrestored::Backup(refusal)) => {
            assert!(!data.exists(), "something was left behind: {refusal}");
            refusal
        }
        other => panic!("not refused for what it is: {other:?}"),
    }
}

/// The lines as values, without their sums.
fn values(text: &[u8]) -> Vec<Value> {
    let value = |line: Vec<u8>| {
        let mut value: Value = serde_json::from_slice(&line).expect("JSON");
        value.as_object_mut().expect("an object").shift_remove("sum");
        value
    };
    split(text).into_iter().map(value).collect()
}

/// A file of such lines whose sums are right: made by somebody who knows how.
fn sealed(lines: &[String]) -> Vec<u8> {
    let (mut file, mut crc) = (Vec::new(), crc32fast::Hasher::new());
    for line in lines {
        let begun = file.len();
        file.extend_from_slice(&line.as_bytes()[..line.len() - 1]);
        crc.update(&file[begun..]);
        let tail = format!(",\"sum\":\"{:08x}\"}}\n", crc.clone().finalize());
        file.extend_from_slice(tail.as_bytes());
        crc.update(tail.as_bytes());
    }
    file
}

/// The same of values, with counts and digest of a last line that is a trailer put right.
fn forged(mut lines: Vec<Value>) -> Vec<u8> {
    let texts = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<Vec<_>>();
    if let Some(trailer) = lines.last_mut().and_then(|last| last.get_mut("trailer")) {
        trailer["sha256"] = json!("");
    }
    let before = sealed(&texts(&lines[..lines.len() - 1]));
    let digest: String = Sha256::digest(&before).iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(trailer) = lines.last_mut().and_then(|last| last.get_mut("trailer")) {
        trailer["sha256"] = json!(digest);
    }
    sealed(&texts(&lines))
}

#[test]
fn a_changed_missing_repeated_or_moved_line_is_named() {
    let text = plain(&sample(250));
    let lines = split(&text);
    assert!(inspect(&text[..]).is_ok() && lines.len() > 60);
    let line_of = |lines: &[Vec<u8>]| inspect(&lines.concat()[..]).expect_err("it is not as it was written").line;
    for at in 0..lines.len() {
        let number = at as u64 + 1;
        let mut changed = lines.clone();
        let byte = chance(at as u64, 3) as usize % (lines[at].len() - 1);
        changed[at][byte] ^= 1 << (chance(at as u64, 4) % 7);
        assert_eq!(line_of(&changed), number, "byte {byte}");
        let mut missing = lines.clone();
        missing.remove(at);
        assert_eq!(line_of(&missing), number);
        let mut twice = lines.clone();
        twice.insert(at, lines[at].clone());
        assert_eq!(line_of(&twice), number + 1);
        if at + 1 < lines.len() {
            let mut moved = lines.clone();
            moved.swap(at, at + 1);
            assert_eq!(line_of(&moved), number);
        }
    }
}

#[test]
fn an_edited_backup_leaves_nothing_behind() {
    let text = plain(&sample(60));
    let mut lines = split(&text);
    let at = lines.len() / 2;
    let byte = lines[at].len() / 2;
    lines[at][byte] ^= 1;
    assert_eq!(refused(&packed(&lines.concat())).line, at as u64 + 1);
    assert_eq!(refused(&lines.concat()).line, at as u64 + 1, "as plain lines too");
}

#[test]
fn a_torn_backup_is_refused_wherever_it_is_torn() {
    let file = sample(60);
    let text = plain(&file);
    for cut in (0..file.len()).step_by(37) {
        assert!(inspect(&file[..cut]).is_err(), "{cut} bytes");
    }
    for cut in (0..text.len()).step_by(101) {
        let refusal = inspect(&text[..cut]).expect_err("it is torn");
        let whole = text[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(refusal.line, whole + 1, "{refusal}");
    }
    refused(&file[..file.len() / 2]);
    refused(&file[..file.len() - 1]);
}

#[test]
fn nothing_may_follow_the_trailer() {
    let file = sample(30);
    let text = plain(&file);
    let count = split(&text).len() as u64;
    for more in [b"\n".to_vec(), b"x".to_vec(), file.clone()] {
        let found = inspect(&[file.clone(), more.clone()].concat()[..]).expect_err("something follows");
        assert_eq!(found.line, count + 1, "{found}");
        let found = inspect(&[text.clone(), more].concat()[..]).expect_err("something follows");
        assert_eq!(found.line, count + 1, "{found}");
    }
}

/// What is done to the lines, and a part of the refusal.
type Forgery = (&'static str, fn(&mut Vec<Value>));

fn first(lines: &[Value], kind: &str, nth: usize) -> usize {
    let found = lines.iter().enumerate().filter(|(_, line)| line.get(kind).is_some());
    found.map(|(at, _)| at).nth(nth).expect("there is one")
}

/// An entry without a body.
fn bare(lines: &[Value]) -> usize {
    let is_entry = |at: usize| lines[at].get("entry").is_some();
    (3..lines.len() - 3).find(|at| is_entry(*at) && is_entry(at + 1)).expect("there is one")
}

/// The n-th creation of a job.
fn creation(lines: &[Value], nth: usize) -> usize {
    let creations = lines.iter().enumerate().filter(|(_, line)| line["entry"]["entry"].get("created").is_some());
    creations.map(|(at, _)| at).nth(nth).expect("there is one")
}

const FORGERIES: &[Forgery] = &[
    ("is missing", |lines| drop(lines.remove(bare(lines)))),
    ("is not in the backup", |lines| {
        let at = first(lines, "body", 0);
        lines.remove(at);
        let last = lines.len() - 1;
        lines[last]["trailer"]["bodies"] = json!(lines[last]["trailer"]["bodies"].as_u64().expect("a count") - 1);
    }),
    ("checksum does not match", |lines| {
        let at = first(lines, "body", 0);
        let text = lines[at]["body"]["text"].as_str().expect("text").replace('n', "m");
        lines[at]["body"]["text"] = json!(text);
    }),
    ("counts do not match", |lines| {
        let last = lines.len() - 1;
        lines[last]["trailer"]["jobs"] = json!(1);
    }),
    ("is beyond the backup's", |lines| {
        lines[0]["header"]["position"] = json!(3);
        lines[0]["header"]["floor"] = json!(1);
    }),
    ("does not follow", |lines| lines[1]["entry"]["position"] = json!(0)),
    ("a second header", |lines| {
        let header = lines[0].clone();
        lines.insert(1, header);
    }),
    ("this one reads version 1", |lines| lines[0]["header"]["version"] = json!(2)),
    ("unknown field", |lines| lines[1]["entry"]["more"] = json!(1)),
    ("unknown variant", |lines| lines[1] = json!({"other": {}})),
    ("not eight hex digits", |lines| lines[0]["header"]["epoch"] = json!("+1234567")),
    ("cannot be", |lines| lines[0]["header"]["floor"] = json!(0)),
    ("cannot be", |lines| lines[0]["header"]["position"] = json!(u64::MAX)),
    ("creates job", |lines| lines[1]["entry"]["job"] = json!("0193a5d0-7c00-7000-8000-000000000001")),
    ("is there already", |lines| {
        let (one, other) = (creation(lines, 0), creation(lines, 2));
        let key = json!({"text": "same", "digest": "00".repeat(32)});
        for at in [one, other] {
            let spec = &mut lines[at]["entry"]["entry"]["created"]["spec"];
            (spec["key"], spec["job_type"], spec["owner"]) = (key.clone(), json!("t"), json!("o"));
        }
    }),
    ("does not name this body", |lines| {
        let at = first(lines, "body", 0);
        lines[at]["body"]["name"]["seq"] = json!(9);
    }),
    ("exactly one of text and base64", |lines| {
        let at = first(lines, "body", 0);
        lines[at]["body"]["base64"] = json!("");
    }),
    ("must be text", |lines| {
        let at = first(lines, "body", 0);
        let body = lines[at]["body"].as_object_mut().expect("a body");
        body.shift_remove("text");
        body.insert("base64".into(), json!("e30="));
    }),
    ("length that the entry says", |lines| {
        let at = first(lines, "body", 0);
        lines[at]["body"]["text"] = json!("x".repeat(70_000));
    }),
    ("is no JSON", |lines| {
        let at = first(lines, "body", 0);
        let name = json!({"part": "payload", "seq": 0, "len": 1, "crc": crc32fast::hash(b"{")});
        lines[at]["body"] = json!({"name": name, "from": 0, "text": "{"});
        let entry = creation(lines, 0);
        lines[entry]["entry"]["entry"]["created"]["spec"]["payload"] = name;
    }),
    ("an entry of", |lines| {
        lines[1]["entry"]["entry"]["created"]["spec"]["traceparent"] = json!("x".repeat(20_000));
    }),
];

#[test]
fn what_does_not_make_a_store_is_refused_though_its_sums_are_right() {
    let lines = values(&plain(&sample(40)));
    assert!(inspect(&forged(lines.clone())[..]).is_ok(), "the forger knows how");
    for (n, (why, forgery)) in FORGERIES.iter().enumerate() {
        let mut edited = lines.clone();
        forgery(&mut edited);
        let refusal = refused(&forged(edited));
        assert!(refusal.why.contains(why), "{n}: {refusal}, not {why:?}");
    }
}

#[test]
fn what_comes_out_of_few_bytes_is_not_held_in_memory() {
    let header = values(&plain(&sample(1)))[0].to_string();
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&sealed(&[header.clone()])).expect("memory");
    let zeros = vec![b' '; 1 << 20];
    (0..64).for_each(|_| bomb.write_all(&zeros).expect("memory"));
    let bomb = bomb.finish().expect("memory");
    assert!(bomb.len() < 100_000);
    let refusal = refused(&bomb);
    assert_eq!((refusal.line, refusal.why.contains(&LINE_MAX.to_string())), (2, true), "{refusal}");
    let deep = format!("{{\"entry\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let refusal = refused(&sealed(&[header, deep]));
    assert_eq!(refusal.line, 2, "{refusal}");
}

#[test]
fn what_is_no_backup_is_told_at_once() {
    for file in [&b""[..], b"{}", b"{}\n", b"hello", b"\x1f\x8b", b"\x1f\x8bxxxxxxxxxxxxxxxx", b"[1]\n", &[0; 4096]] {
        assert_eq!(refused(file).line, 1, "{file:?}");
    }
}
