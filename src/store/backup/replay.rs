//! The lines of a backup become changes again: each entry folded over its job, with the bodies that follow it.
//!
//! In: lines, in order. Out: changes with the positions they had, or what does not fit. A backup that gets through holds
//! every entry from the floor to its position, whole jobs below it, and exactly the bodies that its records name. Holds the
//! records of unfinished jobs, as a server does, and one small body.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::IgnoredAny;

use super::{EntryLine, Header, Piece, Trailer, named};
use crate::job::{BODY_SMALL_MAX, Body, BodyRef, Entry, Epoch, Head, Json, Part, Position, machine};
use crate::job::{JobId, Timestamp};
use crate::store::codec::Buffer;
use crate::store::{Bounds, JobChange};

/// Largest entry as the store keeps it, in bytes: no honest one comes near.
pub const ENTRY_MAX: usize = 16 * 1024;

/// An entry with its place and all its bodies.
#[derive(Debug)]
pub struct Step {
    /// The line of the entry.
    pub line: u64,
    /// Where it stood.
    pub position: Position,
    /// What it makes of its job. Large bodies are named without bytes.
    pub change: JobChange,
}

/// Bytes of a large body, for a file.
#[derive(Debug)]
pub struct Portion {
    /// Whose.
    pub job: JobId,
    /// Which.
    pub name: BodyRef,
    /// They begin it.
    pub is_first: bool,
    /// They end it.
    pub is_last: bool,
    /// They.
    pub bytes: Vec<u8>,
}

/// A job that goes on, and the bodies it names that have not come. Some never will: a later entry drops them.
struct Open {
    head: Arc<Head>,
    lacking: Vec<BodyRef>,
}

/// A body of which a part has come.
struct Coming {
    name: BodyRef,
    got: u64,
    crc: crc32fast::Hasher,
    /// All of it, if it is small.
    bytes: Vec<u8>,
}

/// See the head of this file.
pub struct Replay {
    bounds: Bounds,
    open: HashMap<JobId, Open>,
    /// The newest entry: its bodies may still come.
    current: Option<(Step, Vec<BodyRef>)>,
    coming: Option<Coming>,
    last: Position,
    counts: Trailer,
}

impl Replay {
    /// The beginning of a backup with this header.
    ///
    /// # Errors
    /// The header makes no sense.
    pub fn new(header: &Header) -> Result<Self, String> {
        let Header { epoch, position, floor, .. } = header;
        let digits = epoch.len() == 8 && epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
        let epoch =
            u32::from_str_radix(epoch, 16).ok().filter(|_| digits).ok_or("its epoch is not eight hex digits")?;
        if *floor == Position::ZERO || *floor > position.next() || *position == Position(u64::MAX) {
            return Err(format!("its floor {} and its position {} cannot be", floor.0, position.0));
        }
        Ok(Self {
            bounds: Bounds { epoch: Epoch(epoch), floor: *floor, last: *position },
            open: HashMap::new(),
            current: None,
            coming: None,
            last: Position::ZERO,
            counts: Trailer { jobs: 0, entries: 0, bodies: 0, sha256: String::new() },
        })
    }

