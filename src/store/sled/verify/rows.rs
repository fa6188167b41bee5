//! Everything that stands for something else: rows, keys, pieces, cells, files. Each must have what it stands for.

use std::collections::HashSet;
use std::fs;

use super::super::super::codec::{self, Damage, Kind};
use super::super::super::{Error, Kept};
use super::super::body::{FOLDER, file_named, is_unfinished};
use super::super::commit::key_row;
use super::super::writer::TypeRow;
use super::super::{ends, failure, keys, refusal};
use super::sums::Sum;
use super::{Inquiry, hex, words};
use crate::job::{BODY_SMALL_MAX, Job, JobId};

impl Inquiry<'_> {
    /// Walks `index` and `keys`: no row is missing, and none is astray.
    pub fn walk_rows(&mut self) -> Result<(), Error> {
        let (mut index, mut named) = (Sum::default(), Sum::default());
        for row in &self.trees.index {
            let (key, value) = row.map_err(failure)?;
            match ends_of(&key, &value) {
                Some(Ok(jobs)) => jobs.into_iter().for_each(|job| index.add(&end_row(&key, job), b"")),
                // What is no record leaves the sums apart.
                Some(Err(_)) | None => index.add(&key, &value),
            }
        }
        for row in &self.trees.keys {
            let (key, value) = row.map_err(failure)?;
            // What is no record leaves the sums apart.
            let id = codec::decode::<JobId>(Kind::Key, &value).map(keys::job);
            named.add(&key, id.as_ref().map_or(&value[..], |id| id));
        }
        if (index, named) == (self.expected.index, self.expected.keys) {
            return Ok(());
        }
        self.walk_jobs_for_rows()?;
        self.walk_index()?;
        self.walk_keys()?;
        self.complain_of_contradiction("index or keys");
        Ok(())
    }

    /// Walks `index`: no row without its job.
    fn walk_index(&mut self) -> Result<(), Error> {
        for row in &self.trees.index {
            let (key, value) = row.map_err(failure)?;
            match ends_of(&key, &value) {
                Some(Ok(jobs)) => {
                    for job in jobs {
                        self.check_row(&end_row(&key, job))?;
                    }
                }
                Some(Err(damage)) => self.report.complain(format!("index row {}", hex(&key)), words(damage)),
                None => self.check_row(&key)?,
            }
        }
        Ok(())
    }

    /// The job of the row has it.
    fn check_row(&mut self, key: &[u8]) -> Result<(), Error> {
        let at = format!("index row {}", hex(key));
        let Some(id) = keys::row_id(key) else {
            self.report.complain(at, "it names no job");
            return Ok(());
        };
        match self.known(id)? {
            None => self.report.complain(at, format!("it names job {id}, which is not kept")),
            Some(known) => {
                let job = &known.head.job;
                let number = self.numbers.get(&job.spec.job_type).copied();
                if !is_row_of(key, job, number) {
                    self.report.complain(at, format!("job {id} has no such row"));
                }
            }
        }
        Ok(())
    }

    /// Walks `keys`: no row without the job that has the key.
    fn walk_keys(&mut self) -> Result<(), Error> {
        for row in &self.trees.keys {
            let (key, bytes) = row.map_err(failure)?;
            let at = format!("key row {}", hex(&key));
            match codec::decode::<JobId>(Kind::Key, &bytes) {
                Err(damage) => self.report.complain(at, words(damage)),
                Ok(id) => match self.known(id)? {
                    None => self.report.complain(at, format!("it names job {id}, which is not kept")),
                    Some(known) if key_row(&known.head.job).is_some_and(|row| row == *key) => {}
                    Some(_) => self.report.complain(at, format!("job {id} has not this key")),
                },
            }
        }
        Ok(())
    }

    /// Walks `bodies`: no piece or block that its job does not name.
    pub fn walk_bodies(&mut self) -> Result<(), Error> {
        let mut found = Sum::default();
        for row in &self.trees.bodies {
            found.add(&row.map_err(failure)?.0, b"");
        }
        if found == self.expected.bodies {
            return Ok(());
        }
        for row in &self.trees.bodies {
            let (key, _) = row.map_err(failure)?;
            let Some((id, part, seq, piece)) = keys::body_named(&key) else {
                self.report.complain("tree bodies", format!("there is a key {}", hex(&key)));
                continue;
            };
            let at = match part {
                keys::BLOCK => format!("block {seq} of the trail of job {id}"),
                part => format!("part {part}, {seq:#x}, piece {piece} of job {id}"),
            };
            let Some(known) = self.known(id)? else {
                self.report.complain(at, "the job is not kept");
                continue;
            };
            let small = |len: u64| len <= BODY_SMALL_MAX as u64 && usize::from(piece) < keys::pieces(len);
            let is_named = match part {
                keys::BLOCK => piece == 0 && seq < u64::from(known.head.trail.blocks),
                part => {
                    let mut names = known.head.job.bodies_beside();
                    names.any(|name| keys::part(name.part) == part && name.seq == seq && small(name.len))
                }
            };
            if !is_named {
                self.report.complain(at, "its job does not name it");
            }
        }
        self.complain_of_contradiction("bodies");
        Ok(())
    }

    /// Walks `cells`: the store's own say what was counted.
    pub fn walk_cells(&mut self) -> Result<(), Error> {
        let mut numbers = HashSet::new();
        for row in &self.trees.cells {
            let (key, bytes) = row.map_err(failure)?;
            if key.first() != Some(&keys::OWN) {
                if std::str::from_utf8(&key).is_err() {
                    self.report.complain("tree cells", format!("there is a key {}", hex(&key)));
                }
                continue;
            }
            let at = format!("the cell {:?}", String::from_utf8_lossy(&key[1..]));
            // The others were read when the store was opened.
            if let Some(job_type) = key.strip_prefix(keys::TYPE) {
                let counted = std::str::from_utf8(job_type).ok().and_then(|job_type| self.types.remove(job_type));
                self.check_type(at, &bytes, counted.unwrap_or_default(), &mut numbers);
            } else if ![keys::FORMAT, keys::EPOCH, keys::STANDING].contains(&&key[..]) {
                self.report.complain(at, "the store has no such cell");
            }
        }
        for (job_type, kept) in std::mem::take(&mut self.types) {
            let at = format!("the cell \"type/{job_type}\"");
            self.report.complain(at, format!("it is missing, and {} ended jobs are of that type", kept.jobs));
        }
        Ok(())
    }

    /// The row of a type, with a number of its own, says what was counted.
    fn check_type(&mut self, at: String, bytes: &[u8], counted: Kept, numbers: &mut HashSet<keys::TypeNumber>) {
        match codec::decode::<TypeRow>(Kind::Own, bytes) {
            Err(damage) => self.report.complain(at, words(damage)),
            Ok(row) if !numbers.insert(row.number) => {
                self.report.complain(at, format!("its number {} is that of another type", row.number));
            }
            Ok(row) if row.kept == counted => {}
            Ok(row) => {
                let said = |kept: Kept| {
                    format!("{} jobs, {} dead letters, {} bytes", kept.jobs, kept.dead_letters, kept.bytes)
                };
                self.report.complain(at, format!("it says {}, and there are {}", said(row.kept), said(counted)));
            }
        }
    }

    /// Walks the files of large bodies. One that nobody names was brought by a process that was killed before its
    /// commit: it goes at the next start.
    pub fn walk_files(&mut self) -> Result<(), Error> {
        let folder = self.store.options.dir.join(FOLDER);
        let what = || format!("cannot look at {}", folder.display());
        for entry in fs::read_dir(&folder).map_err(refusal(what()))? {
            let entry = entry.map_err(refusal(what()))?;
            let name = entry.file_name();
            let is_named = match file_named(&name.to_string_lossy()) {
                None => !is_unfinished(&name.to_string_lossy()),
                Some((id, part, seq)) => self.known(id)?.is_some_and(|known| {
                    let large = |len: u64| len > BODY_SMALL_MAX as u64;
                    known.head.job.bodies().any(|name| name.part == part && name.seq == seq && large(name.len))
                }),
            };
            self.report.leftovers += u64::from(!is_named);
        }
        Ok(())
    }
}

/// The jobs of a row of ends; `None` if it is of another family.
fn ends_of(key: &[u8], value: &[u8]) -> Option<Result<Vec<JobId>, Damage>> {
    (key.first() == Some(&keys::BY_END)).then(|| ends::jobs(key, value))
}

/// The row that a job in a row of ends would have alone.
fn end_row(key: &[u8], job: JobId) -> Vec<u8> {
    [&key[..size_of::<keys::SharedEnd>()], &keys::job(job)].concat()
}

/// Whether the job has such a row.
fn is_row_of(key: &[u8], job: &Job, number: Option<keys::TypeNumber>) -> bool {
    if !job.status().is_terminal() {
        return false;
    }
    match key.first() {
        Some(&keys::BY_OWNER) => key == keys::owned(&job.spec.owner, job.id()),
        Some(&keys::BY_END) => number.is_some_and(|number| key == keys::ended(ends::shared(number, job), job.id())),
        Some(&keys::BY_DEATH) => key == keys::dead(job.id()) && job.is_dead_letter(),
        Some(_) | None => false,
    }
}
