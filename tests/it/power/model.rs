//! The model keeps its own rules: a proof by images that no disk could hold, or that are all alike, would be none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::chance::Chance;
use super::disk::{Disk, Mood};
use super::record::Record;
use super::recording::folder;

const ROOT: u64 = 1;
const FILE: u64 = 2;
const MOODS: [Mood; 4] = [Mood::Lost, Mood::Kept, Mood::Cut, Mood::Torn];

fn made(ino: u64, path: &str) -> Record {
    Record::Created { ino, path: path.into(), is_folder: false }
}

fn written(offset: u64, byte: u8, sectors: usize) -> Record {
    Record::Written { ino: FILE, offset, data: vec![byte; sectors * 512] }
}

fn sync(ino: u64) -> [Record; 2] {
    [Record::SyncBegan { ino, token: ino }, Record::SyncEnded { token: ino }]
}

/// Every image of many seeds and all moods, as the names and contents of its files.
fn images(records: &[Record]) -> BTreeSet<Vec<(String, Vec<u8>)>> {
    let disk = Disk::after(ROOT, records);
    let tmp = folder();
    let mut all = BTreeSet::new();
    for (number, mood) in (0..400).zip(MOODS.into_iter().cycle()) {
        let image = tmp.path().join(number.to_string());
        disk.cut(mood, &mut Chance::new(1, number), &image);
        all.insert(files(&image));
    }
    all
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    let mut files: Vec<_> = entries.map(named).collect();
    files.sort();
    files
}

#[test]
fn what_was_synced_is_in_every_image() {
    let mut records = vec![made(FILE, "f"), written(0, 1, 3)];
    records.extend(sync(FILE));
    records.extend(sync(ROOT));
    assert_eq!(images(&records), BTreeSet::from([vec![("f".into(), vec![1; 3 * 512])]]));
}

#[test]
fn a_sync_does_not_cover_what_is_done_while_it_runs() {
    let mut records = vec![made(FILE, "f")];
    records.extend(sync(ROOT));
    records.extend([Record::SyncBegan { ino: FILE, token: 9 }, written(0, 1, 1), Record::SyncEnded { token: 9 }]);
    assert!(images(&records).contains(&vec![("f".into(), Vec::new())]));
}

#[test]
fn sectors_that_were_not_synced_are_old_or_new_each_by_itself() {
    let mut records = vec![made(FILE, "f"), written(0, 1, 3)];
    records.extend(sync(FILE));
    records.extend(sync(ROOT));
    records.push(written(0, 2, 3));
    let seen: BTreeSet<Vec<u8>> = images(&records)
        .iter()
        .map(|files| {
            let sectors = files[0].1.chunks(512);
            sectors.map(|sector| sector.iter().all(|byte| *byte == sector[0]).then_some(sector[0]).unwrap()).collect()
        })
        .collect();
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert!(seen.iter().flatten().all(|byte| matches!(byte, 1 | 2)));
}

#[test]
fn a_length_that_was_not_synced_is_told_apart_from_the_bytes() {
    let mut records = vec![made(FILE, "f"), written(0, 1, 2)];
    records.extend(sync(ROOT));
    let lengths_and_last: BTreeSet<(usize, Option<u8>)> =
        images(&records).iter().map(|files| (files[0].1.len(), files[0].1.last().copied())).collect();
    assert_eq!(lengths_and_last, BTreeSet::from([(0, None), (1_024, Some(0)), (1_024, Some(1))]));
}

#[test]
fn names_that_were_not_synced_are_lost_from_the_end() {
    let records = [
        made(FILE, "f.new"),
        Record::Renamed { from: "f.new".into(), to: "f".into() },
        made(3, "g"),
        Record::Removed { path: "f".into() },
    ];
    let names: BTreeSet<Vec<String>> =
        images(&records).into_iter().map(|files| files.into_iter().map(|(name, _)| name).collect()).collect();
    let expected: [&[&str]; 5] = [&[], &["f.new"], &["f"], &["f", "g"], &["g"]];
    assert_eq!(names, expected.iter().map(|names| names.iter().map(ToString::to_string).collect()).collect());
}
