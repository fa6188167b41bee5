//! A look at the data file before sled opens it: sled goes on in silence behind what it cannot read there.
//!
//! In: the store's directory. Out: whether everything that sled is about to replay can be read. What it does not replay it
//! checks whenever it reads it. A torn end is not told here: a power cut leaves one, and `reached` knows better. Costs
//! what the replay costs: one pass over what was written since the last start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// sled's data file.
pub const DATA: &str = "db";
/// How sled divides it.
pub const SEGMENT: u64 = 512 * 1024;
/// A segment's own head: checksum, its place in the log, and how far that was stable by then.
const HEAD: usize = 20;
/// Room that sled leaves unused where a message would not fit.
const MESSAGE_HEAD_MAX: usize = 32;
/// What each number of a segment's head is turned over with.
const TURNED: i64 = i64::MAX;

/// sled's settings, as it wrote them, with their checksum behind them.
const SETTINGS: &str = "conf";

/// Whether sled's settings are as it wrote them, or so short that it makes them anew. It goes by damaged ones too.
pub fn has_sound_settings(dir: &Path) -> io::Result<bool> {
    let settings = match fs::read(dir.join(SETTINGS)) {
        Ok(settings) => settings,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let sum = settings.split_last_chunk().map(|(said, sum)| crc32fast::hash(said) == u32::from_le_bytes(*sum));
    Ok(settings.len() <= 8 || sum == Some(true))
}

/// Why what sled will make of the file cannot be taken for all that was in it; `None` if it can.
pub fn suspicion(dir: &Path) -> io::Result<Option<String>> {
    let file = File::open(dir.join(DATA))?;
    let segments = Segments::of(dir, &file)?;
    if let Some(at) = segments.damaged {
        return Ok(Some(format!("the segment at byte {at} of {DATA} has no sound head")));
    }
    for (place, at) in segments.replayed.range(..segments.tail) {
        if let Some(offset) = unreadable(&file, *at, *place)? {
            return Ok(Some(format!("what stands at byte {} of {DATA} cannot be read", at + offset)));
        }
    }
    Ok(None)
}

/// What the heads of all segments say.
pub struct Segments {
    /// The place that sled will replay from.
    pub from: u64,
    /// Those that sled will replay: where they stand in the file, by their place in the log.
    pub replayed: BTreeMap<u64, u64>,
    /// The place from which on an unreadable message is the end of the log, for sled and for us: none may be missing there.
    pub tail: u64,
    /// Where nothing stands.
    pub unused: Vec<u64>,
    /// Where the first stands that has no sound head.
    pub damaged: Option<u64>,
}

impl Segments {
    /// Of this data file in the store's directory.
    pub fn of(dir: &Path, file: &File) -> io::Result<Self> {
        let from = replayed_from(dir)? / SEGMENT * SEGMENT;
        let mut segments = Self { from, replayed: BTreeMap::new(), tail: 0, unused: Vec::new(), damaged: None };
        for at in (0..file.metadata()?.len()).step_by(usize::try_from(SEGMENT).unwrap_or(usize::MAX)) {
            match head(file, at)? {
                Head::Of { place, stable_to } if place >= from => {
                    segments.replayed.insert(place, at);
                    segments.tail = segments.tail.max(stable_to / SEGMENT * SEGMENT);
                }
                Head::Of { .. } => {}
                Head::Nothing => segments.unused.push(at),
                Head::Damaged => segments.damaged = segments.damaged.or(Some(at)),
            }
        }
        Ok(segments)
    }
}

/// Where the replay begins: sled's newest snapshot says it in its name.
fn replayed_from(dir: &Path) -> io::Result<u64> {
    let mut from = 0;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let stable = name.to_str().and_then(|name| name.strip_prefix("snap."));
        from = stable.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0).max(from);
    }
    Ok(from)
}

enum Head {
    /// A segment of the log.
    Of { place: u64, stable_to: u64 },
    /// An unused one.
    Nothing,
    /// Neither.
    Damaged,
}

