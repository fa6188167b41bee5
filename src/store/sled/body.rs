//! Bodies: small ones in pieces of 4 KiB within the trees, large ones in files of their own (design 5.4).
//!
//! In: names and bytes. Out: bytes, checked: small ones when read whole, large ones block by block. A large body is on disk before the
//! commit that names it; a file that no record names is swept when the store is opened.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};

use super::super::Error;
use super::{Sled, Trees, blocks, failure, keys, refusal};
use crate::fault::{self, Point};
use crate::job::{BODY_SMALL_MAX, BodyRef, CARRIED_MAX, JobId, Part};

/// The folder of large bodies, in the store's directory.
pub const FOLDER: &str = "bodies";
/// What a file is called until all of it is on disk.
const UNFINISHED: &str = "new";

/// The name of a large body's file: job, part, seq.
pub fn file_name(job: JobId, name: BodyRef) -> String {
    format!("{job}.{}.{:016x}", keys::part(name.part), name.seq)
}

/// What a file's name says; `None` for a name that no large body has.
pub fn file_named(name: &str) -> Option<(JobId, Part, u64)> {
    let mut fields = name.split('.');
    let (job, part, seq) = (fields.next()?, fields.next()?, fields.next()?);
    let part = keys::part_numbered(part.parse().ok()?)?;
    let seq = u64::from_str_radix(seq, 16).ok()?;
    fields.next().is_none().then_some((job.parse().ok()?, part, seq))
}

/// Whether a file of that name was still being written.
pub fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension == UNFINISHED)
}

fn is_small(name: BodyRef) -> bool {
    name.len <= BODY_SMALL_MAX as u64
}

/// The damage of a body.
fn damaged(job: JobId, name: BodyRef, why: &str) -> Error {
    Error::Corrupt { at: format!("{:?} {:#x} of job {job}", name.part, name.seq), why: why.to_owned() }
}

impl Sled {
    fn body_path(&self, job: JobId, name: BodyRef) -> PathBuf {
        self.options.dir.join(FOLDER).join(file_name(job, name))
    }

    pub(super) fn write_body_file(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), Error> {
        let path = self.body_path(job, name);
        let new = path.with_added_extension(UNFINISHED);
        let write = || {
            let mut file = File::create(&new)?;
            let (half, rest) = bytes.split_at(bytes.len() / 2);
            file.write_all(half)?;
            fault::point(Point::BodyWriting);
            file.write_all(rest)?;
            file.write_all(&blocks::sums(name, bytes))?;
            file.sync_all()?;
            fault::point(Point::BodyRenaming);
            fs::rename(&new, &path)?;
            fault::point(Point::BodyRenamed);
            sync_folder(path.parent().unwrap_or(&path))
        };
        if let Err(error) = write() {
            let _ = fs::remove_file(&new);
            return Err(refusal(format!("cannot write {}", path.display()))(error));
        }
        self.body_bytes.fetch_add(blocks::file_len(name.len), Ordering::Relaxed);
        Ok(())
    }

    /// Puts a small body into a file beside the large ones, for as long as a hold needs it. Not synced: a crash ends
    /// the hold.
    pub(super) fn spill_body(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), Error> {
        let path = self.body_path(job, name);
        fs::write(&path, bytes).map_err(refusal(format!("cannot write {}", path.display())))?;
        self.body_bytes.fetch_add(blocks::file_len(name.len), Ordering::Relaxed);
        Ok(())
    }

