//! `tools/call` of an answer that is ready: `get_job` of a job that waits, so nothing is written and nothing is waited for.
//!
//! Beside it hyper answering a constant of the same size.

use tokio::runtime::Runtime;

use crate::Result;
use crate::load::{self, Connection};
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::median;

const CONNECTIONS: [usize; 2] = [64, 256];

struct Round {
    real: f64,
    p99_ms: f64,
    hyper: f64,
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let heads = ["connections", "calls/s", "p99 ms", "hyper alone/s", "ratio"];
    let table = Table::new("calls: ready answers by MCP tools/call (2026-07-28)", &heads);
    let runtime = load::runtime()?;
    for connections in CONNECTIONS {
        let rounds: Vec<Round> =
            (0..scale.rounds).map(|_| round(&runtime, connections, scale)).collect::<Result<_>>()?;
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        table.row([
            connections.to_string(),
            count(of(|round| round.real)),
            fine(of(|round| round.p99_ms)),
            count(of(|round| round.hyper)),
            fine(of(|round| round.real) / of(|round| round.hyper)),
        ]);
    }
    Ok(())
}

fn round(runtime: &Runtime, connections: usize, scale: &Scale) -> Result<Round> {
    let directory = server::directory()?;
    let server = Server::real(directory.path(), 0, "0s")?;
    let (request, size) = runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        let started: serde_json::Value =
            serde_json::from_slice(connection.ask(&load::tool_call(server.address)).await?)?;
        let id = started["result"]["structuredContent"]["jobId"].as_str().ok_or("no job")?;
        let request = load::call(server.address, "get_job", &format!(r#"{{"jobId":"{id}"}}"#));
        let size = connection.ask(&request).await?.len();
        Result::Ok((request, size))
    })?;
    let mut real = runtime.block_on(load::drive(server.address, request, connections, scale))?;
    server.stop()?;
    let hyper = Server::bare(&["constant", &size.to_string()])?;
    let request = load::call(hyper.address, "get_job", r#"{"jobId":"0190b5a0-0000-7000-8000-000000000000"}"#);
    let constant = runtime.block_on(load::drive(hyper.address, request, connections, scale))?;
    Ok(Round { real: real.per_second, p99_ms: real.lengths.quantile_ms(99), hyper: constant.per_second })
}
