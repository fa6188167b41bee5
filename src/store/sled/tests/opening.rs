//! An opening that a power cut ends, while sled zeroes what it needs no more.

use std::path::PathBuf;

use super::*;
use crate::store::sled::{opening, segments};
use crate::store::{CellChange, verify};

/// Bytes of a cell: a few of them fill a segment.
const CELL: usize = 3_000;
/// Cells that are written again and again: so few that a segment holds them all several times.
const CELLS: usize = 8;

fn write(store: &Sled, round: usize) {
    for cell in 0..CELLS {
        let mut value = vec![0; CELL];
        value.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 + round * 7 + cell) as u8);
        let cell = CellChange { name: format!("cell {cell}"), expect: None, value: Some(value.into()) };
        assert!(store.commit(&[Change { jobs: Vec::new(), cells: vec![cell] }]).expect("works")[0].is_ok());
    }
}

fn place(dir: PathBuf) -> Options {
    Options { dir, cache_bytes: 16 * 1024 * 1024, durability: Durability::Process }
}

/// Whether an opening of this directory zeroes a segment at the end of the log; if so, what is left if the disk has taken
/// the zeroes and not the name of the new snapshot.
fn cut_short(killed: &Path, at: &Path, with_note: bool) -> bool {
    copy(killed, at);
    let data = at.join(segments::DATA);
    let tail = |dir: &Path| {
        let file = fs::File::open(&data).expect("there");
        let found = segments::Segments::of(dir, &file).expect("readable");
        found.replayed.range(found.tail..).map(|(place, _)| *place).collect::<Vec<_>>()
    };
    let before = tail(at);
    if with_note {
        opening::begin(at).expect("noted");
    }
    let opened = at.with_extension("opened");
    copy(killed, &opened);
    Sled::open(&place(opened.clone())).expect("opens").close().expect("closes");
    fs::copy(opened.join(segments::DATA), &data).expect("copied");
    fs::remove_dir_all(opened).expect("gone");
    tail(at).len() < before.len() && !before.is_empty()
}

#[test]
fn a_power_cut_between_the_zeroes_and_the_name_of_a_snapshot_loses_nothing() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let dir = tmp.path().join("store");
    let store = Sled::open(&place(dir.clone())).expect("opens");
    let mut met = 0;
    // About two segments, looked at every few steps: now and then the last but one holds nothing that is in use.
    for round in 0..60 {
        write(&store, round);
        let cells = store.cells("").expect("works");
        let killed = tmp.path().join(format!("killed-{round}"));
        copy(&dir, &killed);
        let bare = tmp.path().join(format!("bare-{round}"));
        if cut_short(&killed, &bare, false) {
            met += 1;
            let lost = Sled::open(&place(bare)).ok().is_none_or(|store| store.cells("").expect("works") != cells);
            assert!(lost, "sled stands this by itself: the note is of no use any more");
            let noted = tmp.path().join(format!("noted-{round}"));
            assert!(cut_short(&killed, &noted, true));
            // A second cut, right after what was missing was put back.
            opening::begin(&noted).expect("put back");
            let store = Sled::open(&place(noted.clone())).expect("opens");
            assert!(store.cells("").expect("works") == cells, "round {round}");
            store.close().expect("closes");
            assert!(!noted.join(opening::FILE).exists());
            assert_eq!(verify::verify(&noted).expect("readable").complaints, []);
        }
        fs::remove_dir_all(killed).expect("gone");
    }
    assert!(met > 0, "the case did not occur");
}
