//! Stands in front of libc (`LD_PRELOAD`) and notes, in order, what the process does to the files below one folder, and
//! how many bytes it gives to which peer.
//!
//! In: the environment, by the names in `record.rs`. Out: records in the log. Without the names it only passes
//! calls on. Does not see raw system calls: the test compares the log with the directory, and so would notice.
//! `sync_file_range` promises nothing, and is not noted.

#![allow(clippy::missing_safety_doc, reason = "each has the contract of the libc function of its name")]

mod journal;
mod real;
#[allow(dead_code, reason = "the test reads what is written here")]
mod record;

use std::ffi::{c_char, c_int, c_uint, c_void};

use journal::{Held, hold};
use real::{keeping_errno, real};
use record::{EVERYTHING, Record};

const AT_FDCWD: c_int = -100;

/// One piece of a gathered write.
#[repr(C)]
pub struct IoVec {
    base: *const c_void,
    len: usize,
}

unsafe fn opening(folder: c_int, path: *const c_char, flags: c_int, open: impl FnOnce() -> c_int) -> c_int {
    let Some(mut held) = hold() else { return open() };
    // SAFETY: the caller of libc vouches for the path.
    let Some(inside) = keeping_errno(|| unsafe { held.inside(folder, path) }) else {
        drop(held);
        return open();
    };
    let existed = held.length(&inside);
    let fd = open();
    if fd >= 0 {
        keeping_errno(|| held.opened(inside, flags, fd, existed));
    }
    fd
}

macro_rules! opens {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`. The mode is read even where the caller gave none: it is then ignored.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            let call = real!($text, fn(*const c_char, c_int, c_uint) -> c_int);
            // SAFETY: as called.
            unsafe { opening(AT_FDCWD, path, flags, || call(path, flags, mode)) }
        }
    )*};
}
opens! { open = c"open", open64 = c"open64", }

macro_rules! opens_at {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            let call = real!($text, fn(c_int, *const c_char, c_int, c_uint) -> c_int);
            // SAFETY: as called.
            unsafe { opening(folder, path, flags, || call(folder, path, flags, mode)) }
        }
    )*};
}
opens_at! { openat = c"openat", openat64 = c"openat64", }

/// Does a write under the lock and notes it. `pieces` are read only for files, and only what was written of them.
unsafe fn writing(fd: c_int, offset: Option<i64>, pieces: &[IoVec], write: impl FnOnce() -> isize) -> isize {
    let Some(mut held) = hold() else { return write() };
    let peer = held.peer(fd);
    let inode = if peer.is_some() { None } else { keeping_errno(|| held.inode(fd)) };
    if peer.is_none() && inode.is_none() {
        // Neither a file of ours nor a peer: it may block, and must not with the lock.
        drop(held);
        return write();
    }
    let done = write();
    let Ok(count @ 1..) = usize::try_from(done) else { return done };
    keeping_errno(|| match (peer, inode) {
        (Some(port), _) => held.note(&Record::Sent { port, bytes: count as u64 }),
        (None, Some(ino)) => {
            // SAFETY: the caller of libc vouches for the pieces.
            let data = unsafe { gather(pieces, count) };
            held.written(ino, fd, offset.and_then(|offset| u64::try_from(offset).ok()), data);
        }
        (None, None) => {}
    });
    done
}

/// The first bytes of the pieces.
unsafe fn gather(pieces: &[IoVec], count: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(count);
    for piece in pieces {
        let wanted = piece.len.min(count - data.len());
        if wanted > 0 {
            // SAFETY: the caller of libc vouches for the pieces.
            data.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.base.cast::<u8>(), wanted) });
        }
    }
    data
}

unsafe fn listed<'a>(pieces: *const IoVec, count: c_int) -> &'a [IoVec] {
    match usize::try_from(count) {
        // SAFETY: the caller of libc vouches for the pieces.
        Ok(count @ 1..) if !pieces.is_null() => unsafe { std::slice::from_raw_parts(pieces, count) },
        Ok(_) | Err(_) => &[],
    }
}

/// `write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: usize) -> isize {
    let call = real!(c"write", fn(c_int, *const c_void, usize) -> isize);
    // SAFETY: as called.
    unsafe { writing(fd, None, &[IoVec { base: data, len }], || call(fd, data, len)) }
}

/// `writev`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, pieces: *const IoVec, count: c_int) -> isize {
    let call = real!(c"writev", fn(c_int, *const IoVec, c_int) -> isize);
    // SAFETY: as called.
    unsafe { writing(fd, None, listed(pieces, count), || call(fd, pieces, count)) }
}

