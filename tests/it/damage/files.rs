//! Each file missing, empty or foreign in turn, what does not belong there, other versions, a directory that may not be
//! written: a table of what comes of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::served::{self, Start};
use super::told::{Outcome, base, outcome, refused, serve, store};
use crate::support::server::binary;

/// A damage of the store's directory, what comes of it, and words that are then said.
type Case = (&'static str, fn(&Path), Outcome, &'static str);

const TABLE: &[Case] = &[
    ("nothing", |_| (), Outcome::Whole, ""),
    // The file that says what the directory is.
    ("FORMAT is missing", |dir| remove(dir, "FORMAT"), Outcome::Refused, "no store of longhaul"),
    ("FORMAT is empty", |dir| empty(dir, "FORMAT"), Outcome::Refused, "reads formats 1 to 2 only"),
    ("FORMAT is garbage", |dir| put(dir, "FORMAT", &[0xff; 300]), Outcome::Refused, "reads formats 1 to 2 only"),
    ("format 0", |dir| put(dir, "FORMAT", b"longhaul store, format 0\n"), Outcome::Refused, "format 0"),
    ("format 3", |dir| put(dir, "FORMAT", b"longhaul store, format 3\n"), Outcome::Refused, "longhaul that wrote it"),
    // The lock says who has it, and that is all.
    ("LOCK is missing", |dir| remove(dir, "LOCK"), Outcome::Whole, ""),
    ("LOCK is empty", |dir| empty(dir, "LOCK"), Outcome::Whole, ""),
    // How far the log had reached: without it all is looked at, and the log gets a new epoch.
    ("REACHED is missing", |dir| remove(dir, "REACHED"), Outcome::Whole, "REACHED is missing"),
    ("REACHED is empty", |dir| empty(dir, "REACHED"), Outcome::Whole, "REACHED has not its length"),
    ("REACHED is garbage", |dir| put(dir, "REACHED", &[7; 512]), Outcome::Whole, "REACHED is damaged"),
    ("REACHED is unfinished too", |dir| put(dir, "REACHED.new", b"half"), Outcome::Whole, ""),
    // sled's own.
    ("db is missing", |dir| remove(dir, "db"), Outcome::Refused, "missing or empty"),
    ("db is empty", |dir| empty(dir, "db"), Outcome::Refused, "missing or empty"),
    ("db is garbage", |dir| put(dir, "db", &[0x5a; 3 << 20]), Outcome::Refused, "backup"),
    ("db is all zeros", |dir| put(dir, "db", &[0; 3 << 20]), Outcome::Refused, "backup"),
    ("conf is missing", |dir| remove(dir, "conf"), Outcome::Whole, ""),
    ("conf is empty", |dir| empty(dir, "conf"), Outcome::Whole, ""),
    ("conf is garbage", |dir| put(dir, "conf", &[0x5a; 80]), Outcome::Refused, "backup"),
    ("conf has a flipped bit", |dir| flip(dir, "conf"), Outcome::Refused, "backup"),
    ("DOUBT was put there", |dir| put(dir, "DOUBT", &[0x1b; 9_000]), Outcome::Whole, "written anew"),
    ("DOUBT is a folder", |dir| fs::create_dir(dir.join("DOUBT")).expect("made"), Outcome::Whole, "written anew"),
    ("DOUBT leads nowhere", |dir| symlink("/nowhere/at/all", dir.join("DOUBT")).expect("made"), Outcome::Whole, "anew"),
    ("the snapshot is missing", |dir| remove(dir, &snapshot(dir)), Outcome::Whole, ""),
    ("the snapshot is empty", |dir| empty(dir, &snapshot(dir)), Outcome::Refused, "backup"),
    ("the snapshot is garbage", |dir| put(dir, &snapshot(dir), &[0x5a; 999]), Outcome::Refused, "backup"),
    ("blobs is missing", |dir| fs::remove_dir(dir.join("blobs")).expect("empty"), Outcome::Whole, ""),
    ("an unfinished snapshot", |dir| put(dir, "snap.FFFFFFFFFFFFFFFF.generating", b""), Outcome::Whole, "unfinished"),
    (
        "an unfinished snapshot of garbage",
        |dir| put(dir, "snap.ffffffffffffffff.generating", &[0x5a; 4_096]),
        Outcome::Whole,
        "unfinished",
    ),
    // Bodies.
    ("bodies is missing", |dir| fs::remove_dir_all(dir.join("bodies")).expect("there"), Outcome::Refused, "bodies"),
    ("a body is missing", |dir| remove(dir, &body()), Outcome::AllButABody, ""),
    ("a body is empty", |dir| empty(dir, &body()), Outcome::AllButABody, ""),
    ("a body is cut", |dir| cut(dir, &body()), Outcome::AllButABody, ""),
    ("a body has a flipped bit", |dir| flip(dir, &body()), Outcome::AllButABody, ""),
    ("a half-written body", |dir| put(dir, "bodies/x.new", b"half"), Outcome::Whole, ""),
    // What does not belong there.
    ("a stray file", |dir| put(dir, "README", b"somebody's"), Outcome::Whole, ""),
    ("a stray file among the bodies", |dir| put(dir, "bodies/README", b"somebody's"), Outcome::Whole, ""),
    ("a copy of the data file", |dir| drop(fs::copy(dir.join("db"), dir.join("db.bak"))), Outcome::Whole, ""),
    ("a stray folder", |dir| fs::create_dir_all(dir.join("old/store")).expect("made"), Outcome::Whole, ""),
    ("a link to nowhere", |dir| symlink("/nowhere/at/all", dir.join("link")).expect("made"), Outcome::Whole, ""),
    ("all is gone but LOCK", |dir| only(dir, "LOCK"), Outcome::Refused, "no store of longhaul"),
    ("all is gone but FORMAT", |dir| only(dir, "FORMAT"), Outcome::Refused, "missing or empty"),
];