    /// The log that it is a backup of.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The next entry, whose line has this number; `ended` is its job's record if that has ended. After `complete`.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn entry(&mut self, line: u64, entry: EntryLine, ended: Option<Arc<Head>>) -> Result<(), String> {
        let EntryLine { position, at, job, entry } = entry;
        self.check_position(position)?;
        self.last = position;
        self.counts.entries += 1;
        self.counts.jobs += u64::from(matches!(entry, Entry::Created { .. }));
        check_entry(job, &entry)?;
        let old = self.open.remove(&job);
        let (head, lacking) = match old {
            Some(Open { head, lacking }) => (Some(head), lacking),
            None => (ended, Vec::new()),
        };
        let change = changed(head, at, entry, &lacking)?;
        let named = named(&change.entries[0]);
        let lacking = lacking.into_iter().chain(named.iter().copied());
        let lacking = lacking.filter(|name| change.after.bodies().any(|kept| kept == *name)).collect();
        let mut trail = change.before.as_ref().map(|head| head.trail.clone()).unwrap_or_default();
        trail.push(position);
        let head = Arc::new(Head { job: change.after.clone(), trail });
        self.open.insert(job, Open { head, lacking });
        self.current = Some((Step { line, position, change }, named));
        Ok(())
    }

    /// Whether the job has not ended.
    pub fn is_open(&self, job: JobId) -> bool {
        self.open.contains_key(&job)
    }

    /// The next piece of a body. Answers what belongs in a file.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn body(&mut self, piece: Piece) -> Result<Option<Portion>, String> {
        let Piece { name, from, text, base64 } = piece;
        let Some((step, due)) = &mut self.current else { return Err("no entry names this body".into()) };
        let bytes = match (text, base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(_)) if is_json(name.part) => return Err("this body must be text".into()),
            (None, Some(base64)) => STANDARD.decode(base64).map_err(|why| format!("it is no Base64: {why}"))?,
            (Some(_), Some(_)) | (None, None) => return Err("it has not exactly one of text and base64".into()),
        };
        if self.coming.is_none() {
            let at = due.iter().position(|due| *due == name).ok_or("the entry before it does not name this body")?;
            // Bodies come in the order they are named in; those before it were dropped before the backup.
            due.drain(..=at);
            self.coming = Some(Coming { name, got: 0, crc: crc32fast::Hasher::new(), bytes: Vec::new() });
        }
        let Some(coming) = self.coming.as_mut().filter(|coming| coming.name == name && coming.got == from) else {
            return Err("another piece of the body before it belongs here".into());
        };
        let job = step.change.after.id();
        let is_large = name.len > BODY_SMALL_MAX as u64;
        coming.got += bytes.len() as u64;
        coming.crc.update(&bytes);
        if coming.got > name.len || (bytes.is_empty() && name.len > 0) {
            return Err("the body has not the length that the entry says".into());
        }
        let is_last = coming.got == name.len;
        if is_last && coming.crc.clone().finalize() != name.crc {
            return Err("the body's checksum does not match".into());
        }
        let portion = match is_large {
            true => Some(Portion { job, name, is_first: from == 0, is_last, bytes }),
            false => {
                coming.bytes.extend_from_slice(&bytes);
                None
            }
        };
        if is_last {
            self.take_body()?;
        }
        Ok(portion)
    }

    /// The trailer. Answers the last entry.
    ///
    /// # Errors
    /// What is wrong with it, or with the backup as a whole.
    pub fn finish(&mut self, trailer: &Trailer) -> Result<Option<Step>, String> {
        let last = self.complete()?;
        let expected = Trailer { sha256: trailer.sha256.clone(), ..self.counts.clone() };
        if expected != *trailer {
            let Trailer { jobs, entries, bodies, .. } = expected;
            return Err(format!("its counts do not match: there are {jobs} jobs, {entries} entries, {bodies} bodies"));
        }
        let bounds = self.bounds;
        if bounds.floor <= bounds.last && self.last != bounds.last {
            return Err(format!("the entry at position {} is missing", bounds.last.0));
        }
        match self.open.values().find(|open| !open.lacking.is_empty()) {
            Some(open) => Err(lacks(open)),
            None => Ok(last),
        }
    }

    /// The newest entry has all that will come: answers it. An ended job must have everything.
    ///
    /// # Errors
    /// Something of it is missing before the line that was read.
    pub fn complete(&mut self) -> Result<Option<Step>, String> {
        if self.coming.is_some() {
            return Err("the rest of the body before it belongs here".into());
        }
        let Some((step, _)) = self.current.take() else { return Ok(None) };
        let job = step.change.after.id();
        if step.change.after.status().is_terminal()
            && let Some(open) = self.open.remove(&job)
            && !open.lacking.is_empty()
        {
            return Err(format!("before it a body is missing: {}", lacks(&open)));
        }
        Ok(Some(step))
    }

    fn check_position(&self, position: Position) -> Result<(), String> {
        let Bounds { floor, last, .. } = self.bounds;
        if position <= self.last {
            return Err(format!("position {} does not follow {}", position.0, self.last.0));
        }
        if position > last {
            return Err(format!("position {} is beyond the backup's, {}", position.0, last.0));
        }
        let due = self.last.next().max(floor);
        if position > due {
            return Err(format!("the entry at position {} is missing", due.0));
        }
        Ok(())
    }

    /// The body that was coming has come.
    fn take_body(&mut self) -> Result<(), String> {
        let (Some(Coming { name, bytes, .. }), Some((step, _))) = (self.coming.take(), &mut self.current) else {
            return Ok(());
        };
        let is_large = name.len > BODY_SMALL_MAX as u64;
        if !is_large && is_json(name.part) {
            check_json(name.part, &bytes[..])?;
        }
        if let Some(open) = self.open.get_mut(&step.change.after.id()) {
            open.lacking.retain(|lacking| *lacking != name);
        }
        let bytes = (!is_large).then(|| Bytes::from(bytes));
        step.change.bodies.push(Body { name, bytes });
        self.counts.bodies += 1;
        Ok(())
    }
}

