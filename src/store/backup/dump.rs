//! Writing a backup, a page at a time, so that neither a reader thread nor memory is taken up by its size.
//!
//! In: a pin on a store. Out: pages of compressed bytes, until all is written. Between two pages it holds what the
//! last one left over: some entries of one chunk, a piece of a body.

use std::collections::{HashSet, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::lines::Sums;
use super::{EntryLine, Header, Line, PIECE_MAX, Piece, Trailer, VERSION, named};
use crate::job::{BodyRef, Entry, JobId, Logged, Position};
use crate::store::{Error, Pin, Store};

/// A page is handed out once about so many bytes of lines went into it, compressed or not.
pub const PAGE_MAX: usize = 256 * 1024;
/// Entries that are read at once.
const ENTRIES_AT_ONCE: usize = 256;

/// A body on its way out.
struct Body {
    job: JobId,
    name: BodyRef,
    from: u64,
    crc: crc32fast::Hasher,
}

/// See the head of this file.
pub struct Dump {
    pin: Pin,
    taken_at: String,
    sums: Sums,
    out: GzEncoder<Vec<u8>>,
    page_max: usize,
    /// Bytes of lines in this page.
    written: usize,
    /// Everything up to here was read.
    read: Position,
    entries: VecDeque<Logged>,
    bodies: VecDeque<Body>,
    counts: Counts,
    stage: Stage,
}

#[derive(Default)]
struct Counts {
    jobs: u64,
    entries: u64,
    bodies: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Log,
    Over,
}

impl Dump {
    /// A backup of what this pin shows, taken at that time.
    pub fn new(pin: Pin, taken_at: crate::job::Timestamp) -> Self {
        Self::in_pages(pin, taken_at, PAGE_MAX)
    }

    /// The same in smaller pages.
    pub(super) fn in_pages(pin: Pin, taken_at: crate::job::Timestamp, page_max: usize) -> Self {
        Self {
            pin,
            taken_at: taken_at.to_string(),
            sums: Sums::default(),
            out: GzEncoder::new(Vec::new(), Compression::fast()),
            page_max,
            written: 0,
            read: Position::ZERO,
            entries: VecDeque::new(),
            bodies: VecDeque::new(),
            counts: Counts::default(),
            stage: Stage::Head,
        }
    }

    /// What it is a backup of.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// The next bytes, never none; `None` once all is written. Blocks on the disk, for about `PAGE_MAX` of lines.
    ///
    /// # Errors
    /// The store's; `Unavailable` if the pin has ended before all was read. Then nothing more may be asked for.
    pub fn page(&mut self, store: &dyn Store) -> Result<Option<Bytes>, Error> {
        if self.stage == Stage::Over {
            return Ok(None);
        }
        self.written = 0;
        loop {
            // An encoder keeps some to itself: a page may take several rounds.
            while self.stage != Stage::Over && self.written < self.page_max {
                self.step(store)?;
            }
            if !store.is_pinned(&self.pin) {
                return Err(Error::Unavailable("the pin of this backup has ended".into()));
            }
            if self.stage == Stage::Over {
                self.out.try_finish().map_err(unwritten)?;
            }
            let page = std::mem::take(self.out.get_mut());
            if !page.is_empty() {
                return Ok(Some(page.into()));
            }
            self.written = 0;
        }
    }

    /// One line, or one read.
    fn step(&mut self, store: &dyn Store) -> Result<(), Error> {
        if self.stage == Stage::Head {
            self.stage = Stage::Log;
            let header = self.header();
            return self.put(&Line::Header(header));
        }
        if let Some(body) = self.bodies.pop_front() {
            return self.body(store, body);
        }
        if self.entries.is_empty() {
            let found = store.pinned_entries(&self.pin, self.read, ENTRIES_AT_ONCE)?;
            let Some(last) = found.last() else { return self.trailer() };
            self.read = last.position;
            self.entries = found.into();
        }
        let Some(logged) = self.entries.pop_front() else { return Ok(()) };
        self.entry(logged)
    }

    fn header(&self) -> Header {
        let bounds = self.pin.bounds;
        Header {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").into(),
            taken_at: self.taken_at.clone(),
            epoch: format!("{:08x}", bounds.epoch.0),
            position: bounds.last,
            floor: bounds.floor,
        }
    }

    fn entry(&mut self, logged: Logged) -> Result<(), Error> {
        let Logged { position, at, job, entry, .. } = logged;
        self.counts.entries += 1;
        self.counts.jobs += u64::from(matches!(entry, Entry::Created { .. }));
        let mut twice = HashSet::new();
        for name in named(&entry).into_iter().filter(|name| twice.insert((name.part, name.seq))) {
            self.bodies.push_back(Body { job, name, from: 0, crc: crc32fast::Hasher::new() });
        }
        self.put(&Line::Entry(EntryLine { position, at, job, entry }))
    }

    /// Writes the next piece of a body, if the body is there.
    fn body(&mut self, store: &dyn Store, mut body: Body) -> Result<(), Error> {
        let Body { job, name, from, .. } = body;
        let damaged = |why: &str| Error::Corrupt {
            at: format!("{:?} {:#x} of job {job}", name.part, name.seq),
            why: why.to_owned(),
        };
        let Some(bytes) = store.pinned_body(job, name, from, PIECE_MAX)? else {
            // Dropped before the pin: no record names it.
            return if from == 0 { Ok(()) } else { Err(damaged("it went while it was read")) };
        };
        let bytes = &bytes[..text_end(&bytes, from + (bytes.len() as u64) < name.len)];
        body.crc.update(bytes);
        body.from += bytes.len() as u64;
        if body.from < name.len && bytes.is_empty() {
            return Err(damaged("it is shorter than its record says"));
        }
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        let base64 = if text.is_none() { Some(STANDARD.encode(bytes)) } else { None };
        if body.from < name.len {
            self.bodies.push_front(body);
        } else if body.crc.finalize() != name.crc {
            return Err(damaged("its checksum does not match"));
        } else {
            self.counts.bodies += 1;
        }
        self.put(&Line::Body(Piece { name, from, text, base64 }))
    }

    fn trailer(&mut self) -> Result<(), Error> {
        self.stage = Stage::Over;
        let Counts { jobs, entries, bodies } = self.counts;
        let trailer = Trailer { jobs, entries, bodies, sha256: self.sums.sha256() };
        self.put(&Line::Trailer(trailer))
    }

    fn put(&mut self, line: &Line) -> Result<(), Error> {
        let mut counted = Counted { to: &mut self.out, bytes: 0 };
        self.sums.write(line, &mut counted).map_err(unwritten)?;
        self.written += counted.bytes;
        Ok(())
    }
}

fn unwritten(why: std::io::Error) -> Error {
    Error::Unavailable(format!("a backup cannot be compressed: {why}"))
}

/// Where a piece that begins at a character ends, if more of the body follows: before a character that it cuts.
fn text_end(bytes: &[u8], more_follows: bool) -> usize {
    match std::str::from_utf8(bytes) {
        Err(cut) if more_follows && cut.error_len().is_none() && cut.valid_up_to() > 0 => cut.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

struct Counted<'a, W> {
    to: &'a mut W,
    bytes: usize,
}

impl<W: std::io::Write> std::io::Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.bytes += count;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
