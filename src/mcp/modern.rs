//! 2026-07-28: no sessions; every request carries its envelope, and headers that repeat it for whoever routes.
//!
//! In: a message already told apart by its era. Out: a reply. The first rung of the ladder that fails answers, before anything is done.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::era::{Meta, Revision};
use super::headers::{Headers, text, value};
use super::legacy::{INSTRUCTIONS, unknown_method};
use super::log::Level;
use super::reply::{Members, Reply};
use super::rights::Need;
use super::rpc::{self, Error, HEADER_MISMATCH, INVALID_PARAMS, Kind, Message, UNSUPPORTED_VERSION};
use super::tools::{self, Call};
use super::work::Outcome;
use super::{Endpoint, capabilities, library, listen, occurrences, params, tasks};

/// How long a client may keep `tools/list` and `server/discover`, in milliseconds: they change with a restart only.
pub const LIST_TTL_MS: u64 = 300_000;

/// A request or notification of the era without sessions.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    message: &Message<'_>,
    headers: &dyn Headers,
    call: Call<'_>,
) -> Reply {
    let Kind::Request(id) = message.kind else { return Reply::Accepted };
    let climbed = climb(message, &call.meta, headers);
    let outcome = match climbed.and_then(|()| call.rights.check(Need::of(endpoint, message), 403)) {
        Ok(()) => dispatch(endpoint, message, headers, &call).await,
        Err(error) => Err(error),
    };
    Reply::of(id, call.asker(None), call.token(), outcome, None)
}

async fn dispatch(
    endpoint: &Arc<Endpoint>,
    message: &Message<'_>,
    headers: &dyn Headers,
    call: &Call<'_>,
) -> Result<Outcome, Error> {
    if call.meta.level.is_some_and(|raw| Level::of_json(raw.get()).is_none()) {
        let text = "params._meta[\"io.modelcontextprotocol/logLevel\"] is not the name of a level";
        return Err(Error::answered(INVALID_PARAMS, text));
    }
    match &*message.method {
        "server/discover" => Ok(discover(endpoint).into()),
        "tools/list" => {
            endpoint.shown().lists.page(Revision::July2026, call.abilities, message.params.cursor).map(Outcome::Ready)
        }
        "subscriptions/listen" => {
            let id = message.id().unwrap_or_default();
            listen::listen(endpoint, call, id, message).await
        }
        "tools/call" => {
            params::check(endpoint, call, headers)?;
            tools::call(endpoint, call).await
        }
        task if task.starts_with("tasks/") => {
            tasks::modern::answer(endpoint, call, task).await.unwrap_or_else(|| Err(unknown_method(404, task)))
        }
        events if events.starts_with("events/") => {
            occurrences::answer(endpoint, call.viewer, message, headers, &call.meta).await
        }
        other => match library::answer(endpoint, message, call).await {
            Some(answer) => answer.map(Outcome::Ready),
            None => Err(unknown_method(404, other)),
        },
    }
}

/// Rungs 1 to 4: the envelope is there, the headers agree with it, the version is spoken.
fn climb(message: &Message<'_>, meta: &Meta<'_>, headers: &dyn Headers) -> Result<(), Error> {
    let Some(version) = meta.version.and_then(rpc::text) else {
        let text = "params._meta[\"io.modelcontextprotocol/protocolVersion\"] must be a string";
        return Err(Error::refused(400, INVALID_PARAMS, text));
    };
    if !meta.capabilities.is_some_and(rpc::is_object) {
        let text = "params._meta[\"io.modelcontextprotocol/clientCapabilities\"] must be an object, such as {}";
        return Err(Error::refused(400, INVALID_PARAMS, text));
    }
    agree(headers, "mcp-protocol-version", "params._meta", &version)?;
    if version != Revision::July2026.name() {
        let supported = [Revision::July2026.name()];
        return Err(Error {
            data: Some(Box::new(serde_json::json!({ "supported": supported, "requested": version }))),
            ..Error::refused(400, UNSUPPORTED_VERSION, format!("this server speaks {}", supported[0]))
        });
    }
    agree(headers, "mcp-method", "the method", &message.method)?;
    match named(message) {
        // FastMCP leaves it out here. It says nothing that params do not say, so a task is not out of reach for the want of it.
        Some(_) if message.method.starts_with("tasks/") && value(headers, "mcp-name").is_none() => Ok(()),
        Some(name) => agree_decoded(headers, "mcp-name", "params", &name),
        None => Ok(()),
    }
}

