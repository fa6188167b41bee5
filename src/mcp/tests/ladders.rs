//! Every row of the ladders and status tables: which status, which code, which id.

use serde_json::{Value, json};

use super::rig::{Rig, header, message, modern, modern_headers, request};

/// Status and code of an answer; 0 for a result.
fn verdict(answer: &crate::mcp::Answer) -> (u16, i64) {
    let code = match answer.body.is_empty() {
        true => 0,
        false => message(answer)["error"]["code"].as_i64().unwrap_or(0),
    };
    (answer.status, code)
}

#[tokio::test]
async fn what_a_session_s_requests_are_answered() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let live = ("mcp-session-id", session.as_str());
    let dead = ("mcp-session-id", "00000000000000000000000000000000");
    let version = |version| ("mcp-protocol-version", version);
    let note = |method: &str| json!({"jsonrpc": "2.0", "method": method});
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let ping = request(7, "ping", json!({}));
    for (headers, body, expected) in [
        // requests
        (vec![live], ping.clone(), (200, 0)),
        (vec![live, version("2025-11-25")], ping.clone(), (200, 0)),
        (vec![live, version("2025-06-18")], ping.clone(), (200, 0)),
        (vec![live, version("2025-03-26")], ping.clone(), (200, 0)),
        (vec![live, version("2026-07-28")], ping.clone(), (200, 0)),
        (vec![live, version("v999")], ping.clone(), (400, -32600)),
        (vec![live, version("")], ping.clone(), (400, -32600)),
        (vec![], ping.clone(), (400, -32600)),
        (vec![version("2025-11-25")], ping.clone(), (400, -32600)),
        (vec![dead], ping.clone(), (404, -32600)),
        (vec![dead, version("2025-11-25")], ping.clone(), (404, -32600)),
        (vec![live], request(7, "prompts/list", json!({})), (200, 0)),
        (vec![live], request(7, "server/discover", json!({})), (200, -32601)),
        (vec![live], request(7, "logging/setLevel", json!({"level": "info"})), (200, 0)),
        (vec![live], request(7, "tools/list", json!({"cursor": "x"})), (200, -32602)),
        (vec![live], request(7, "tools/list", json!({"cursor": "1"})), (200, -32602)),
        (vec![live], request(7, "tools/call", json!({})), (200, -32602)),
        (vec![live], request(7, "tools/call", json!({"name": 7})), (200, -32602)),
        (vec![live], request(7, "tools/call", json!({"name": "nobody"})), (200, -32602)),
        (vec![live], request(7, "tools/call", json!({"name": "start", "arguments": []})), (200, -32602)),
        (vec![live], request(7, "tools/call", json!({"name": "start", "arguments": null})), (200, -32602)),
        (vec![live], request(7, "ping", json!({"_meta": []})), (200, -32602)),
        (vec![], request(7, "ping", json!({"_meta": []})), (400, -32600)),
        // notifications and responses
        (vec![live], note("notifications/initialized"), (202, 0)),
        (vec![live], note("notifications/cancelled"), (202, 0)),
        (vec![live], note("whatever"), (202, 0)),
        (vec![], note("notifications/initialized"), (400, -32600)),
        (vec![dead], note("notifications/initialized"), (404, -32600)),
        (vec![live], response.clone(), (202, 0)),
        (vec![], response.clone(), (400, -32600)),
        (vec![dead], response.clone(), (404, -32600)),
        // batches
        (vec![live], json!([ping]), (400, -32600)),
        (vec![], json!([]), (400, -32600)),
    ] {
        let answer = rig.post(&headers, &body).await;
        assert_eq!(verdict(&answer), expected, "{headers:?} {body} {answer:?}");
        if body.get("method").is_some() && body.get("id").is_some() {
            assert_eq!(message(&answer)["id"], 7, "{answer:?}");
        } else if !answer.body.is_empty() {
            assert!(message(&answer).get("id").is_none(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn how_initialize_is_answered() {
    let rig = Rig::new().await;
    let session = rig.open("2025-06-18").await;
    let hello = request(0, "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    let v = |version| ("mcp-protocol-version", version);
    for (headers, body, expected) in [
        (vec![], hello.clone(), (200, 0)),
        (vec![v("2025-06-18"), ("mcp-method", "whatever")], hello.clone(), (200, 0)),
        (vec![v("2025-03-26")], hello.clone(), (200, 0)),
        (vec![("mcp-session-id", "gone")], hello.clone(), (200, 0)),
        (vec![v("2026-07-28")], hello.clone(), (400, -32020)),
        (vec![v("v999")], hello.clone(), (400, -32020)),
        (vec![("mcp-session-id", session.as_str())], hello.clone(), (400, -32600)),
        (vec![], request(0, "initialize", json!({})), (200, -32602)),
        (vec![], request(0, "initialize", json!({"protocolVersion": 7})), (200, -32602)),
        (vec![], json!({"jsonrpc": "2.0", "method": "initialize", "params": {}}), (400, -32600)),
    ] {
        let answer = rig.post(&headers, &body).await;
        assert_eq!(verdict(&answer), expected, "{headers:?} {body} {answer:?}");
        let id = header(&answer, "mcp-session-id");
        assert_eq!(id.is_some(), expected == (200, 0), "{answer:?}");
        assert!(id.is_none_or(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_graphic())));
    }
    let answer = message(&rig.post(&[], &hello).await);
    assert_eq!(answer["id"], 0);
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert_eq!(
        result["capabilities"],
        json!({"logging": {}, "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}, "prompts": {"listChanged": true}, "completions": {}, "extensions": {"io.modelcontextprotocol/ui": {}}})
    );
    assert_eq!(result["serverInfo"]["name"], "longhaul");
    assert!(result["instructions"].as_str().is_some_and(|text| text.contains("wait_for_jobs")));
}

#[tokio::test]
async fn what_requests_without_a_session_are_answered() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let full = |method: &str, params: Value| modern(method, params, json!({}));
    for (method, params, expected) in [
        ("server/discover", json!({}), (200, 0)),
        ("tools/list", json!({}), (200, 0)),
        ("tools/list", json!({"cursor": "x"}), (200, -32602)),
        ("initialize", json!({"protocolVersion": "2025-11-25"}), (404, -32601)),
        ("ping", json!({}), (404, -32601)),
        ("logging/setLevel", json!({}), (404, -32601)),
        ("resources/subscribe", json!({}), (404, -32601)),
        ("resources/unsubscribe", json!({}), (404, -32601)),
        ("tasks/result", json!({"taskId": "t"}), (404, -32601)),
        ("tasks/list", json!({}), (404, -32601)),
        ("subscriptions/listen", json!({}), (200, -32602)),
        ("unknown/method", json!({}), (404, -32601)),
    ] {
        let mut headers = modern_headers(method, None);
        headers.push(("mcp-session-id", &session));
        let answer = rig.post(&headers, &full(method, params)).await;
        assert_eq!(verdict(&answer), expected, "{method} {answer:?}");
        assert_eq!(message(&answer)["id"], 1);
        assert_eq!(header(&answer, "mcp-session-id"), None);
    }
    for (name, arguments, expected) in [
        (json!("nobody"), json!({}), (200, -32602)),
        (json!("start"), json!([]), (200, -32602)),
        (json!("start"), json!({"region": "eu"}), (400, -32020)),
        (json!("start"), json!({"region": null}), (200, 0)),
        (json!(7), json!({}), (200, -32602)),
    ] {
        let headers = modern_headers("tools/call", Some(name.as_str().unwrap_or("x")));
        let body = full("tools/call", json!({"name": name, "arguments": arguments}));
        let answer = rig.post(&headers, &body).await;
        assert_eq!(verdict(&answer), expected, "{body} {answer:?}");
    }
    let mut headers = modern_headers("tools/call", Some("start"));
    headers.push(("mcp-param-region", "=?base64?ZXU=?="));
    let call = full("tools/call", json!({"name": "start", "arguments": {"region": "eu"}}));
    assert_eq!(verdict(&rig.post(&headers, &call).await), (200, 0));
    // Without the envelope, but by the header or the method of that era.
    let bare = request(1, "server/discover", json!({}));
    assert_eq!(verdict(&rig.post(&[], &bare).await), (400, -32602));
    assert_eq!(
        verdict(&rig.post(&[("mcp-protocol-version", "v999")], &request(1, "x", json!({}))).await),
        (400, -32602)
    );
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(verdict(&rig.post(&[("mcp-protocol-version", "2026-07-28")], &note).await), (202, 0));
}

#[tokio::test]
async fn server_discover_tells_what_the_server_speaks_and_how_long_that_holds() {
    let rig = Rig::new().await;
    let body = modern("server/discover", json!({}), json!({}));
    let result = message(&rig.post(&modern_headers("server/discover", None), &body).await)["result"].take();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    let lists = json!({"listChanged": true});
    let resources = json!({"subscribe": true, "listChanged": true});
    let offered = json!({"tools": lists, "resources": resources, "prompts": lists, "completions": {}});
    for (name, offered) in offered.as_object().expect("an object") {
        assert_eq!(result["capabilities"][name], *offered);
    }
    assert_eq!(result["capabilities"]["extensions"]["io.modelcontextprotocol/ui"], json!({}));
    assert_eq!(result["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(result["ttlMs"].as_u64().is_some());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "longhaul");
}

#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let rig = Rig::new().await;
    let json: (&str, &[u8]) = ("content-type", b"application/json");
    for (headers, body, expected) in [
        (vec![json], &b"\xff\xfe"[..], (400, -32700)),
        (vec![json], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\"}", (400, -32700)),
        (vec![json], b"", (400, -32700)),
        (vec![json], b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", (400, -32600)),
        (vec![], b"{}", (415, -32600)),
        (vec![("content-type", b"text/plain")], b"{}", (415, -32600)),
        (vec![json, ("accept", b"text/html")], b"{}", (406, -32600)),
        (vec![("accept", b"text/html")], b"{}", (406, -32600)),
    ] {
        let answer = rig.request("POST", &headers, body).await;
        assert_eq!(verdict(&answer), expected, "{answer:?}");
        assert!(message(&answer).get("id").is_none());
    }
}

#[tokio::test]
async fn case_28_a_client_that_accepts_only_streams_gets_one_of_one_message() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let headers = [("mcp-session-id", session.as_str()), ("accept", "TEXT/event-stream;q=0.3")];
    let answer = rig.post(&headers, &request(3, "ping", json!({}))).await;
    assert_eq!((answer.status, answer.content_type), (200, Some("text/event-stream")));
    assert_eq!(&answer.body[..], b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n\n");
    assert_eq!(header(&answer, "x-accel-buffering"), Some("no"));
}

#[tokio::test]
async fn verbs_that_offer_nothing_say_which_ones_do() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let live: (&str, &[u8]) = ("mcp-session-id", session.as_bytes());
    let modern: (&str, &[u8]) = ("mcp-protocol-version", b"2026-07-28");
    for (verb, headers, status, allow) in [
        ("GET", vec![live, ("accept", b"text/event-stream" as &[u8])], 200, None),
        ("GET", vec![], 400, None),
        ("GET", vec![modern], 405, Some("POST")),
        ("HEAD", vec![live], 405, Some("GET, POST, DELETE")),
        ("PUT", vec![], 405, Some("GET, POST, DELETE")),
        ("DELETE", vec![modern], 405, Some("POST")),
        ("DELETE", vec![], 400, None),
        ("DELETE", vec![live, ("mcp-protocol-version", b"v9")], 400, None),
        ("DELETE", vec![live], 204, None),
    ] {
        let answer = rig.request(verb, &headers, b"").await;
        assert_eq!((answer.status, header(&answer, "allow")), (status, allow), "{verb} {headers:?}");
    }
}
