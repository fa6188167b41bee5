//! What large results cost in memory: the server holds each once while it is made, and only pieces while it is read.
#![cfg(target_os = "linux")]

use std::thread;

use serde_json::json;

use crate::support::{Client, Server};

const MIB: usize = 1024 * 1024;

/// Programs that write as many bytes as the payload says: text, one JSON string, and a CallToolResult.
const MUCH: &str = r#"
[queue]
workers = 8
[tools.text]
description = "writes text"
run = { kind = "command", command = ["sh", "-c", "head -c $1 /dev/zero | tr '\\0' x", "sh", "{payload.bytes}"] }
[tools.json]
description = "writes JSON"
run = { kind = "command", output = "json", command = ["sh", "-c", "printf '\"'; head -c $1 /dev/zero | tr '\\0' x; printf '\"'", "sh", "{payload.bytes}"] }
[tools.call]
description = "writes a CallToolResult"
run = { kind = "command", output = "json", command = ["sh", "-c", "printf '{\"content\": [{\"type\": \"text\", \"text\": \"'; head -c $1 /dev/zero | tr '\\0' x; printf '\"}]}'", "sh", "{payload.bytes}"] }
"#;

fn submit(client: &Client, kind: &str, bytes: usize) -> String {
    client.submit_job(json!({"type": kind, "payload": {"bytes": bytes}}))
}

/// Runs `work`; the most memory that the server had meanwhile, over what it had before.
fn peak_of(server: &Server, work: impl FnOnce()) -> usize {
    server.forget_peak();
    let before = server.resident();
    work();
    server.peak().saturating_sub(before)
}

/// Row 36: one result of 50 MB was held five times over, and eight of 60 MB at once took 1.9 GB.
#[test]
fn case_36_a_large_result_is_held_once_while_it_is_made_and_in_pieces_while_it_is_read() {
    let server = Server::start(MUCH);
    let client = server.client();
    let end = |id: &str| assert_eq!(client.ended(id)["status"], "completed");
    end(&submit(&client, "text", 10));
    // A CallToolResult is kept twice by contract: as its content, and as the text for readers without MCP.
    for (kind, most) in [("text", 130 * MIB), ("json", 130 * MIB), ("call", 190 * MIB)] {
        let grown = peak_of(&server, || end(&submit(&client, kind, 50_000_000)));
        assert!(grown < most, "{kind}: {} MiB for one result of 50 MB", grown / MIB);
    }
    server.forget_peak();
    let ids: Vec<String> = (0..8).map(|n| submit(&client, ["text", "json"][n % 2], 60_000_000)).collect();
    ids.iter().for_each(|id| end(id));
    let most = server.peak();
    assert!(most < 700 * MIB, "{} MiB for eight results of 60 MB at once", most / MIB);
    let grown = peak_of(&server, || {
        thread::scope(|scope| {
            for (n, id) in ids.iter().enumerate() {
                let path =
                    if n % 2 == 0 { format!("/api/jobs/{id}/result") } else { format!("/api/jobs/{id}?inline=true") };
                let client = &client;
                scope.spawn(move || assert!(client.get(&path).text.len() > 60_000_000, "{path}"));
            }
        });
    });
    assert!(grown < 60 * MIB, "{} MiB for eight readers of 60 MB each", grown / MIB);
}