fn remove(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).expect("there");
}

fn empty(dir: &Path, name: &str) {
    put(dir, name, b"");
}

fn put(dir: &Path, name: &str, bytes: &[u8]) {
    fs::write(dir.join(name), bytes).expect("written");
}

fn cut(dir: &Path, name: &str) {
    let bytes = fs::read(dir.join(name)).expect("there");
    put(dir, name, &bytes[..bytes.len() - 1]);
}

fn flip(dir: &Path, name: &str) {
    let mut bytes = fs::read(dir.join(name)).expect("there");
    let at = bytes.len() / 3;
    bytes[at] ^= 4;
    put(dir, name, &bytes);
}

fn only(dir: &Path, name: &str) {
    for entry in fs::read_dir(dir).expect("there").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            fs::remove_dir_all(&entry).expect("removed");
        } else if !entry.ends_with(name) {
            fs::remove_file(&entry).expect("removed");
        }
    }
}

fn snapshot(dir: &Path) -> String {
    let names = fs::read_dir(dir).expect("there").map(|entry| entry.expect("readable").file_name());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    names.find(|name| name.starts_with("snap.")).expect("a snapshot")
}

/// The file of a result.
fn body() -> String {
    format!("bodies/{}.1.{:016x}", base().large, 1)
}

#[test]
fn each_damaged_directory_comes_to_what_the_table_says() {
    let mut wrong = Vec::new();
    for (name, damage, expected, words) in TABLE {
        let place = base().copy();
        damage(&store(place.path()));
        match outcome(place.path(), &base().told) {
            Ok((came, said)) if came == *expected && said.contains(words) => {}
            other => wrong.push(format!("{name}: {other:?} instead of {expected:?}, {words:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_refused_directory_is_left_as_it_was() {
    for (damage, same) in [("FORMAT", "db"), ("db", "FORMAT")] {
        let place = base().copy();
        let dir = store(place.path());
        empty(&dir, damage);
        let before = fs::read(dir.join(same)).expect("there");
        let Start::Ended(end) = served::start(place.path()) else { panic!("it serves without {damage}") };
        refused(&end, 6).expect("refused");
        assert_eq!(fs::read(dir.join(same)).expect("there"), before);
        assert_eq!(fs::read(dir.join(damage)).expect("there"), b"");
    }
}

/// Root may write anywhere that is not mounted read-only; anybody else is kept out by the permissions.
#[test]
fn a_read_only_directory_is_refused_in_one_line() {
    let place = base().copy();
    let program = format!(
        "mount --bind '{0}' '{0}' && mount -o remount,ro,bind '{0}' && exec \"$@\"",
        place.path().join("data").display()
    );
    let mut command = if geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &program, "sh"]).arg(binary());
        command
    } else {
        for folder in [store(place.path()), store(place.path()).join("bodies")] {
            let mut permissions = fs::metadata(&folder).expect("there").permissions();
            permissions.set_readonly(true);
            fs::set_permissions(&folder, permissions).expect("set");
        }
        for entry in fs::read_dir(store(place.path())).expect("there") {
            let path = entry.expect("readable").path();
            let mut permissions = fs::metadata(&path).expect("there").permissions();
            permissions.set_readonly(true);
            fs::set_permissions(&path, permissions).expect("set");
        }
        Command::new(binary())
    };
    command.args(["serve", "--config"]).arg(place.path().join("longhaul.toml")).args(["--listen", "127.0.0.1:0"]);
    let Start::Ended(end) = served::start_by(command, place.path()) else { panic!("it serves") };
    if geteuid().is_root() && end.said.contains("unshare") {
        println!("not tried: this container may not mount: {}", end.said);
        return;
    }
    refused(&end, 2).expect("refused");
    assert!(end.said.contains("Read-only") || end.said.contains("denied"), "{end:?}");
    serve(place.path());
}

#[test]
fn a_directory_of_another_format_is_refused_by_verify_too() {
    let place = base().copy();
    put(&store(place.path()), "FORMAT", b"longhaul store, format 3\n");
    let end = served::verify(place.path());
    assert_eq!(end.code, Some(6), "{end:?}");
    assert!(end.said.contains("format 3") && end.said.contains("longhaul that wrote it"), "{end:?}");
}
