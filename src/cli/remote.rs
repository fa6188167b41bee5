//! Which server a client command asks, and as whom.
//!
//! In: a flag, the environment, and what a server of this directory has written down. Out: a client. Of the configuration it takes where the server
//! is and nothing else: a token comes from LONGHAUL_TOKEN alone.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::client::{Client, SERVER};
use super::failure::Failure;
use super::output::Output;
use super::settings::Settings;
use super::stdio::place;
use crate::config;

/// How long a server that was written down may take to be there; then it counts as gone.
const LOOK: Duration = Duration::from_secs(1);

/// What every client command takes.
#[derive(clap::Args)]
pub struct Remote {
    /// The server to ask [default: that of ./longhaul.toml or ./data, else http://127.0.0.1:7450]; LONGHAUL_TOKEN holds the token, if it needs one
    #[arg(long, env = "LONGHAUL_SERVER", value_name = "URL")]
    server: Option<String>,
    /// One JSON value per line instead of text for people
    #[arg(long)]
    json: bool,
}

impl Remote {
    /// The server that is meant. Connects to nothing that is not on this machine.
    ///
    /// # Errors
    /// `Usage` if what was named is no URL.
    pub fn connect(&self) -> Result<(Client, Output), Failure> {
        let token = std::env::var("LONGHAUL_TOKEN").ok().filter(|token| !token.is_empty());
        let output = Output::new(self.json);
        let client = match self.server.as_deref().filter(|server| !server.is_empty()) {
            Some(server) => Client::new(server, token)?,
            None => {
                let Found { url, said_by } = find(&output);
                Client::new(&url, token)?.known_from(said_by)
            }
        };
        Ok((client, output))
    }
}

/// A server that nobody has named.
struct Found {
    url: String,
    /// Who says so; nobody, if it is the default.
    said_by: Option<String>,
}

/// The server of this directory: where it says that it is, or where it is told to be.
fn find(output: &Output) -> Found {
    let whereabouts = Settings::default().written().map_err(|complaint| vec![complaint]);
    let whereabouts = whereabouts.and_then(|written| {
        let file = written.file.as_ref().map(|file| file.name.clone());
        config::whereabouts(&written).map(|(data_dir, listen)| (data_dir, listen, file))
    });
    let (data_dir, listen, file) = match whereabouts {
        Ok(whereabouts) => whereabouts,
        Err(complaints) => {
            complaints.iter().for_each(|complaint| output.note(&format!("not asked where the server is: {complaint}")));
            return Found { url: SERVER.to_owned(), said_by: None };
        }
    };
    let lives = |url: &str| {
        let address = url.strip_prefix("http://").and_then(|address| address.parse::<SocketAddr>().ok());
        address.is_some_and(|address| TcpStream::connect_timeout(&address, LOOK).is_ok())
    };
    // One that was killed has left its address behind.
    if let Some(written) = place::written(&data_dir).filter(|written| lives(&written.url)) {
        return Found { url: written.url, said_by: Some(data_dir.join(place::FILE).display().to_string()) };
    }
    match place::here(listen) {
        Some(address) => Found { url: format!("http://{address}"), said_by: file },
        None => Found { url: SERVER.to_owned(), said_by: None },
    }
}
