//! Readers that are slow, or never read: they cost nobody else anything.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use crate::support::{Client, Server, TRIAL, is_long};

/// A reader of the whole feed that takes hardly anything: its window is small and it does not read.
fn stalled(server: &Server) -> TcpStream {
    let address: std::net::SocketAddr = server.address().parse().expect("an address");
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small window");
    socket.connect(&address.into()).expect("the server is there");
    let mut socket = TcpStream::from(socket);
    let host = server.address();
    write!(
        socket,
        "GET /api/events?last_event_id=earliest HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n"
    )
    .expect("sent");
    // The head has come: the stream is open.
    let mut first = [0; 64];
    assert!(socket.read(&mut first).expect("an answer") > 0);
    assert!(first.starts_with(b"HTTP/1.1 200"));
    socket
}

fn streams(client: &Client) -> u64 {
    let text = client.get_with("/metrics", &[]).expect("metrics").text;
    let line = text.lines().find(|line| line.starts_with("longhaul_streams ")).expect("the gauge");
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// Rows 11 and 12: a stalled reader made the server queue events without limit; half-open peers never went.
#[test]
fn case_11_and_12_stalled_readers_cost_no_memory_and_go_and_the_others_hear_everything() {
    let (readers, jobs, steps) = if is_long() { (500, 50, 20_000) } else { (60, 8, 2_500) };
    let config = format!("[server]\nstream_write_timeout = \"1s\"\n{TRIAL}");
    let server = Server::start(&config);
    let client = server.client();
    let ids: Vec<String> = (0..jobs).map(|_| client.submit(json!({"do": "progress", "steps": steps}))).collect();
    for id in &ids {
        client.ended(id);
    }
    let log = client.pages("/api/events", None);
    let bytes: usize = log.iter().map(|event| event.to_string().len()).sum();
    let (before, files) = (server.resident(), server.open_files());
    let stalled: Vec<TcpStream> = (0..readers).map(|_| stalled(&server)).collect();
    let healthy: Vec<String> = client
        .stream("/api/events?last_event_id=earliest", None)
        .take(log.len())
        .filter_map(|event| event.id)
        .collect();
    let wanted: Vec<&str> = log.iter().filter_map(|event| event["event_id"].as_str()).collect();
    assert_eq!(healthy, wanted, "another reader hears everything");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < bytes * readers / 8, "{grown} bytes more for {readers} readers of {bytes} bytes each");
    // The peers go by the write deadline alone; a bound on the looks, no measure of time.
    for _ in 0..100_000 {
        if streams(&client) == 0 {
            break;
        }
    }
    assert_eq!(streams(&client), 0, "stalled peers are let go");
    for _ in 0..10_000 {
        if server.open_files() <= files + 2 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(server.open_files() <= files + 2, "and their descriptors with them");
    drop(stalled);
}
