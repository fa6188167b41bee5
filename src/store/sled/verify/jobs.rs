//! Every record: the fold of its entries, in its tree, with its trail, rows, key and bodies.

use std::fs::File;

use super::super::super::Error;
use super::super::super::codec::{self, Kind};
use super::super::body::{FOLDER, file_name};
use super::super::commit::{key_row, owner_row};
use super::super::{blocks, ends, failure, keys, refusal};
use super::{Files, Inquiry, hex, words};
use crate::job::{BODY_SMALL_MAX, BodyRef, Head, Job, JobId, Logged, Position, machine};

impl Inquiry<'_> {
    /// Walks `live` and `jobs`.
    pub fn walk_jobs(&mut self) -> Result<(), Error> {
        let trees = self.trees;
        for (name, tree, holds_ended) in [("live", &trees.live, false), ("jobs", &trees.jobs, true)] {
            for row in tree {
                let (key, bytes) = row.map_err(failure)?;
                let Some(id) = keys::job_id(&key) else {
                    self.report.complain(format!("tree {name}"), format!("there is a key {}", hex(&key)));
                    continue;
                };
                match codec::head(&bytes) {
                    Ok(head) => self.check_job(id, &head, holds_ended)?,
                    Err(damage) => self.report.complain(format!("the record of job {id}"), words(damage)),
                }
            }
        }
        Ok(())
    }

    fn check_job(&mut self, id: JobId, head: &Head, holds_ended: bool) -> Result<(), Error> {
        self.report.jobs += 1;
        let at = format!("job {id}");
        let job = &head.job;
        if job.id() != id {
            self.report.complain(&at, format!("its record is that of job {}", job.id()));
            return Ok(());
        }
        if job.status().is_terminal() != holds_ended {
            let kept = if holds_ended { "ended" } else { "unfinished" };
            self.report.complain(&at, format!("it is {}, and kept among the {kept} jobs", job.status().name()));
        }
        if holds_ended && self.trees.live.contains_key(keys::job(id)).map_err(failure)? {
            self.report.complain(&at, "it is kept twice, as ended and as unfinished");
        }
        self.check_entries(&at, head)?;
        self.report.bodies += job.bodies().count() as u64;
        for name in job.bodies_beside() {
            if let Some(why) = self.body_fault(id, name)? {
                self.report.complain(format!("{:?} {:#x} of job {id}", name.part, name.seq), why);
            }
        }
        if holds_ended {
            self.types.entry(job.spec.job_type.clone()).or_default().add(job);
        }
        Ok(())
    }

    /// Trail and fold.
    fn check_entries(&mut self, at: &str, head: &Head) -> Result<(), Error> {
        let (positions, missing) = self.positions(head)?;
        let number = self.numbers.get(&head.job.spec.job_type).copied();
        self.expected.add(head, &positions, number);
        for number in &missing {
            self.report.complain(at, format!("block {number} of its trail is missing or damaged"));
        }
        if let Some(pair) = positions.windows(2).find(|pair| pair[0] >= pair[1]) {
            self.report.complain(at, format!("its trail has position {} after {}", pair[1].0, pair[0].0));
        }
        let mut entries = Vec::with_capacity(positions.len());
        let mut whole = missing.is_empty();
        for position in positions {
            match self.entry(position)? {
                Some(logged) if logged.job == head.job.id() => entries.push(logged),
                Some(logged) => {
                    whole = false;
                    let why = format!("its trail names position {}, an entry of job {}", position.0, logged.job);
                    self.report.complain(at, why);
                }
                None => {
                    whole = false;
                    self.report.complain(at, format!("its entry at position {} is missing", position.0));
                }
            }
        }
        // Without all entries the fold says nothing more.
        if whole {
            self.check_fold(at, &head.job, &entries);
        }
        Ok(())
    }

    fn check_fold(&mut self, at: &str, record: &Job, entries: &[Logged]) {
        let spec = &record.spec;
        let mut folded: Option<Job> = None;
        for logged in entries {
            let Logged { position: Position(position), at: decided, job_type, owner, tags, entry, .. } = logged;
            if (job_type, owner, tags) != (&spec.job_type, &spec.owner, &spec.tags) {
                self.report.complain(at, format!("its entry at position {position} has other type, owner or tags"));
            }
            let has_ended = folded.as_ref().is_some_and(|job| job.status().is_terminal());
            if has_ended && entry.is_terminal() {
                self.report.complain(at, format!("it has a second terminal event, at position {position}"));
                return;
            }
            match machine::apply(folded.take(), *decided, entry) {
                Ok(job) => folded = Some(job),
                Err(why) => {
                    self.report.complain(at, format!("its entry at position {position} does not fit: {why}"));
                    return;
                }
            }
        }
        match folded {
            Some(job) if job == *record => {}
            Some(job) => {
                let fields = differences(record, &job).join(", ");
                self.report.complain(at, format!("its record is not the fold of its entries: {fields}"));
            }
            None => self.report.complain(at, "it has no entries"),
        }
    }

    /// Walks `live` and `jobs` again: whether each job has its rows.
    pub fn walk_jobs_for_rows(&mut self) -> Result<(), Error> {
        let trees = self.trees;
        for row in trees.live.iter().chain(trees.jobs.iter()) {
            let (key, bytes) = row.map_err(failure)?;
            // What is no record was complained about before.
            if let (Some(id), Ok(head)) = (keys::job_id(&key), codec::head(&bytes))
                && head.job.id() == id
            {
                self.check_rows(&format!("job {id}"), &head.job)?;
            }
        }
        Ok(())
    }

    /// Its rows in `index` and `keys`.
    fn check_rows(&mut self, at: &str, job: &Job) -> Result<(), Error> {
        if job.status().is_terminal() {
            let id = job.id();
            let owned = keys::owned(&job.spec.owner, id);
            match self.trees.index.get(owned).map_err(failure)? {
                Some(row) if row == owner_row(job) => {}
                Some(_) => self.report.complain(at, format!("its index row {} says something else", hex(&owned))),
                None => self.report.complain(at, format!("its index row {} (by owner) is missing", hex(&owned))),
            }
            // A type without a number is complained about with the cells.
            if let Some(number) = self.numbers.get(&job.spec.job_type) {
                let shared = ends::shared(*number, job);
                if !ends::is_in(self.trees, shared, id)? {
                    self.report.complain(at, format!("its index row {} (by end) is missing", hex(&shared)));
                }
            }
            let dead = keys::dead(id);
            if job.is_dead_letter() && !self.trees.index.contains_key(dead).map_err(failure)? {
                self.report.complain(at, format!("its index row {} (dead letter) is missing", hex(&dead)));
            }
        }
        let Some(row) = key_row(job) else { return Ok(()) };
        let named = self.trees.keys.get(row).map_err(failure)?;
        match named.map(|bytes| codec::decode::<JobId>(Kind::Key, &bytes)) {
            Some(Ok(id)) if id == job.id() => {}
            Some(Ok(id)) => self.report.complain(at, format!("its key row {} names job {id}", hex(&row))),
            Some(Err(damage)) => self.report.complain(at, format!("its key row {}: {}", hex(&row), words(damage))),
            None => self.report.complain(at, format!("its key row {} is missing", hex(&row))),
        }
        Ok(())
    }

    /// What is wrong with a body, if anything.
    fn body_fault(&self, id: JobId, name: BodyRef) -> Result<Option<String>, Error> {
        let mut found = Checked::default();
        if name.len > BODY_SMALL_MAX as u64 {
            if self.files == Files::Not {
                return Ok(None);
            }
            let file = file_name(id, name);
            let path = self.store.options.dir.join(FOLDER).join(&file);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(Some(format!("its file {FOLDER}/{file} is missing")));
                }
                Err(error) => return Err(refusal(format!("cannot open {}", path.display()))(error)),
            };
            for from in (0..name.len).step_by(LOOKED_AT) {
                let count = usize::try_from(name.len - from).unwrap_or(LOOKED_AT).min(LOOKED_AT);
                match blocks::read(&file, name, from, count)
                    .map_err(refusal(format!("cannot read {}", path.display())))?
                {
                    Ok(bytes) => found.take(&bytes),
                    Err(why) => return Ok(Some(why)),
                }
            }
        } else {
            for number in 0..keys::pieces(name.len) {
                match self.trees.bodies.get(keys::piece(id, name, number)).map_err(failure)? {
                    Some(piece) => found.take(&piece),
                    None => return Ok(Some(format!("piece {number} is missing"))),
                }
            }
        }
        let Checked { len, crc } = found;
        Ok(if len != name.len {
            Some(format!("it has {len} bytes instead of {}", name.len))
        } else if crc.finalize() != name.crc {
            Some("its checksum does not match".to_owned())
        } else {
            None
        })
    }
}

