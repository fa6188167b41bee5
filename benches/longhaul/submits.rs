//! Durable submits through MCP `tools/call`, at 1, 64 and 256 connections.
//!
//! Beside them hyper answering a constant of the same size, and sled committing the same bytes in the same groups. The
//! ratio is to the slower of the two.

use longhaul::core::GROUP_MAX;
use tokio::runtime::Runtime;

use crate::Result;
use crate::bare_sled::{Bare, Shape};
use crate::load::{self, Connection};
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::median;

const CONNECTIONS: [usize; 3] = [1, 64, 256];

/// One round: the server, and the two bare loops after it.
struct Round {
    real: f64,
    p50_ms: f64,
    p99_ms: f64,
    hyper: f64,
    sled: f64,
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let heads = ["connections", "submits/s", "p50 ms", "p99 ms", "hyper alone/s", "sled alone/s", "ratio"];
    let table = Table::new("submits: durable jobs by MCP tools/call (2026-07-28)", &heads);
    let runtime = load::runtime()?;
    for connections in CONNECTIONS {
        let rounds: Vec<Round> =
            (0..scale.rounds).map(|_| round(&runtime, connections, scale)).collect::<Result<_>>()?;
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let bare = of(|round| round.hyper.min(round.sled));
        table.row([
            connections.to_string(),
            count(of(|round| round.real)),
            fine(of(|round| round.p50_ms)),
            fine(of(|round| round.p99_ms)),
            count(of(|round| round.hyper)),
            count(of(|round| round.sled)),
            fine(of(|round| round.real) / bare),
        ]);
    }
    Ok(())
}

fn round(runtime: &Runtime, connections: usize, scale: &Scale) -> Result<Round> {
    let directory = server::directory()?;
    let server = Server::real(directory.path(), 0, "0s")?;
    let request = load::tool_call(server.address);
    let size =
        runtime.block_on(async { Result::Ok(Connection::open(server.address).await?.ask(&request).await?.len()) })?;
    let mut real = runtime.block_on(load::drive(server.address, request, connections, scale))?;
    server.stop()?;
    let shape = Shape::of(&server::store_of(directory.path()))?;
    let hyper = Server::bare(&["constant", &size.to_string()])?;
    let request = load::tool_call(hyper.address);
    let constant = runtime.block_on(load::drive(hyper.address, request, connections, scale))?;
    drop(hyper);
    let alone = server::directory()?;
    let sled = Bare::create(alone.path(), shape)?.submits(connections.min(GROUP_MAX), scale.length)?;
    Ok(Round {
        real: real.per_second,
        p50_ms: real.lengths.quantile_ms(50),
        p99_ms: real.lengths.quantile_ms(99),
        hyper: constant.per_second,
        sled,
    })
}