/// What `Mcp-Name` repeats; nothing on methods without a name, and nothing where the name is missing: params are judged later.
fn named<'a>(message: &Message<'a>) -> Option<Cow<'a, str>> {
    let params = &message.params;
    let source = match &*message.method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id,
        _ => None,
    };
    source.and_then(rpc::text)
}

fn agree(headers: &dyn Headers, name: &str, place: &str, expected: &str) -> Result<(), Error> {
    match text(headers, name) {
        Some(found) if found == expected => Ok(()),
        Some(_) => Err(mismatch(format!("the {name} header does not match {place}"))),
        None => Err(mismatch(format!("the {name} header is missing; it must repeat what {place} says"))),
    }
}

/// Whether the header, taken out of its `=?base64?…?=` dress, says this.
///
/// # Errors
/// HTTP 400, -32020.
pub(super) fn agree_decoded(headers: &dyn Headers, name: &str, place: &str, expected: &str) -> Result<(), Error> {
    let found = value(headers, name);
    let Some(found) = found else {
        return Err(mismatch(format!("the {name} header is missing; it must repeat what {place} says")));
    };
    match decoded(&found) {
        Ok(found) if *found == *expected.as_bytes() => Ok(()),
        Ok(_) => Err(mismatch(format!("the {name} header does not match {place}"))),
        Err(why) => Err(mismatch(format!("the {name} header {why}"))),
    }
}

/// A header value without its `=?base64?…?=` dress; anything else is taken literally.
///
/// # Errors
/// The markers are there, but what is between them is not strict Base64.
pub(super) fn decoded(value: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    match value.strip_prefix(b"=?base64?").and_then(|rest| rest.strip_suffix(b"?=")) {
        None => Ok(Cow::Borrowed(value)),
        Some(inside) => STANDARD
            .decode(inside)
            .map(Cow::Owned)
            .map_err(|_| "is marked as Base64, but is not strict Base64 with padding"),
    }
}

/// Headers and body contradict each other.
pub(super) fn mismatch(text: impl Into<String>) -> Error {
    Error::refused(400, HEADER_MISMATCH, text)
}

fn discover(endpoint: &Endpoint) -> Members {
    let mut json = format!(
        "\"supportedVersions\":[\"{}\"],\"capabilities\":{},\"ttlMs\":{LIST_TTL_MS},\"cacheScope\":\"private\"",
        Revision::July2026.name(),
        capabilities::offered(endpoint, Revision::July2026)
    )
    .into_bytes();
    if endpoint.helpers.is_some() {
        json.extend_from_slice(b",\"instructions\":");
        rpc::push_string(&mut json, INSTRUCTIONS);
    }
    Members { json, ..Members::default() }
}

#[cfg(test)]
mod tests {
    use super::super::headers::fake::List;
    use super::*;

    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