/// Whether such a body is one JSON value.
pub fn is_json(part: Part) -> bool {
    match part {
        Part::Payload | Part::Result | Part::Content | Part::Partial | Part::Question | Part::Answer => true,
        Part::Log => false,
    }
}

/// Whether the bytes are one JSON value, in memory as it is read.
///
/// # Errors
/// They are not.
pub fn check_json(part: Part, bytes: impl std::io::Read) -> Result<(), String> {
    let value: Result<IgnoredAny, _> = serde_json::from_reader(bytes);
    value.map(drop).map_err(|why| format!("the {part:?} is no JSON: {why}"))
}

/// What does not show in a fold.
fn check_entry(job: JobId, entry: &Entry) -> Result<(), String> {
    let mut buffer = Buffer::default();
    buffer.put(entry);
    if buffer.0.len() > ENTRY_MAX {
        return Err(format!("an entry of {} bytes; at most {ENTRY_MAX} are kept", buffer.0.len()));
    }
    match entry {
        Entry::Created { spec, .. } if spec.id != job => Err(format!("it creates job {}, not {job}", spec.id)),
        Entry::Partial { inline: Some(Json(text)), .. }
        | Entry::Completed { inline: Some(Json(text)), .. }
        | Entry::Asked { schema: Json(text), .. } => {
            let one_line = !text.contains(['\n', '\r']);
            let value = serde_json::from_str::<IgnoredAny>(text).is_ok();
            if one_line && value { Ok(()) } else { Err("what it carries inline is not one line of JSON".into()) }
        }
        Entry::Created { .. }
        | Entry::Started { .. }
        | Entry::Progress(_)
        | Entry::Partial { .. }
        | Entry::Retrying { .. }
        | Entry::Released { .. }
        | Entry::Interrupted { .. }
        | Entry::CancelRequested { .. }
        | Entry::CancelDelivered { .. }
        | Entry::Completed { .. }
        | Entry::Failed { .. }
        | Entry::Canceled { .. }
        | Entry::Replayed { .. }
        | Entry::Answered { .. } => Ok(()),
    }
}

/// The entry as a change of its job. What it drops and has never come is not dropped.
fn changed(head: Option<Arc<Head>>, at: Timestamp, entry: Entry, lacking: &[BodyRef]) -> Result<JobChange, String> {
    let job = head.as_ref().map(|head| head.job.clone());
    let after = machine::apply(job, at, &entry).map_err(|why| format!("it does not follow: {why}"))?;
    let mut dropped = head.as_ref().map(|head| machine::dropped(&head.job, &after)).unwrap_or_default();
    dropped.retain(|name| !lacking.contains(name));
    Ok(JobChange { before: head, after, entries: vec![entry], at, bodies: Vec::new(), dropped })
}

fn lacks(open: &Open) -> String {
    let name = open.lacking.first().copied();
    let what = name.map(|name| format!("{:?} {:#x}", name.part, name.seq)).unwrap_or_default();
    format!("{what} of job {} is not in the backup", open.head.job.id())
}
