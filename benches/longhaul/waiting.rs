//! Many clients that wait for one job: by `wait_for_jobs`, `tasks/result`, `events/stream` and `subscriptions/listen`.
//!
//! Memory and threads of the server while all of them wait, and how long it takes until the last one is told that the job has
//! ended. Each way has a server of its own, and so ports of its own: a client's port is used once for each server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::load::{self, Connection, Session};
use crate::report::{Table, count, fine, note};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::{Result, process};

/// How a client waits.
#[derive(Clone, Copy)]
enum Way {
    WaitForJobs,
    TasksResult,
    EventsStream,
    Listen,
}

const WAYS: [Way; 4] = [Way::WaitForJobs, Way::TasksResult, Way::EventsStream, Way::Listen];

/// Files besides the clients' sockets.
const FILES_BESIDES: usize = 256;
/// Until what the last client asked for has begun.
const SETTLED: Duration = Duration::from_secs(2);
/// Longest that the last client is waited for.
const TOLD_MAX: Duration = Duration::from_secs(120);

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::WaitForJobs => "wait_for_jobs",
            Self::TasksResult => "tasks/result",
            Self::EventsStream => "events/stream",
            Self::Listen => "subscriptions/listen",
        }
    }

    /// A client's request; one in a session opens its own first.
    async fn request(self, connection: &mut Connection, address: SocketAddr, job: &str) -> Result<Vec<u8>> {
        let wait = || format!(r#"{{"jobIds":["{job}"],"timeoutMs":600000}}"#);
        Ok(match self {
            Self::WaitForJobs => load::call(address, "wait_for_jobs", &wait()),
            Self::TasksResult => Session::open_on(connection, address).await?.request(
                address,
                "tasks/result",
                &format!(r#""taskId":"{job}""#),
            ),
            Self::EventsStream => load::modern(address, "events/stream", None, r#""name":"job.canceled""#),
            Self::Listen => load::modern(
                address,
                "subscriptions/listen",
                None,
                &format!(r#""notifications":{{"taskIds":["{job}"]}}"#),
            ),
        })
    }
}

/// Those who wait.
#[derive(Default)]
struct Crowd {
    told: AtomicUsize,
    lost: AtomicUsize,
    all: Notify,
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let clients = scale.clients.min(process::open_files_max().saturating_sub(FILES_BESIDES));
    let heads = ["wait by", "clients", "resident MiB", "KiB a client", "threads", "told all after ms"];
    let table = Table::new("waiting: clients that wait for one job", &heads);
    if clients < scale.clients {
        note("fewer clients than wanted: the system lets nobody have more files open");
    }
    for way in WAYS {
        let directory = server::directory()?;
        let server = Server::real(directory.path(), 0, "0s")?;
        let before = process::resident_kib(server.pid())?;
        let (resident, threads, told_ms) = load::runtime()?.block_on(wait(&server, way, clients))?;
        table.row([
            way.name().to_owned(),
            count(clients as f64),
            fine(resident / 1024.0),
            fine((resident - before) / clients as f64),
            count(threads),
            count(told_ms),
        ]);
    }
    Ok(())
}

async fn wait(server: &Server, way: Way, clients: usize) -> Result<(f64, f64, f64)> {
    let mut own = Connection::open(server.address).await?;
    let task = Session::open_on(&mut own, server.address).await?.task_call(server.address);
    let made: serde_json::Value = serde_json::from_slice(own.ask(&task).await?)?;
    let job = made["result"]["task"]["taskId"].as_str().ok_or("no task")?.to_owned();
    let crowd = Arc::new(Crowd::default());
    for _ in 0..clients {
        let mut connection = Connection::open(server.address).await?;
        let request = way.request(&mut connection, server.address, &job).await?;
        let mut socket = connection.into_socket();
        socket.write_all(&request).await?;
        tokio::spawn(listen(socket, clients, crowd.clone()));
    }
    load::pause(SETTLED).await;
    let (resident, threads) = (process::resident_kib(server.pid())?, process::threads(server.pid())?);
    let early = crowd.told.load(Ordering::Relaxed) + crowd.lost.load(Ordering::Relaxed);
    if early > 0 {
        return Err(format!("{early} clients did not wait").into());
    }
    // The first connection, on which nothing was asked for so long, is closed by now.
    let mut last = Connection::open(server.address).await?;
    let begin = Instant::now();
    last.ask(&load::post(server.address, &format!("/api/jobs/{job}/cancel"), "", "{}")).await?;
    tokio::time::timeout(TOLD_MAX, crowd.all.notified()).await?;
    match crowd.lost.load(Ordering::Relaxed) {
        0 => Ok((resident, threads, begin.elapsed().as_secs_f64() * 1_000.0)),
        lost => Err(format!("{lost} clients were told nothing").into()),
    }
}

/// Reads until it hears of the cancel, or of nothing more.
async fn listen(mut socket: TcpStream, clients: usize, crowd: Arc<Crowd>) {
    const SIGN: &[u8] = b"cancel";
    let (mut heard, mut has_head) = (Vec::new(), false);
    let is_told = loop {
        match socket.read_buf(&mut heard).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break false,
        }
        // What a stream begins with speaks of no end; only the head may name what was asked for.
        let body =
            if has_head { 0 } else { heard.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(heard.len()) };
        has_head |= body < heard.len();
        if heard[body..].windows(SIGN.len()).any(|some| some == SIGN) {
            break true;
        }
        let rest = heard.len().saturating_sub(SIGN.len());
        if has_head {
            heard.drain(..rest);
        }
    };
    let count = if is_told { &crowd.told } else { &crowd.lost };
    count.fetch_add(1, Ordering::Relaxed);
    if crowd.told.load(Ordering::Relaxed) + crowd.lost.load(Ordering::Relaxed) == clients {
        crowd.all.notify_one();
    }
}
