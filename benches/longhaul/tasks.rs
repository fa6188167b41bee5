//! Durable tasks by MCP, in both of their dialects, against plain handles and REST submits of the same run.
//!
//! Each on a server and a directory of its own, one after the other, without workers. Beside them hyper answering a constant of
//! the size of a REST answer. The ratios say what a dialect costs over a REST submit.

use std::net::SocketAddr;

use tokio::runtime::Runtime;

use crate::Result;
use crate::load::{self, Connection, Session};
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::median;

const CONNECTIONS: [usize; 2] = [64, 256];

/// What is asked for.
#[derive(Clone, Copy)]
enum Way {
    Rest,
    Handle,
    Modern,
    Core,
}

const WAYS: [Way; 4] = [Way::Rest, Way::Handle, Way::Modern, Way::Core];

/// Answers a second, of each way and of hyper alone.
struct Round {
    ways: [f64; 4],
    hyper: f64,
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let heads = [
        "connections",
        "REST/s",
        "handles/s",
        "tasks 2026-07-28/s",
        "tasks 2025-11-25/s",
        "hyper alone/s",
        "handle / REST",
        "2026 / REST",
        "2025 / REST",
        "REST / hyper",
    ];
    let table = Table::new("tasks: durable tasks by MCP tools/call, and jobs by POST /api/jobs", &heads);
    let runtime = load::runtime()?;
    for connections in CONNECTIONS {
        let rounds: Vec<Round> =
            (0..scale.rounds).map(|_| round(&runtime, connections, scale)).collect::<Result<_>>()?;
        let way = |at: usize| median(rounds.iter().map(|round| round.ways[at]));
        let hyper = median(rounds.iter().map(|round| round.hyper));
        let [rest, handle, modern, core] = [0, 1, 2, 3].map(way);
        table.row([
            connections.to_string(),
            count(rest),
            count(handle),
            count(modern),
            count(core),
            count(hyper),
            fine(handle / rest),
            fine(modern / rest),
            fine(core / rest),
            fine(rest / hyper),
        ]);
    }
    Ok(())
}

fn round(runtime: &Runtime, connections: usize, scale: &Scale) -> Result<Round> {
    let (mut ways, mut size) = ([0.0; 4], 0);
    for (way, per_second) in WAYS.into_iter().zip(&mut ways) {
        let directory = server::directory()?;
        let server = Server::real(directory.path(), 0, "0s")?;
        let request = runtime.block_on(request(server.address, way))?;
        if matches!(way, Way::Rest) {
            size = runtime
                .block_on(async { Result::Ok(Connection::open(server.address).await?.ask(&request).await?.len()) })?;
        }
        *per_second = runtime.block_on(load::drive(server.address, request, connections, scale))?.per_second;
        server.stop()?;
    }
    let hyper = Server::bare(&["constant", &size.to_string()])?;
    let request = load::submit(hyper.address, "bench");
    let constant = runtime.block_on(load::drive(hyper.address, request, connections, scale))?;
    Ok(Round { ways, hyper: constant.per_second })
}

/// The request of a way, tried once: it must make what it is named for.
async fn request(address: SocketAddr, way: Way) -> Result<Vec<u8>> {
    let (request, sign) = match way {
        Way::Rest => (load::submit(address, "bench"), "statusUrl"),
        Way::Handle => (load::tool_call(address), "structuredContent"),
        Way::Modern => (load::task_call(address), r#""resultType":"task""#),
        Way::Core => (Session::open(address).await?.task_call(address), r#""task":{"taskId""#),
    };
    let mut connection = Connection::open(address).await?;
    let answer = String::from_utf8_lossy(connection.ask(&request).await?).into_owned();
    if answer.contains(sign) { Ok(request) } else { Err(format!("not what was asked for: {answer}").into()) }
}