macro_rules! writes_at {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, data: *const c_void, len: usize, offset: i64) -> isize {
            let call = real!($text, fn(c_int, *const c_void, usize, i64) -> isize);
            // SAFETY: as called.
            unsafe { writing(fd, Some(offset), &[IoVec { base: data, len }], || call(fd, data, len, offset)) }
        }
    )*};
}
writes_at! { pwrite = c"pwrite", pwrite64 = c"pwrite64", }

macro_rules! gathers_at {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, pieces: *const IoVec, count: c_int, offset: i64) -> isize {
            let call = real!($text, fn(c_int, *const IoVec, c_int, i64) -> isize);
            // SAFETY: as called.
            unsafe { writing(fd, Some(offset), listed(pieces, count), || call(fd, pieces, count, offset)) }
        }
    )*};
}
gathers_at! { pwritev = c"pwritev", pwritev64 = c"pwritev64", }

/// `send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> isize {
    let call = real!(c"send", fn(c_int, *const c_void, usize, c_int) -> isize);
    // SAFETY: as called.
    unsafe { writing(fd, None, &[], || call(fd, data, len, flags)) }
}

/// `sendmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const c_void, flags: c_int) -> isize {
    let call = real!(c"sendmsg", fn(c_int, *const c_void, c_int) -> isize);
    // SAFETY: as called.
    unsafe { writing(fd, None, &[], || call(fd, message, flags)) }
}

/// `accept4`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, address: *mut c_void, len: *mut c_uint, flags: c_int) -> c_int {
    let call = real!(c"accept4", fn(c_int, *mut c_void, *mut c_uint, c_int) -> c_int);
    // SAFETY: as called.
    let accepted = unsafe { call(fd, address, len, flags) };
    if accepted >= 0
        && let Some(mut held) = hold()
    {
        keeping_errno(|| held.accepted(accepted));
    }
    accepted
}

/// `close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let call = real!(c"close", fn(c_int) -> c_int);
    if let Some(mut held) = hold() {
        held.closing(fd);
    }
    // SAFETY: as called.
    unsafe { call(fd) }
}

/// Does something to a watched file and notes it if it succeeded.
fn changing(fd: c_int, change: impl FnOnce() -> c_int, record: impl FnOnce(u64) -> Record) -> c_int {
    let Some(mut held) = hold() else { return change() };
    let inode = keeping_errno(|| held.inode(fd));
    let done = change();
    if let (0, Some(ino)) = (done, inode) {
        keeping_errno(|| held.note(&record(ino)));
    }
    done
}

macro_rules! resizes {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, len: i64) -> c_int {
            let call = real!($text, fn(c_int, i64) -> c_int);
            let record = |ino| Record::Resized { ino, len: u64::try_from(len).unwrap_or(0) };
            // SAFETY: as called.
            changing(fd, || unsafe { call(fd, len) }, record)
        }
    )*};
}
resizes! { ftruncate = c"ftruncate", ftruncate64 = c"ftruncate64", }

macro_rules! reserves {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: not understood.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, mode: c_int, offset: i64, len: i64) -> c_int {
            let call = real!($text, fn(c_int, c_int, i64, i64) -> c_int);
            let record = |ino| Record::Foreign(format!("{} of inode {ino}", stringify!($name)));
            // SAFETY: as called.
            changing(fd, || unsafe { call(fd, mode, offset, len) }, record)
        }
    )*};
}
reserves! { fallocate = c"fallocate", fallocate64 = c"fallocate64", }

/// `copy_file_range`: not understood.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    let call = real!(c"copy_file_range", fn(c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> isize);
    if let Some(mut held) = hold()
        && let Some(ino) = keeping_errno(|| held.inode(to))
    {
        held.note(&Record::Foreign(format!("copy_file_range to inode {ino}")));
    }
    // SAFETY: as called.
    unsafe { call(from, from_at, to, to_at, len, flags) }
}

/// Does something to a name below the watched folder and notes it if it succeeded.
unsafe fn naming(
    folder: c_int,
    path: *const c_char,
    change: impl FnOnce() -> c_int,
    note: impl FnOnce(&mut Held, std::path::PathBuf),
) -> c_int {
    let Some(mut held) = hold() else { return change() };
    // SAFETY: the caller of libc vouches for the path.
    let inside = keeping_errno(|| unsafe { held.inside(folder, path) });
    let done = change();
    if let (0, Some(path)) = (done, inside) {
        keeping_errno(|| note(&mut held, path));
    }
    done
}

fn removed(held: &mut Held, path: std::path::PathBuf) {
    held.note(&Record::Removed { path });
}

/// `unlink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    let call = real!(c"unlink", fn(*const c_char) -> c_int);
    // SAFETY: as called.
    unsafe { naming(AT_FDCWD, path, || call(path), removed) }
}

