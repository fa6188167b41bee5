//! A small disk of the test's own: a tmpfs that is mounted for it and gone after it.
//!
//! In: a size. Out: a folder on it, and a ballast to fill it with. Where mounting is not permitted the test runs itself again in
//! a namespace of its own; where not even that is, it says so, and fails under `CI`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the namespace, so that it is tried once.
const INSIDE: &str = "LONGHAUL_TEST_NAMESPACE";

/// A mounted tmpfs; unmounted when dropped. Declare it before the server that uses it.
pub struct Disk {
    dir: tempfile::TempDir,
}

/// Runs a test on a disk of so many bytes. `name` is the test's path, such as `full::a_test`.
pub fn on_small_disk(name: &str, bytes: u64, test: impl FnOnce(&Disk)) {
    if let Some(disk) = Disk::mount(bytes) {
        test(&disk);
        return;
    }
    assert!(std::env::var_os(INSIDE).is_none(), "nothing can be mounted even in a namespace of our own");
    let mut again = Command::new("unshare");
    again.arg("-rm").arg(std::env::current_exe().expect("this program")).args([name, "--exact", "--nocapture"]);
    let is_permitted = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    if is_permitted {
        let status = again.env(INSIDE, "1").status().expect("it runs again");
        assert!(status.success(), "{name} failed in its namespace: {status}");
        return;
    }
    eprintln!("NOT RUN: {name}: neither mount nor unshare -rm is permitted here");
    assert!(std::env::var_os("CI").is_none(), "CI must be able to mount a tmpfs");
}

impl Disk {
    fn mount(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let size = format!("size={bytes}");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "longhaul-test"]).arg(dir.path()).output();
        status.is_ok_and(|output| output.status.success()).then_some(Self { dir })
    }

    /// A folder on it.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Bytes that are free.
    pub fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.path()).expect("the disk can be looked at");
        disk.f_bavail * disk.f_frsize
    }

    /// Fills it until at most so many bytes are free.
    pub fn fill_to(&self, free: u64) {
        let mut file = File::options().append(true).create(true).open(self.ballast()).expect("the ballast");
        let page = [0x55; 4096];
        while self.free() > free {
            if let Err(why) = file.write_all(&page) {
                assert_eq!(why.kind(), std::io::ErrorKind::StorageFull);
                return;
            }
        }
    }

    /// Removes what `fill_to` wrote.
    pub fn relieve(&self) {
        std::fs::remove_file(self.ballast()).expect("the ballast goes");
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: whatever still has a file open there keeps nothing of ours.
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}