/// Bytes of a large body that are looked at together.
const LOOKED_AT: usize = 1024 * 1024;

/// Length and checksum of what was read.
#[derive(Default)]
struct Checked {
    len: u64,
    crc: crc32fast::Hasher,
}

impl Checked {
    fn take(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.crc.update(bytes);
    }
}

/// The names of the fields in which two records differ.
fn differences(a: &Job, b: &Job) -> Vec<&'static str> {
    // Taken apart completely, so that a new field is compared too.
    let Job {
        spec,
        state,
        revision,
        claims,
        attempts,
        interruptions,
        run_at,
        updated_at,
        started_at,
        finished_at,
        progress,
        progress_at,
        reached,
        reached_before,
        partial,
        error,
        cancel,
        logs,
        questions,
    } = a;
    let same = [
        ("spec", *spec == b.spec),
        ("state", *state == b.state),
        ("revision", *revision == b.revision),
        ("claims", *claims == b.claims),
        ("attempts", *attempts == b.attempts),
        ("interruptions", *interruptions == b.interruptions),
        ("run_at", *run_at == b.run_at),
        ("updated_at", *updated_at == b.updated_at),
        ("started_at", *started_at == b.started_at),
        ("finished_at", *finished_at == b.finished_at),
        ("progress", *progress == b.progress),
        ("progress_at", *progress_at == b.progress_at),
        ("reached", *reached == b.reached),
        ("reached_before", *reached_before == b.reached_before),
        ("partial", *partial == b.partial),
        ("error", *error == b.error),
        ("cancel", *cancel == b.cancel),
        ("logs", *logs == b.logs),
        ("questions", *questions == b.questions),
    ];
    same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}