fn head(file: &File, at: u64) -> io::Result<Head> {
    let mut bytes = [0; 2 * 512];
    let count = read_up_to(file, &mut bytes, at)?;
    let (Some(bytes), Some(head)) = (bytes.get(..count), bytes.get(..count).and_then(|bytes| bytes.get(..HEAD))) else {
        return Ok(Head::Nothing);
    };
    let number = |from: usize| head[from..from + 8].try_into().map(i64::from_le_bytes).unwrap_or_default() ^ TURNED;
    let checksum = !u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    // In a new file nothing is stable yet, which is -1.
    Ok(match (u64::try_from(number(4)), u64::try_from(number(12).max(0))) {
        (Ok(place), Ok(stable_to)) if checksum == crc32fast::hash(&head[4..]) => Head::Of { place, stable_to },
        _ if bytes.iter().all(|byte| *byte == 0) => Head::Nothing,
        _ => Head::Damaged,
    })
}

/// An empty segment of this place, to be written where nothing stands: its head, and the message that ends it.
pub fn empty(place: u64) -> Vec<u8> {
    let turned = |number: i64| (number ^ TURNED).to_le_bytes();
    // It says nothing of how far the log was stable.
    let said = [turned(place.cast_signed()), turned(0)].concat();
    let mut head = vec![CAP, 0];
    put_varint(place / SEGMENT, &mut head);
    // Of no page.
    put_varint(u64::MAX, &mut head);
    let (said_sum, sum) = (!crc32fast::hash(&said), !crc32fast::hash(&head));
    [&said_sum.to_le_bytes()[..], &said, &sum.to_le_bytes(), &head].concat()
}

/// Where in the segment of that place, which begins there, the first message stands that cannot be read.
pub fn unreadable(file: &File, at: u64, place: u64) -> io::Result<Option<u64>> {
    let number = place / SEGMENT;
    let mut segment = vec![0; usize::try_from(SEGMENT).unwrap_or(usize::MAX)];
    let count = read_up_to(file, &mut segment, at)?;
    let mut from = HEAD;
    while from + MESSAGE_HEAD_MAX <= segment.len() {
        match message(&segment[..count], from, number) {
            Some(Message::To(next)) => from = next,
            Some(Message::Last) => return Ok(None),
            None => return Ok(Some(from as u64)),
        }
    }
    Ok(None)
}

enum Message {
    /// The next one begins here.
    To(usize),
    /// Nothing follows in this segment.
    Last,
}

/// The kind of a message that ends its segment.
const CAP: u8 = 2;
/// The kinds there are, from 1 to this.
const KIND_MAX: u8 = 11;

fn message(segment: &[u8], from: usize, number: u64) -> Option<Message> {
    let mut rest = segment.get(from..)?;
    let checksum = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let kind = *take(&mut rest, 1)?.first()?;
    let length = usize::try_from(varint(&mut rest)?).ok()?;
    let of_segment = varint(&mut rest)?;
    let _page = varint(&mut rest)?;
    let head = &segment[from + 4..segment.len() - rest.len()];
    let inside = take(&mut rest, length)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(inside);
    hasher.update(head);
    let is_sound = (1..=KIND_MAX).contains(&kind) && of_segment == number && !hasher.finalize() == checksum;
    let next = if kind == CAP { Message::Last } else { Message::To(segment.len() - rest.len()) };
    is_sound.then_some(next)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// A number as sled writes it.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let first = *take(rest, 1)?.first()?;
    Some(match first {
        0..=240 => first.into(),
        241..=248 => 240 + 256 * (u64::from(first) - 241) + u64::from(*take(rest, 1)?.first()?),
        249 => {
            let two = take(rest, 2)?;
            2_288 + 256 * u64::from(two[0]) + u64::from(two[1])
        }
        250..=255 => {
            let bytes = take(rest, usize::from(first - 247))?;
            bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        }
    })
}

/// Appends a number as sled writes it: the short form or the long one.
fn put_varint(number: u64, to: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(short @ 0..=240) => to.push(short),
        Ok(_) | Err(_) => {
            to.push(255);
            to.extend_from_slice(&number.to_le_bytes());
        }
    }
}

fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < into.len() {
        match file.read_at(&mut into[count..], at + count as u64) {
            Ok(0) => break,
            Ok(n) => count += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