    /// The status and code of the first failing rung, or 0.
    fn rung(method: &str, params: &str, headers: &[(&str, &str)]) -> (u16, i64) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let Ok(message) = rpc::read(&body) else { panic!("{body} is read") };
        let meta = Meta::read(message.params.meta).expect("is an object");
        let list: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        climb(&message, &meta, &List(&list)).map_or_else(|error| (error.status, error.code), |()| (200, 0))
    }

    #[test]
    fn the_first_failing_rung_answers() {
        let full = format!(r#"{{"name":"n","uri":"u","taskId":"t","_meta":{{{VERSION},{CAPABILITIES}}}}}"#);
        let v999 = full.replace("2026-07-28", "v999.0.0");
        let v = ("mcp-protocol-version", "2026-07-28");
        let m = |method| ("mcp-method", method);
        let call = m("tools/call");
        for (method, params, headers, expected) in [
            // 1: the envelope
            ("tools/list", "{}", &[v, m("tools/list")][..], (400, -32602)),
            ("tools/list", &format!(r#"{{"_meta":{{{CAPABILITIES}}}}}"#), &[v, m("tools/list")], (400, -32602)),
            ("tools/list", &format!(r#"{{"_meta":{{{VERSION}}}}}"#), &[v, m("tools/list")], (400, -32602)),
            ("tools/list", &full.replace("{}", "[]"), &[v, m("tools/list")], (400, -32602)),
            ("tools/list", &full.replace(r#""2026-07-28""#, "7"), &[v, m("tools/list")], (400, -32602)),
            // 2 before 3: the version's header
            ("tools/list", &full, &[m("tools/list")], (400, -32020)),
            ("tools/list", &v999, &[v, m("tools/list")], (400, -32020)),
            ("tools/list", &full, &[v, ("mcp-protocol-version", "2025-11-25"), m("tools/list")], (400, -32020)),
            // 3: the version
            ("tools/list", &v999, &[("mcp-protocol-version", "v999.0.0"), m("x")], (400, -32022)),
            // 4: the method and name
            ("tools/list", &full, &[v], (400, -32020)),
            ("tools/list", &full, &[v, m("TOOLS/LIST")], (400, -32020)),
            ("tools/call", &full, &[v, call], (400, -32020)),
            ("tools/call", &full, &[v, call, ("mcp-name", "other")], (400, -32020)),
            ("tools/call", &full, &[v, call, ("mcp-name", "=?base64?bg=?=")], (400, -32020)),
            ("tools/call", &full, &[v, call, ("mcp-name", "=?base64?b?n?=")], (400, -32020)),
            ("tools/call", &full, &[v, call, ("mcp-name", "=?BASE64?bg==?=")], (400, -32020)),
            ("tools/call", &full, &[v, call, ("mcp-name", "=?base64?bg==")], (400, -32020)),
            ("tasks/get", &full, &[v, m("tasks/get"), ("mcp-name", "n")], (400, -32020)),
            // the top
            ("tools/call", &full, &[v, call, ("mcp-name", "  n\t")], (200, 0)),
            ("tools/call", &full, &[v, call, ("mcp-name", "=?base64?bg==?=")], (200, 0)),
            ("resources/read", &full, &[v, m("resources/read"), ("mcp-name", "u")], (200, 0)),
            ("tasks/get", &full, &[v, m("tasks/get"), ("mcp-name", "t")], (200, 0)),
            ("tasks/get", &full, &[v, m("tasks/get")], (200, 0)),
            ("tasks/result", &full, &[v, m("tasks/result")], (200, 0)),
            ("ping", &full, &[v, m("ping")], (200, 0)),
        ] {
            assert_eq!(rung(method, params, headers), expected, "{method} {params} {headers:?}");
        }
    }

    #[test]
    fn an_unsupported_version_is_answered_with_those_that_are() {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{{{},{CAPABILITIES}}}}}}}"#,
            VERSION.replace("2026-07-28", "v9")
        );
        let Ok(message) = rpc::read(&body) else { panic!("is read") };
        let meta = Meta::read(message.params.meta).expect("is an object");
        let error = climb(&message, &meta, &List(&[("mcp-protocol-version", b"v9")])).expect_err("is refused");
        assert_eq!(error.data, Some(Box::new(serde_json::json!({"supported": ["2026-07-28"], "requested": "v9"}))));
    }
}
