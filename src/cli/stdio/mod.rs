//! `longhaul mcp --stdio`: MCP for clients that start their servers and speak with them on stdin and stdout.
//!
//! In: lines of JSON-RPC. Out: the same. Joins the server that is named, or that runs on the data directory; if there is none, it serves itself, for
//! others as well, for as long as its client listens. Jobs go on with the next server on the same directory. Nothing else is written to stdout.

mod bridge;
mod exchange;
mod message;
pub mod place;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::exit;
use super::failure::Failure;
use super::serve::{self, Host};
use super::settings::Settings;
use crate::config::Config;
use bridge::Bridge;
use place::{Place, Written};

/// Longest line that a client may send, in bytes. A longer one is answered by an error and passed over.
pub const LINE_MAX: u64 = 16 << 20;
/// Lines that wait on their way in or out; then whoever writes them waits.
const LINES_MAX: usize = 64;
/// Pause before the server of another process, which is about to serve or to end, is looked for again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a server that runs for itself, and that was joined, may be away before this process serves in its place.
pub const RETURN_MAX: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(clap::Args)]
pub struct Wish {
    /// Speak on stdin and stdout, which is all that there is
    #[arg(long, required = true)]
    stdio: bool,
    /// The server to join, instead of the one on the data directory; LONGHAUL_TOKEN holds the token, if it needs one
    #[arg(long, env = "LONGHAUL_SERVER", value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

/// Speaks until stdin ends. Blocks; ends the process itself if it has served.
///
/// # Errors
/// `Usage` for settings that cannot be, `Refused` if this machine has no room for threads.
pub fn run(wish: &Wish) -> Result<ExitCode, Failure> {
    let named = wish.server.as_ref().map(|url| url.trim_end_matches('/').to_owned());
    let settings = named.is_none().then_some(&wish.settings);
    let config = settings.map(Settings::read).transpose()?;
    let place = Place::new(named);
    let over = Arc::<Notify>::default();
    let (carrier, is_over) = (carry(place.clone())?, over.clone());
    let watch = thread::spawn(move || {
        // A panic there is an end as well.
        let _ = carrier.join();
        is_over.notify_one();
    });
    let (Some(config), Some(settings)) = (config, settings) else {
        let _ = watch.join();
        return Ok(exit::DONE.into());
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|why| no_room(&why))?;
    keep((settings, &config), &place, &over, &runtime)
}

/// Sees to it that there is a server, until the client has gone.
fn keep(
    (settings, config): (&Settings, &Config),
    place: &Place,
    over: &Arc<Notify>,
    runtime: &tokio::runtime::Runtime,
) -> Result<ExitCode, Failure> {
    let mut away_since: Option<Instant> = None;
    loop {
        let server = place::written(&config.data_dir).filter(|server| answers(&server.url));
        let is_over = match server {
            Some(Written { url, stays }) => {
                place.set(url);
                let is_over = runtime.block_on(async {
                    tokio::select! {
                        () = over.notified() => true,
                        () = place.missed() => false,
                    }
                });
                away_since = stays.then(Instant::now);
                is_over
            }
            None if away_since.is_some_and(|since| since.elapsed() < RETURN_MAX) => wait(runtime, over),
            None => {
                let mut hosting = Hosting { settings, place: place.clone(), over: over.clone() };
                if let Some(code) = serve::host(&free_port(config), &mut hosting) {
                    return Ok(code);
                }
                // Another process holds the store, and has not said yet where it serves.
                wait(runtime, over)
            }
        };
        if is_over {
            return Ok(exit::DONE.into());
        }
    }
}

/// Waits a moment; whether the client has gone meanwhile.
fn wait(runtime: &tokio::runtime::Runtime, over: &Notify) -> bool {
    runtime.block_on(async { tokio::time::timeout(PAUSE, over.notified()).await.is_ok() })
}

/// Whether a server is there.
fn answers(url: &str) -> bool {
    super::client::Client::new(url, None).is_ok_and(|client| client.get("/healthz", &[]).is_ok())
}

/// The configuration, with any free port if its own is taken.
fn free_port(config: &Config) -> Config {
    let mut config = config.clone();
    if std::net::TcpListener::bind(config.listen).is_err() {
        config.listen.set_port(0);
    }
    config
}

struct Hosting<'a> {
    settings: &'a Settings,
    place: Place,
    over: Arc<Notify>,
}

impl Host for Hosting<'_> {
    fn serves(&mut self, address: SocketAddr) {
        self.place.set(format!("http://{address}"));
    }

    fn joins(&self) -> bool {
        true
    }

    fn reread(&self) -> Result<Config, Failure> {
        self.settings.read()
    }

    fn over(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.over.notified())
    }
}

/// Starts to carry lines between stdin, the server and stdout.
fn carry(place: Place) -> Result<thread::JoinHandle<()>, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|why| no_room(&why))?;
    let (to_bridge, lines) = channel(LINES_MAX);
    let (answers, to_client) = channel(LINES_MAX);
    let refusals = answers.clone();
    thread::spawn(move || listen(&to_bridge, &refusals));
    let token = std::env::var("LONGHAUL_TOKEN").ok().filter(|token| !token.is_empty());
    let bridge = Bridge::new(place, token, answers).map_err(|why| Failure::Refused(why.to_string()))?;
    Ok(thread::spawn(move || {
        let speaker = thread::spawn(move || speak(to_client));
        let (tell, told) = oneshot::channel();
        thread::spawn(move || {
            watch_stdout();
            let _ = tell.send(());
        });
        let deserted = async {
            // Whoever watches does not end before it has something to tell.
            let _ = told.await;
        };
        let is_deserted = runtime.block_on(bridge.run(lines, deserted));
        drop(runtime);
        if !is_deserted {
            // It ends when nobody is left who could have something to say.
            let _ = speaker.join();
        }
    }))
}

/// Returns when nobody can read stdout any more. Blocks, without looking in vain; for ever where stdout is a file.
fn watch_stdout() {
    let stdout = std::io::stdout();
    loop {
        // Asked for nothing, it tells only of an end.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(1..) => return,
            Ok(0) | Err(Errno::INTR) => {}
            // It cannot be watched; a write will tell.
            Err(_) => thread::park(),
        }
    }
}

fn no_room(why: &std::io::Error) -> Failure {
    Failure::Refused(format!("no thread: {why}"))
}

/// Reads the client's lines until there are no more.
fn listen(to_bridge: &Sender<String>, refusals: &Sender<String>) {
    let mut stdin = BufReader::new(std::io::stdin());
    loop {
        let mut line = Vec::new();
        match stdin.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX => {
                let text = format!("a line is longer than {LINE_MAX} bytes");
                let error = serde_json::json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": text}});
                if refusals.blocking_send(error.to_string()).is_err() || skip(&mut stdin).is_err() {
                    return;
                }
            }
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim();
                if !text.is_empty() && to_bridge.blocking_send(text.to_owned()).is_err() {
                    return;
                }
            }
        }
    }
}

/// Passes over the rest of a line, holding none of it.
fn skip(stdin: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let (end, seen) = {
            let bytes = stdin.fill_buf()?;
            match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (true, at + 1),
                None => (bytes.is_empty(), bytes.len()),
            }
        };
        stdin.consume(seen);
        if end {
            return Ok(());
        }
    }
}

/// Writes lines to the client until there are no more, or nobody listens.
fn speak(mut lines: Receiver<String>) {
    let mut stdout = std::io::stdout();
    while let Some(line) = lines.blocking_recv() {
        if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}