/// `unlinkat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    let call = real!(c"unlinkat", fn(c_int, *const c_char, c_int) -> c_int);
    // SAFETY: as called.
    unsafe { naming(folder, path, || call(folder, path, flags), removed) }
}

/// `rmdir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    let call = real!(c"rmdir", fn(*const c_char) -> c_int);
    // SAFETY: as called.
    unsafe { naming(AT_FDCWD, path, || call(path), removed) }
}

/// `mkdir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: c_uint) -> c_int {
    let call = real!(c"mkdir", fn(*const c_char, c_uint) -> c_int);
    // SAFETY: as called.
    unsafe { naming(AT_FDCWD, path, || call(path, mode), |held, path| held.made_folder(path)) }
}

/// `mkdirat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(folder: c_int, path: *const c_char, mode: c_uint) -> c_int {
    let call = real!(c"mkdirat", fn(c_int, *const c_char, c_uint) -> c_int);
    // SAFETY: as called.
    unsafe { naming(folder, path, || call(folder, path, mode), |held, path| held.made_folder(path)) }
}

/// `link`: not understood.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    let call = real!(c"link", fn(*const c_char, *const c_char) -> c_int);
    let note = |held: &mut Held, path: std::path::PathBuf| {
        held.note(&Record::Foreign(format!("link {}", path.display())));
    };
    // SAFETY: as called.
    unsafe { naming(AT_FDCWD, to, || call(from, to), note) }
}

/// `linkat`: not understood.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let call = real!(c"linkat", fn(c_int, *const c_char, c_int, *const c_char, c_int) -> c_int);
    let note = |held: &mut Held, path: std::path::PathBuf| {
        held.note(&Record::Foreign(format!("linkat {}", path.display())));
    };
    // SAFETY: as called.
    unsafe { naming(to_folder, to, || call(from_folder, from, to_folder, to, flags), note) }
}

unsafe fn renaming(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_uint,
    rename: impl FnOnce() -> c_int,
) -> c_int {
    let Some(mut held) = hold() else { return rename() };
    // SAFETY: the caller of libc vouches for the paths.
    let paths = keeping_errno(|| unsafe { (held.inside(from.0, from.1), held.inside(to.0, to.1)) });
    let done = rename();
    let record = match paths {
        (None, None) => return done,
        (Some(from), Some(to)) if flags == 0 => Record::Renamed { from, to },
        (from, to) => Record::Foreign(format!("rename {from:?} to {to:?} with flags {flags}")),
    };
    if done == 0 {
        keeping_errno(|| held.note(&record));
    }
    done
}

/// `rename`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let call = real!(c"rename", fn(*const c_char, *const c_char) -> c_int);
    // SAFETY: as called.
    unsafe { renaming((AT_FDCWD, from), (AT_FDCWD, to), 0, || call(from, to)) }
}

/// `renameat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(a: c_int, from: *const c_char, b: c_int, to: *const c_char) -> c_int {
    let call = real!(c"renameat", fn(c_int, *const c_char, c_int, *const c_char) -> c_int);
    // SAFETY: as called.
    unsafe { renaming((a, from), (b, to), 0, || call(a, from, b, to)) }
}

/// `renameat2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(a: c_int, from: *const c_char, b: c_int, to: *const c_char, flags: c_uint) -> c_int {
    let call = real!(c"renameat2", fn(c_int, *const c_char, c_int, *const c_char, c_uint) -> c_int);
    // SAFETY: as called.
    unsafe { renaming((a, from), (b, to), flags, || call(a, from, b, to, flags)) }
}

/// Notes a sync before and after; only what was done before it began is safe when it has ended.
fn syncing(inode: impl FnOnce(&Held) -> Option<u64>, sync: impl FnOnce() -> c_int) -> c_int {
    let token = hold().and_then(|mut held| {
        let ino = keeping_errno(|| inode(&held))?;
        Some(held.sync_begins(ino))
    });
    let done = sync();
    if let (0, Some(token)) = (done, token)
        && let Some(mut held) = hold()
    {
        keeping_errno(|| held.note(&Record::SyncEnded { token }));
    }
    done
}

macro_rules! syncs {
    ($($name:ident = $text:literal,)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int) -> c_int {
            let call = real!($text, fn(c_int) -> c_int);
            // SAFETY: as called.
            syncing(|held| held.inode(fd), || unsafe { call(fd) })
        }
    )*};
}
syncs! { fsync = c"fsync", fdatasync = c"fdatasync", }

/// `syncfs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncfs(fd: c_int) -> c_int {
    let call = real!(c"syncfs", fn(c_int) -> c_int);
    // SAFETY: as called.
    syncing(|held| held.inode(fd).map(|_| EVERYTHING), || unsafe { call(fd) })
}
