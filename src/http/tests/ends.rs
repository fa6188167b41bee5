//! The end of a server: what is under way is finished, and nothing new begins.

use std::time::Duration;

use super::{ROUND_TRIPS_MAX, Settings, World};
use crate::http::Options;
use crate::job::{Outcome, Output};
use crate::shutdown::Phase;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_way_is_answered_while_the_server_drains() {
    // So long that only the drain can be what closes the idle connection.
    let http = Options { header_timeout: Duration::from_secs(3_600), ..Options::default() };
    let world = World::with(Settings { http, ..Settings::default() }).await;
    let id = world.submit().await;
    let mut waiting = world.connect().await;
    waiting.request("GET", &format!("/api/jobs/{id}?wait=60s"), &[], "").await;
    let mut idle = world.connect().await;
    assert_eq!(idle.ask("GET", "/healthz", &[], "").await.status, 200);
    let claim = world.claim();
    world.shutdown.advance(Phase::Draining);
    assert_eq!(idle.all().await, "", "an idle connection is closed");
    world.finish(&claim, Outcome::Done(Output::default()));
    let answer = waiting.answer("GET").await.expect("the answer comes");
    assert_eq!(answer.json()["status"], "completed");
    world.served.await.unwrap();
    assert!(tokio::net::TcpStream::connect(world.address).await.is_err(), "the port is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_outlasts_the_grace_is_answered_with_the_job_as_it_is() {
    // It was cut off without a response.
    let world = World::start().await;
    let id = world.submit().await;
    let mut waiting = world.connect().await;
    waiting.request("GET", &format!("/api/jobs/{id}?wait=60s"), &[], "").await;
    assert_eq!(world.get("/healthz").await.status, 200);
    let _claim = world.claim();
    world.shutdown.advance(Phase::Draining);
    world.shutdown.advance(Phase::Releasing);
    let answer = waiting.answer("GET").await.expect("the answer comes");
    assert_eq!(answer.json()["status"], "in_progress");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_can_be_bound_again_at_once() {
    let world = World::start().await;
    let mut open = world.connect().await;
    assert_eq!(open.ask("GET", "/healthz", &[], "").await.status, 200);
    world.shutdown.advance(Phase::Closing);
    world.served.await.unwrap();
    assert!(super::super::server::listen(world.address).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_are_closed_and_make_room_when_they_end() {
    let http = Options { max_connections: 1, ..Options::default() };
    let world = World::with(Settings { http, ..Settings::default() }).await;
    let mut first = world.connect().await;
    assert_eq!(first.ask("GET", "/healthz", &[], "").await.status, 200);
    let mut second = world.connect().await;
    second.request("GET", "/healthz", &[], "").await;
    assert!(second.answer("GET").await.is_none());
    drop(first);
    // The server hears of the lost peer when it hears of it; each refusal is a round trip.
    for _ in 0..ROUND_TRIPS_MAX {
        let mut next = world.connect().await;
        next.request("GET", "/healthz", &[], "").await;
        if next.answer("GET").await.is_some() {
            return;
        }
    }
    panic!("there is no room again");
}
