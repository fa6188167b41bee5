//! What is noted: one record per operation, in the order in which they took effect.
//!
//! In: records. Out: bytes, and records again. Shared by the recorder, which writes them, and by the test, which reads them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The environment variable with the folder that is watched.
pub const ROOT: &str = "POWER_RECORDER_ROOT";
/// The environment variable with the file that records are appended to.
pub const LOG: &str = "POWER_RECORDER_LOG";
/// The environment variable with the number of the record after which the process dies; without it it lives.
pub const LAST: &str = "POWER_RECORDER_LAST";
/// The environment variable with the number of the sync before which the process dies; without it it lives.
pub const LAST_SYNC: &str = "POWER_RECORDER_LAST_SYNC";
/// The inode that stands for all of them: `sync`, `syncfs`.
pub const EVERYTHING: u64 = 0;

/// One operation. Paths are relative to the watched folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A file or folder has been made.
    Created {
        /// The new inode.
        ino: u64,
        /// Its name.
        path: PathBuf,
        /// Whether it is a folder.
        is_folder: bool,
    },
    /// Bytes have been written.
    Written {
        /// The file.
        ino: u64,
        /// Where the first byte went.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A file has been cut or extended with zeros.
    Resized {
        /// The file.
        ino: u64,
        /// Its new length.
        len: u64,
    },
    /// A name has become another, and replaced what had it.
    Renamed {
        /// The old name.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A name of a file or an empty folder has gone.
    Removed {
        /// The name.
        path: PathBuf,
    },
    /// `fsync` or `fdatasync` has been called; what was done before is safe once it has ended.
    SyncBegan {
        /// The file or folder, or `EVERYTHING`.
        ino: u64,
        /// Tells this call from others under way.
        token: u64,
    },
    /// That call has returned without an error.
    SyncEnded {
        /// The call.
        token: u64,
    },
    /// Bytes have been given to a peer.
    Sent {
        /// The peer's port.
        port: u16,
        /// How many bytes.
        bytes: u64,
    },
    /// Whatever the driver of the test wants to find again.
    Mark(String),
    /// Something was done below the folder that is not understood: the record is worthless.
    Foreign(String),
}

impl Record {
    /// Its bytes: a length, a kind, the fields.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let text = |out: &mut Vec<u8>, kind: u8, bytes: &[u8]| {
            out.push(kind);
            put_bytes(out, bytes);
        };
        match self {
            Self::Created { ino, path, is_folder } => {
                out.push(1);
                out.extend(ino.to_le_bytes());
                put_bytes(&mut out, path.as_os_str().as_bytes());
                out.push(u8::from(*is_folder));
            }
            Self::Written { ino, offset, data } => {
                out.push(2);
                out.extend(ino.to_le_bytes());
                out.extend(offset.to_le_bytes());
                put_bytes(&mut out, data);
            }
            Self::Resized { ino, len } => put_pair(&mut out, 3, *ino, *len),
            Self::Renamed { from, to } => {
                text(&mut out, 4, from.as_os_str().as_bytes());
                put_bytes(&mut out, to.as_os_str().as_bytes());
            }
            Self::Removed { path } => text(&mut out, 5, path.as_os_str().as_bytes()),
            Self::SyncBegan { ino, token } => put_pair(&mut out, 6, *ino, *token),
            Self::SyncEnded { token } => put_pair(&mut out, 7, *token, 0),
            Self::Sent { port, bytes } => put_pair(&mut out, 8, u64::from(*port), *bytes),
            Self::Mark(mark) => text(&mut out, 9, mark.as_bytes()),
            Self::Foreign(what) => text(&mut out, 10, what.as_bytes()),
        }
        let length = u32::try_from(out.len() - 4).expect("a record is small");
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// The records in these bytes; `None` if they are not whole records.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let mut rest = Bytes(bytes);
        let mut records = Vec::new();
        while !rest.0.is_empty() {
            let mut one = Bytes(rest.bytes()?);
            records.push(Self::decode(&mut one)?);
            if !one.0.is_empty() {
                return None;
            }
        }
        Some(records)
    }

    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(match bytes.take(1)?[0] {
            1 => Self::Created { ino: bytes.number()?, path: bytes.path()?, is_folder: bytes.take(1)?[0] == 1 },
            2 => Self::Written { ino: bytes.number()?, offset: bytes.number()?, data: bytes.bytes()?.to_vec() },
            3 => Self::Resized { ino: bytes.number()?, len: bytes.number()? },
            4 => Self::Renamed { from: bytes.path()?, to: bytes.path()? },
            5 => Self::Removed { path: bytes.path()? },
            6 => Self::SyncBegan { ino: bytes.number()?, token: bytes.number()? },
            7 => Self::SyncEnded { token: (bytes.number()?, bytes.number()?).0 },
            8 => Self::Sent { port: u16::try_from(bytes.number()?).ok()?, bytes: bytes.number()? },
            9 => Self::Mark(bytes.text()?),
            10 => Self::Foreign(bytes.text()?),
            _ => return None,
        })
    }
}

fn put_pair(out: &mut Vec<u8>, kind: u8, one: u64, other: u64) {
    out.push(kind);
    out.extend(one.to_le_bytes());
    out.extend(other.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("a write is small").to_le_bytes());
    out.extend(bytes);
}

/// What is left to decode.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}
