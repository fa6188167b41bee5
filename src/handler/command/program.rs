//! Whether a program can be found before any job asks for it.
//!
//! In: a tool's settings, and where programs are looked for. Out: what is missing, and what to do. Looks at files, starts nothing.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Settings;

/// Why these settings cannot be started, as far as files tell; `None` if nothing speaks against it. `path` is the server's `PATH`; without one,
/// a program by its bare name is not looked for.
pub fn missing(settings: &Settings, path: Option<&OsStr>) -> Option<String> {
    let directory = settings.cwd.as_deref();
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        return Some(format!(
            "there is no directory {}, in which it is to run: make it, or mend cwd",
            directory.display()
        ));
    }
    let program = settings.command.first()?;
    let path = settings.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, own)| OsStr::new(own)).or(path);
    if program.contains('/') {
        let file = beside(directory, Path::new(program));
        return refusal(&file).map(|why| format!("{} {why}", file.display()));
    }
    let found: Vec<PathBuf> =
        std::env::split_paths(path?).map(|folder| beside(directory, &folder).join(program)).collect();
    if found.iter().any(|file| refusal(file).is_none()) {
        return None;
    }
    Some(match found.iter().find(|file| file.is_file()) {
        Some(file) => format!("{} is not executable: chmod +x it", file.display()),
        None => format!("there is no program {program} in PATH: install it, or write where it is"),
    })
}

/// Where a path leads from the directory in which the program runs.
fn beside(directory: Option<&Path>, path: &Path) -> PathBuf {
    directory.map_or_else(|| path.to_owned(), |directory| directory.join(path))
}

/// Why a file cannot be run.
fn refusal(file: &Path) -> Option<&'static str> {
    match std::fs::metadata(file) {
        Err(_) => Some("is not there: install it, or write where it is"),
        Ok(found) if !found.is_file() => Some("is no file: write where the program is"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Some("is not executable: chmod +x it"),
        Ok(_) => None,
    }
}
