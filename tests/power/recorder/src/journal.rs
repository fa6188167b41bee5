//! What the recorder knows: the watched folder, the log, which inodes lie below and which descriptors lead to peers.
//!
//! In: operations that were or will be done under its lock. Out: records. One lock per process, and the log's own lock
//! around each operation and its record: whoever holds that (the test does, to kill the process) knows that no operation is
//! half noted. A sync is noted twice, before and after, and done without the lock.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::{self, File};
use std::io::Seek;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::real::{keeping_errno, real};
use crate::record::{LAST, LAST_SYNC, LOG, ROOT, Record};

const AT_FDCWD: c_int = -100;
const O_CREAT: c_int = 0o100;
const O_TRUNC: c_int = 0o1000;
const O_WRONLY: c_int = 0o1;
const O_APPEND: c_int = 0o2000;
const O_CLOEXEC: c_int = 0o2_000_000;

/// The state of the recorder in this process.
pub struct Journal {
    root: PathBuf,
    log: ManuallyDrop<File>,
    tracked: HashSet<(u64, u64)>,
    peers: HashMap<c_int, u16>,
    syncs: u64,
    /// How many records are left until the process dies; 0: no end is set.
    left: u64,
    /// The number of the sync that is never done; 0: all are.
    last_sync: u64,
}

/// The journal under its lock and that of the log.
pub struct Held {
    journal: MutexGuard<'static, Journal>,
}

impl Drop for Held {
    fn drop(&mut self) {
        keeping_errno(|| drop(self.log.unlock()));
    }
}

impl std::ops::Deref for Held {
    type Target = Journal;
    fn deref(&self) -> &Journal {
        &self.journal
    }
}

impl std::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

/// The journal, if this process is to be recorded.
fn journal() -> Option<&'static Mutex<Journal>> {
    static JOURNAL: OnceLock<Option<Mutex<Journal>>> = OnceLock::new();
    JOURNAL.get_or_init(|| keeping_errno(|| Journal::start().map(Mutex::new))).as_ref()
}

/// Takes the journal, if this process is to be recorded.
pub fn hold() -> Option<Held> {
    let journal = journal()?.lock().unwrap_or_else(PoisonError::into_inner);
    keeping_errno(|| journal.log.lock()).ok()?;
    Some(Held { journal })
}

/// The descriptor as a file that is not closed here.
fn borrowed(fd: c_int) -> ManuallyDrop<File> {
    // SAFETY: the caller of libc vouches for the descriptor, and it is not closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
}

impl Journal {
    fn start() -> Option<Self> {
        let root = PathBuf::from(std::env::var_os(ROOT)?);
        let log = CString::new(std::env::var_os(LOG)?.as_bytes()).ok()?;
        let open = real!(c"open", fn(*const c_char, c_int, c_int) -> c_int);
        // SAFETY: the path ends with a NUL.
        let fd = unsafe { open(log.as_ptr(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644) };
        if fd < 0 {
            return None;
        }
        let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(0);
        Some(Self {
            root,
            log: borrowed(fd),
            tracked: HashSet::new(),
            peers: HashMap::new(),
            syncs: 0,
            left: number(LAST),
            last_sync: number(LAST_SYNC),
        })
    }

    /// Appends a record. A log that cannot be written makes every proof worthless: the process ends.
    pub fn note(&mut self, record: &Record) {
        let bytes = record.encode();
        let write = real!(c"write", fn(c_int, *const c_void, usize) -> isize);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // SAFETY: the buffer is ours and that long.
            let done = unsafe { write(self.log.as_raw_fd(), rest.as_ptr().cast(), rest.len()) };
            let Ok(done @ 1..) = usize::try_from(done) else { std::process::abort() };
            rest = &rest[done..];
        }
        if self.left == 1 {
            std::process::abort();
        }
        self.left = self.left.saturating_sub(1);
    }

    /// The path below the watched folder that a call means; `None` for any other.
    ///
    /// # Safety
    /// `path` ends with a NUL.
    pub unsafe fn inside(&self, folder: c_int, path: *const c_char) -> Option<PathBuf> {
        if path.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let whole = match (path.is_absolute(), folder) {
            (true, _) => path.to_owned(),
            (false, AT_FDCWD) => std::env::current_dir().ok()?.join(path),
            (false, _) => fs::read_link(format!("/proc/self/fd/{folder}")).ok()?.join(path),
        };
        Some(whole.strip_prefix(&self.root).ok()?.to_owned())
    }

    /// The inode that a descriptor leads to, if it lies below the watched folder.
    pub fn inode(&self, fd: c_int) -> Option<u64> {
        let data = borrowed(fd).metadata().ok()?;
        self.tracked.contains(&(data.dev(), data.ino())).then(|| data.ino())
    }

    /// Notes what opening this path did. `existed` is its length before.
    pub fn opened(&mut self, path: PathBuf, flags: c_int, fd: c_int, existed: Option<u64>) {
        let Ok(data) = borrowed(fd).metadata() else { return };
        self.tracked.insert((data.dev(), data.ino()));
        self.peers.remove(&fd);
        let ino = data.ino();
        match existed {
            None if flags & O_CREAT != 0 => self.note(&Record::Created { ino, path, is_folder: false }),
            Some(1..) if flags & O_TRUNC != 0 => self.note(&Record::Resized { ino, len: 0 }),
            None | Some(_) => {}
        }
    }

    /// The length of what has this name.
    pub fn length(&self, path: &Path) -> Option<u64> {
        fs::symlink_metadata(self.root.join(path)).ok().map(|data| data.len())
    }

    /// Notes a folder that was just made.
    pub fn made_folder(&mut self, path: PathBuf) {
        let Ok(data) = fs::symlink_metadata(self.root.join(&path)) else { return };
        self.tracked.insert((data.dev(), data.ino()));
        self.note(&Record::Created { ino: data.ino(), path, is_folder: true });
    }

    /// Notes bytes that were just written: at an offset, or where the file's own position was.
    pub fn written(&mut self, ino: u64, fd: c_int, offset: Option<u64>, data: Vec<u8>) {
        let end = || borrowed(fd).stream_position().unwrap_or(0);
        let offset = offset.unwrap_or_else(|| end().saturating_sub(data.len() as u64));
        self.note(&Record::Written { ino, offset, data });
    }

    /// Remembers who is at the other end of a new connection.
    pub fn accepted(&mut self, fd: c_int) {
        // SAFETY: accept has just returned it, and it is not closed here.
        let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
        if let Ok(peer) = socket.peer_addr() {
            self.peers.insert(fd, peer.port());
        }
    }

    /// The port at the other end.
    pub fn peer(&self, fd: c_int) -> Option<u16> {
        self.peers.get(&fd).copied()
    }

    /// The descriptor is about to be closed.
    pub fn closing(&mut self, fd: c_int) {
        self.peers.remove(&fd);
    }

    /// Notes that a sync begins; its token.
    pub fn sync_begins(&mut self, ino: u64) -> u64 {
        self.syncs += 1;
        let token = (u64::from(std::process::id()) << 32) | self.syncs;
        self.note(&Record::SyncBegan { ino, token });
        if self.syncs == self.last_sync {
            std::process::abort();
        }
        token
    }
}
