//! Room for the log, taken before it is needed: sled must never meet a full disk.
//!
//! In: the data file. Out: whether one more commit surely fits. Blocks beyond the file's end are asked of the system while it
//! still has some; the file's length does not change, so sled knows nothing of them. sled itself, once refused a write,
//! writes nothing more until it is opened again.

use std::fs::File;
use std::path::Path;

use super::super::Error;
use super::{files, refusal};

/// More than one commit of the core, or one `forget`, ever adds to the file: see the test.
pub const COMMIT_MAX: u64 = 8 * 1024 * 1024;
/// What is asked for at once, so that it is not asked for every time.
#[cfg(target_os = "linux")]
const AHEAD: u64 = 12 * 1024 * 1024;

/// Whether the file can grow by `COMMIT_MAX` whatever others write to the disk.
#[cfg(target_os = "linux")]
pub fn is_there(file: &File, dir: &Path) -> Result<bool, Error> {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let data = file.metadata().map_err(refusal("cannot look at the data file"))?;
    // What stat counts as a block, whatever the file system's are.
    const BLOCK: u64 = 512;
    if (data.blocks() * BLOCK).saturating_sub(data.len()) >= COMMIT_MAX {
        return Ok(true);
    }
    for ahead in [AHEAD, COMMIT_MAX] {
        match fallocate(file, FallocateFlags::KEEP_SIZE, data.len(), ahead) {
            Ok(()) => return Ok(true),
            Err(Errno::NOSPC | Errno::DQUOT) => {}
            // A file system that cannot promise: what is free now has to do.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return is_free(dir),
            Err(error) => return Err(refusal("cannot take room for the log")(error.into())),
        }
    }
    Ok(false)
}

/// Whether the disk has that much at this moment.
#[cfg(not(target_os = "linux"))]
pub fn is_there(_: &File, dir: &Path) -> Result<bool, Error> {
    is_free(dir)
}

fn is_free(dir: &Path) -> Result<bool, Error> {
    Ok(files::health(dir, 0)?.disk_free >= COMMIT_MAX)
}
