//! `backup` and `restore`: everything that a server keeps as one file, and back.
//!
//! In: a server, or a file that may be anything. Out: a file that is whole or not there; a store that is whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::output::Output;
use crate::store;
use crate::store::backup::{self, Unrestored};

/// Bytes that are passed on at once.
const PIECE: usize = 64 * 1024;

/// What `backup` is told.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// The file to write; - for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replaces a file that is there
    #[arg(long)]
    force: bool,
}

/// What `restore` is told.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// The backup; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The data directory to be; there must be no store in it
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// One JSON value instead of text for people
    #[arg(long)]
    json: bool,
}

/// Takes a backup of a running server. The file gets its name once it was read back and found whole.
///
/// # Errors
/// What the server refuses; `BrokeOff` if it does; `Usage` if the file cannot be written or is there already;
/// `DiskFull`.
pub fn backup(client: &Client, output: &Output, wish: &Wish) -> Result<Ending, Failure> {
    if wish.file == Path::new("-") {
        let mut body = client.body("/api/backup")?.into_reader();
        pass_on(client, &mut body, |bytes| output.bytes(bytes))?;
        return Ok(Ending::Done);
    }
    let file = &wish.file;
    if file.exists() && !wish.force {
        return Err(Failure::Usage(format!("{} is there already; --force replaces it", file.display())));
    }
    // Asked first: nothing is made for a server that says no.
    let mut body = client.body("/api/backup")?.into_reader();
    let part = Part(file.with_added_extension("part"));
    let unwritten = |why: std::io::Error| unwritten(&part.0, &why);
    let mut written = create(&part.0).map_err(unwritten)?;
    pass_on(client, &mut body, |bytes| written.write_all(bytes).map_err(unwritten))?;
    written.sync_all().map_err(unwritten)?;
    let bytes = written.metadata().map_err(unwritten)?.len();
    let (header, trailer) = backup::inspect(File::open(&part.0).map_err(unwritten)?)
        .map_err(|refusal| Failure::Refused(format!("what the server sent is not whole: {refusal}")))?;
    fs::rename(&part.0, file).map_err(unwritten)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritten)?;
    tell(output, &header, &trailer, file, bytes)?;
    Ok(Ending::Done)
}

/// A new file that nobody else reads: it holds every payload. One that an earlier backup has left goes, whoever may read that.
fn create(file: &Path) -> std::io::Result<File> {
    match fs::remove_file(file) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// A file that cannot be written, by remedy.
pub fn unwritten(file: &Path, why: &std::io::Error) -> Failure {
    let text = format!("cannot write {}: {why}", file.display());
    match why.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Failure::DiskFull(text),
        _ => Failure::Usage(text),
    }
}

fn tell(
    output: &Output,
    header: &backup::Header,
    trailer: &backup::Trailer,
    file: &Path,
    bytes: u64,
) -> Result<(), Failure> {
    let as_of = format!("{}-{}", header.epoch, header.position.0);
    let backup::Trailer { jobs, entries, bodies, .. } = trailer;
    if output.json {
        let file = file.to_string_lossy();
        return output.value(&json!({
            "file": file, "bytes": bytes, "asOf": as_of, "jobs": jobs, "entries": entries, "bodies": bodies,
        }));
    }
    let file = file.display();
    output.line(&format!("{file}: {jobs} jobs, {entries} entries, {bodies} bodies as of {as_of}, {bytes} bytes"))
}

/// Passes a body on as it comes.
fn pass_on(
    client: &Client,
    body: &mut impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    loop {
        match body.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&piece[..count])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(why) => return Err(client.broke_off(&why)),
        }
    }
}

/// A file that has not got its name yet; removed unless it got it.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename there is nothing of this name.
        let _ = fs::remove_file(&self.0);
    }
}

/// Restores a backup where no store is.
///
/// # Errors
/// `Damaged` with the line that is wrong; `Usage` if there is a store, or the file cannot be read; `Locked` while another
/// restore runs there; `DiskFull`.
pub fn restore(source: &Source) -> Result<Ending, Failure> {
    let Source { file, data_dir, json } = source;
    let name = file.display();
    let input: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(file).map_err(|why| Failure::Usage(format!("cannot open {name}: {why}")))?),
    };
    let restored = backup::restore(input, &data_dir.join("store")).map_err(|why| match why {
        Unrestored::Backup(refusal) => Failure::Damaged(format!("{name}, {refusal}\nNothing was restored.")),
        Unrestored::Taken(why) => Failure::Usage(why),
        Unrestored::Store(error) => of_store(&error),
    })?;
    let backup::Restored { header, trailer, epoch } = restored;
    let was = format!("{}-{}", header.epoch, header.position.0);
    let is = format!("{:08x}-{}", epoch.0, header.position.0);
    let backup::Trailer { jobs, entries, bodies, .. } = trailer;
    let output = Output::new(*json);
    if *json {
        output.value(&json!({ "asOf": was, "now": is, "jobs": jobs, "entries": entries, "bodies": bodies }))?;
    } else {
        let dir = data_dir.display();
        output.line(&format!("{dir}: {jobs} jobs, {entries} entries, {bodies} bodies; {was} is now {is}"))?;
    }
    Ok(Ending::Done)
}

/// The store in a data directory, for a command that makes none.
///
/// # Errors
/// `Usage` if there is none, or that cannot be seen.
pub fn store_in(data_dir: &Path) -> Result<PathBuf, Failure> {
    let dir = data_dir.join("store");
    match store::sled::is_absent(&dir).map_err(|error| of_store(&error))? {
        true => Err(Failure::Usage(format!("there is no store in {} (--data-dir)", data_dir.display()))),
        false => Ok(dir),
    }
}

/// A store that could not be used, by remedy.
pub fn of_store(error: &store::Error) -> Failure {
    match error {
        store::Error::Locked(_) => Failure::Locked(format!("{error}\nStop the server first.")),
        store::Error::Corrupt { .. } | store::Error::Body { .. } => Failure::Damaged(error.to_string()),
        store::Error::Full(_) => Failure::DiskFull(error.to_string()),
        store::Error::Unavailable(_) => Failure::Usage(error.to_string()),
    }
}
