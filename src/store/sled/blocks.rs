//! The file of a large body: its bytes, and behind them a checksum for each block, so that a part can be trusted without
//! reading the whole.
//!
//! In: a body and its name. Out: the file's bytes; or a range of the body, checked, or what is wrong with the file. Each
//! checksum is begun with the name's own, so that another body's file passes for none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{Bytes, BytesMut};

use crate::job::BodyRef;

/// Bytes that share a checksum.
const BLOCK: usize = 64 * 1024;
/// Bytes of a checksum.
const SUM: usize = 4;

/// How long the file of a body is.
pub const fn file_len(len: u64) -> u64 {
    len.saturating_add(len.div_ceil(BLOCK as u64).saturating_mul(SUM as u64))
}

/// What stands behind the bytes of a body.
pub fn sums(name: BodyRef, bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(BLOCK).zip(0..).flat_map(|(block, number)| sum(name, number, block).to_le_bytes()).collect()
}

/// Appends them to a file that holds the bytes of the body and nothing else.
///
/// # Errors
/// What the system says.
pub fn append_sums(file: &mut File, name: BodyRef) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut all = Vec::new();
    for (number, at) in (0..).zip((0..name.len).step_by(BLOCK)) {
        let length = usize::try_from(name.len - at).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact_at(&mut block[..length], at)?;
        all.extend_from_slice(&sum(name, number, &block[..length]).to_le_bytes());
    }
    file.write_all_at(&all, name.len)
}

fn sum(name: BodyRef, number: u64, block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(name.crc);
    hasher.update(&number.to_le_bytes());
    hasher.update(block);
    hasher.finalize()
}

/// Bytes `offset..offset + length` of the body, or what is wrong with the file.
///
/// # Errors
/// What the system says.
pub fn read(file: &File, name: BodyRef, offset: u64, length: usize) -> io::Result<Result<Bytes, String>> {
    let (found_len, file_len) = (file.metadata()?.len(), file_len(name.len));
    if found_len != file_len {
        return Ok(Err(format!("its file has {found_len} bytes instead of {file_len}")));
    }
    let (size, end) = (BLOCK as u64, offset + length as u64);
    let (first, last) = (offset / size, end.div_ceil(size));
    let mut found = BytesMut::with_capacity(length);
    let mut block = vec![0; BLOCK];
    for number in first..last {
        let from = number * size;
        let count = usize::try_from((name.len - from).min(size)).unwrap_or(BLOCK);
        file.read_exact_at(&mut block[..count], from)?;
        let mut stored = [0; SUM];
        file.read_exact_at(&mut stored, name.len + number * SUM as u64)?;
        if u32::from_le_bytes(stored) != sum(name, number, &block[..count]) {
            return Ok(Err(format!("its checksum does not match at byte {from}")));
        }
        let within = |at: u64| usize::try_from(at.saturating_sub(from)).unwrap_or(count).min(count);
        found.extend_from_slice(&block[within(offset)..within(end)]);
    }
    Ok(Ok(found.freeze()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::Part;

    fn written(bytes: &[u8], name: BodyRef) -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("body");
        fs::write(&path, [bytes, &sums(name, bytes)].concat()).expect("written");
        let file = File::options().read(true).write(true).open(&path).expect("there");
        (dir, file)
    }

    #[test]
    fn every_range_is_what_was_written() {
        for len in [BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK + 7] {
            let bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let name = BodyRef::of(Part::Result, 1, &bytes);
            let (_dir, file) = written(&bytes, name);
            let edges = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, len - 1, len];
            for from in edges {
                for to in edges.into_iter().filter(|to| *to >= from) {
                    let found = read(&file, name, from as u64, to - from).expect("read").expect("sound");
                    assert_eq!(found, bytes[from..to], "{from}..{to} of {len}");
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed_in_its_block_and_harms_no_other() {
        let bytes = vec![7; 3 * BLOCK + 7];
        let name = BodyRef::of(Part::Result, 1, &bytes);
        let (_dir, file) = written(&bytes, name);
        file.write_all_at(&[6], BLOCK as u64 + 5).expect("damaged");
        let sound = |from: usize, to: usize| read(&file, name, from as u64, to - from).expect("read").is_ok();
        assert!(sound(0, BLOCK) && sound(2 * BLOCK, bytes.len()));
        assert!(!sound(0, BLOCK + 1) && !sound(2 * BLOCK - 1, 2 * BLOCK) && !sound(0, bytes.len()));
        file.write_all_at(&[9], bytes.len() as u64 + 3 * SUM as u64).expect("damaged");
        assert!(!sound(3 * BLOCK, bytes.len()), "a checksum");
        file.set_len(bytes.len() as u64).expect("cut");
        assert!(!sound(0, 1), "cut");
    }

    #[test]
    fn another_body_of_the_same_length_is_noticed_at_any_range() {
        let (one, other) = (vec![1; BLOCK + 1], vec![2; BLOCK + 1]);
        let (_dir, file) = written(&other, BodyRef::of(Part::Result, 1, &other));
        assert!(read(&file, BodyRef::of(Part::Result, 1, &one), 0, 1).expect("read").is_err());
    }
}
