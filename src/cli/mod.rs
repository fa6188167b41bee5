//! Temporary.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]
pub mod parts;
pub mod serve;
pub mod exit {
    pub const DONE: u8 = 0;
    pub const FAILED: u8 = 1;
    pub const STORE_DAMAGED: u8 = 6;
    pub const SIGNALED: u8 = 128;
    pub fn of_store(error: &crate::store::Error) -> std::process::ExitCode {
        match error {
            crate::store::Error::Locked(_) => 7,
            crate::store::Error::Corrupt { .. } => 6,
            crate::store::Error::Unavailable(_) => 6u8,
        }
        .into()
    }
}
pub mod output {
    pub fn say(s: &str) {
        use std::io::Write;
        println!("{s}");
        let _ = std::io::stdout().flush();
    }
    pub fn complain(s: &str) {
        eprintln!("longhaul: {s}");
    }
}
