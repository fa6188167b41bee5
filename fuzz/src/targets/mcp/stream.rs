//! What a stream of `/mcp` must be: whole events, each with one message on one line; an answer with the right id at most once, and nothing after it.

use std::future::poll_fn;
use std::time::Duration;

use longhaul::mcp::Stream;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

/// Longer than any wait here, on a clock that does not wait.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Pieces that are looked at; a stream may go on for ever.
const PIECES_MAX: usize = 64;

/// One message, as far as it is judged.
#[derive(serde::Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    jsonrpc: String,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads a stream for a while and then to its end, as a server that ends does. `ids`: what was asked, as written.
///
/// # Panics
/// When it is not what the contract and the protocol allow.
pub fn judge(runtime: &Runtime, mut stream: Stream, ids: &[&str]) {
    let mut is_answered = false;
    for at in 0.. {
        if at == PIECES_MAX {
            stream.close();
        }
        let piece =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, poll_fn(|cx| stream.poll_next(cx))).await });
        match piece {
            Ok(Some(piece)) => {
                assert!(!is_answered, "something follows the answer: {piece:?}");
                assert!(at < 4 * PIECES_MAX, "a stream that was closed goes on");
                is_answered = event(&piece, ids);
            }
            Ok(None) => return,
            Err(_) => stream.close(),
        }
    }
}

/// Judges one event; whether it was the answer.
fn event(piece: &[u8], ids: &[&str]) -> bool {
    let text = std::str::from_utf8(piece).expect("events are text");
    let lines = text.strip_suffix("\n\n").unwrap_or_else(|| panic!("no whole event: {text:?}"));
    let mut data = None;
    for line in lines.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line:?}"));
        assert!(matches!(field, "id" | "event" | "retry" | "data" | ""), "{line:?}");
        assert!(!line.contains('\r') && !line.contains('\0'), "{line:?}");
        if field == "data" && !value.trim().is_empty() {
            assert!(data.replace(value).is_none(), "two messages in one event: {text:?}");
        }
    }
    let Some(data) = data else { return false };
    let message: Message<'_> = serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {data}"));
    assert_eq!(message.jsonrpc, "2.0");
    if message.method.is_some() {
        assert!(message.result.is_none() && message.error.is_none(), "{data}");
        let _: Value = serde_json::from_str(data).expect("JSON");
        return false;
    }
    assert!(message.result.is_some() != message.error.is_some(), "{data}");
    let id = message.id.unwrap_or_else(|| panic!("an answer without id: {data}")).get();
    assert!(ids.is_empty() || ids.contains(&id), "{id} was never asked");
    true
}
