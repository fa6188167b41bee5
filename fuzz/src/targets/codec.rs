//! `codec`: stored records of every kind out of any bytes, as they stand and behind an envelope that is right.
//!
//! The first byte chooses the kind and, for a chunk, where it stands; the rest is the record, or its inside.

use longhaul::job::Position;
use longhaul::store::Error;
use longhaul::store::reread::{DECODED_MAX, ENVELOPE, Record};

use super::pieces::Pieces;

/// What reading `len` bytes and writing them again may hold at one time: the values in memory, and one length that was
/// only claimed.
const fn memory_max(len: usize) -> usize {
    4 * DECODED_MAX + 256 * len
}

/// Reads the bytes as a record.
///
/// # Panics
/// When what is read is not written as it was, or another version is not refused.
pub fn run(bytes: &[u8]) {
    run_measured(bytes, |read| {
        read();
        0
    });
}

/// The same; `most_held` runs what it is given and says how many bytes were held for it.
pub fn run_measured(bytes: &[u8], most_held: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let mut pieces = Pieces(bytes);
    let record = record(pieces.byte());
    let inside = pieces.0;
    assert!(record.reread(inside).is_err() || inside.first() == Some(&record.version()));
    others_are_refused(record, inside);
    let sealed = sealed(record.version(), inside);
    let mut read = None;
    let held = most_held(&mut || read = Some(reread(record, &sealed)));
    assert!(held <= memory_max(inside.len()), "{held} bytes were held for {} of a record", inside.len());
    let Some(Ok(written)) = read else { return };
    if written.is_empty() {
        return assert!(matches!(record, Record::Chunk(_)), "{record:?} is written as nothing");
    }
    // A number may be written longer than it must be; what is written here is written in one way only.
    assert_eq!(reread(record, &written).expect("what was written can be read"), written, "{record:?} of {inside:02x?}");
    assert_eq!(written[0], record.version());
    for cut in [1, ENVELOPE, written.len() / 2, written.len() - 1] {
        assert!(reread(record, &written[..cut]).is_err(), "{record:?} cut to {cut}");
    }
    let mut flipped = written.clone();
    let at = inside.len() % written.len();
    flipped[at] ^= 1 << (inside.len() % 8);
    assert!(reread(record, &flipped).is_err(), "{record:?} with a bit of byte {at} flipped");
}

fn record(byte: u8) -> Record {
    let first = Position([1, 0, 1_000, u64::MAX - 1, u64::MAX, 1 << 40, 7, 70_000][usize::from(byte / 8 % 8)]);
    let all = [Record::Head, Record::Chunk(first), Record::Row, Record::Key];
    let more = [Record::Block, Record::Epoch, Record::Standing, Record::Type];
    match ([all, more].concat()[usize::from(byte % 8)], byte / 8 % 8) {
        (Record::Head, 1) => Record::Asked,
        (Record::Head, 2) => Record::Carrying,
        (Record::Row, 1) => Record::Ends,
        (record, _) => record,
    }
}

fn reread(record: Record, bytes: &[u8]) -> Result<Vec<u8>, String> {
    match record.reread(bytes) {
        Ok(written) => Ok(written),
        Err(Error::Corrupt { at, why }) => {
            assert!(!at.is_empty() && !why.is_empty() && why.len() < 1_000);
            Err(why)
        }
        Err(other) => panic!("no damage: {other}"),
    }
}

/// A record of another kind or version says so, whatever is in it.
fn others_are_refused(record: Record, inside: &[u8]) {
    let own = record.version();
    for other in [own ^ 0x01, own.wrapping_add(0x10), 0, 0xff, own | 0x80] {
        let why = reread(record, &sealed(other, inside)).expect_err("another version");
        assert!(why.contains(&format!("{other:#04x}")) && why.contains(&format!("{own:#04x}")), "{why}");
    }
    assert!(reread(record, &[]).is_err());
}

/// Version byte, length, checksum, and then the inside: written down once more, so that it cannot change unseen.
fn sealed(version: u8, inside: &[u8]) -> Vec<u8> {
    let length = u32::try_from(inside.len()).expect("a short input");
    [&[version][..], &length.to_le_bytes(), &crc32(inside).to_le_bytes(), inside].concat()
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