    /// What `spill_body` has kept.
    pub(super) fn read_spilled(
        &self,
        job: JobId,
        name: BodyRef,
        offset: u64,
        limit: usize,
    ) -> Result<Option<Bytes>, Error> {
        match fs::read(self.body_path(job, name)) {
            Ok(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let to = from.saturating_add(limit).min(bytes.len());
                Ok(Some(Bytes::from(bytes).slice(from..to)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refusal(format!("cannot read {}", file_name(job, name)))(error)),
        }
    }

    /// Removes the file of a large body that no record names. What cannot be removed now is swept at the next start.
    pub(super) fn remove_body_file(&self, job: JobId, name: BodyRef) {
        fault::point(Point::BodyRemoving);
        if fs::remove_file(self.body_path(job, name)).is_ok() {
            self.body_bytes.fetch_sub(blocks::file_len(name.len), Ordering::Relaxed);
        }
    }

    pub(super) fn read_body(
        &self,
        trees: &Trees,
        job: JobId,
        name: BodyRef,
        offset: u64,
        limit: usize,
    ) -> Result<Option<Bytes>, Error> {
        let offset = offset.min(name.len);
        let length = usize::try_from(name.len - offset).unwrap_or(usize::MAX).min(limit);
        if name.part == Part::Payload
            && name.len <= CARRIED_MAX as u64
            && let Some(carried) = self.read_carried(trees, job, name)?
        {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(carried.len());
            return Ok(Some(carried.slice(from..from + length)));
        }
        let found = if is_small(name) {
            let found = self.read_range(trees, job, name, offset, length)?;
            let shown = self.shown();
            match shown.body_before(job, name) {
                Some(before) => before.map(|bytes| {
                    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                    bytes.slice(from..from.saturating_add(length).min(bytes.len()))
                }),
                None => found,
            }
        } else {
            return self.read_body_file(trees, job, name, offset, length);
        };
        let found = match found {
            // What its record still names does not just go.
            None if self.is_named(trees, job, name)? => {
                let again = self.read_range(trees, job, name, offset, length)?;
                Some(again.ok_or_else(|| damaged(job, name, "it is missing"))?)
            }
            found => found,
        };
        match &found {
            Some(bytes) if bytes.len() != length => Err(damaged(job, name, "it is shorter than its record says")),
            Some(bytes) if offset == 0 && length as u64 == name.len && crc32fast::hash(bytes) != name.crc => {
                Err(damaged(job, name, "its checksum does not match"))
            }
            Some(_) | None => Ok(found),
        }
    }

    /// A payload that its job's record carries.
    fn read_carried(&self, trees: &Trees, job: JobId, name: BodyRef) -> Result<Option<Bytes>, Error> {
        let head = self.read_job(trees, job)?;
        Ok(head.filter(|head| head.job.spec.payload == name).and_then(|head| head.job.spec.carried().cloned()))
    }

    fn is_named(&self, trees: &Trees, job: JobId, name: BodyRef) -> Result<bool, Error> {
        let head = self.read_job(trees, job)?;
        Ok(head.is_some_and(|head| head.job.bodies().any(|named| named == name)))
    }

    /// A part of a large body. What is wrong with its file is no matter of the store: only its readers are the worse.
    fn read_body_file(
        &self,
        trees: &Trees,
        job: JobId,
        name: BodyRef,
        offset: u64,
        length: usize,
    ) -> Result<Option<Bytes>, Error> {
        let broken = |why: String| Error::Body { job, part: name.part, why };
        let file = match File::open(self.body_path(job, name)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return if self.is_named(trees, job, name)? {
                    Err(broken("its file is missing".into()))
                } else {
                    Ok(None)
                };
            }
            Err(error) => return Err(broken(format!("its file cannot be opened: {error}"))),
        };
        match blocks::read(&file, name, offset, length) {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(why)) => Err(broken(why)),
            Err(error) => Err(broken(format!("its file cannot be read: {error}"))),
        }
    }

    /// All of a small body.
    pub(super) fn read_pieces(&self, trees: &Trees, job: JobId, name: BodyRef) -> Result<Option<Bytes>, Error> {
        self.read_range(trees, job, name, 0, usize::try_from(name.len).unwrap_or(usize::MAX))
    }

    /// A part of a small body, from the pieces that it lies in.
    fn read_range(
        &self,
        trees: &Trees,
        job: JobId,
        name: BodyRef,
        offset: u64,
        length: usize,
    ) -> Result<Option<Bytes>, Error> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let (first, skip) = (offset / keys::PIECE, offset % keys::PIECE);
        let last = (offset + length).saturating_sub(1) / keys::PIECE;
        let mut bytes = BytesMut::with_capacity((last - first.min(last) + 1) * keys::PIECE);
        for number in first..=last.max(first) {
            self.count(1);
            let Some(piece) = trees.bodies.get(keys::piece(job, name, number)).map_err(failure)? else {
                // Right behind the last piece of a body that ends with a full one there is nothing to read.
                if number == first && length == 0 && number > 0 {
                    return Ok(Some(Bytes::new()));
                }
                return self.lost_piece(trees, job, name, number, first);
            };
            bytes.extend_from_slice(&piece);
        }
        let bytes = bytes.freeze();
        Ok(Some(bytes.slice(skip.min(bytes.len())..(skip + length).min(bytes.len()))))
    }

    /// A piece is not there: either the whole body has gone meanwhile, or it is damaged.
    fn lost_piece(
        &self,
        trees: &Trees,
        job: JobId,
        name: BodyRef,
        number: usize,
        first: usize,
    ) -> Result<Option<Bytes>, Error> {
        let other = if number == first { 0 } else { first };
        self.count(1);
        match trees.bodies.get(keys::piece(job, name, other)).map_err(failure)? {
            Some(_) if other != number => Err(damaged(job, name, &format!("piece {number} is missing"))),
            Some(_) | None => Ok(None),
        }
    }
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
