//! `POST /api/jobs`: one job, as JSON. Many, as lines, go to `bulk`.
//!
//! Checks what belongs to HTTP and JSON; what a job's fields may hold, `service` knows.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};

use super::fields::Fields;
use super::{Media, bulk, media_type, put, show};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{Body, collect};
use crate::http::problem::{Code, Problem};
use crate::http::query::Query;
use crate::job::Timestamp;
use crate::service::{Detail, Refused, Submit, Submitted};

/// The header of an idempotency key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The fields of contract 5.
const FIELDS: &[&str] = &["type", "payload", "idempotencyKey", "delayMs", "runAt", "priority", "expiresInMs", "tags"];

/// Creates a job, or finds the one that its key names.
///
/// # Errors
/// What `read` and `Service::submit` refuse; `media_type`, `too_large`.
pub async fn create(
    app: &App,
    caller: &Caller,
    head: &Head,
    query: &Query,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    query.only(Code::BadRequest, &[])?;
    match Media::of(&head.headers)? {
        Some(Media::Json) => {
            let body = collect(body, app.max_body).await?;
            let submit = read(&body, &head.headers)?;
            let submitted = app.service.submit(&caller.viewer, submit).await.map_err(below_payload)?;
            answer(app, &submitted).await
        }
        Some(Media::Lines) => bulk::create(app, caller, head, body),
        None => Err(media_type()),
    }
}

/// The pointers of a refusal start at the body.
pub fn below_payload(refused: Refused) -> Problem {
    Problem::from(match refused {
        Refused::Schema(violations) => {
            Refused::Schema(violations.into_iter().map(|violation| violation.below("/payload")).collect())
        }
        other => other,
    })
}

async fn answer(app: &App, submitted: &Submitted) -> Result<Response<Body>, Problem> {
    let status = if submitted.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = show(app, status, &submitted.head, Detail::Small).await?;
    let url = app.links(Detail::Small).status_url(submitted.head.job.id());
    put(&mut response, header::LOCATION, &url);
    Ok(response)
}

/// The wish in a body and its headers.
///
/// # Errors
/// `bad_json`, `bad_request` with every field named, `conflicting_fields`, `key_mismatch`.
pub fn read(body: &Bytes, headers: &HeaderMap) -> Result<Submit, Problem> {
    let mut fields = Fields::read(body, FIELDS)?;
    let job_type: Option<String> = fields.take("type", "a string");
    if fields.raw("type").is_none() {
        fields.complain("type", "is required");
    }
    let payload = fields.raw("payload").map(|raw| body.slice_ref(raw.get().as_bytes()));
    let run_at: Option<String> = fields.take("runAt", "a string");
    let when = run_at.as_deref().and_then(Timestamp::parse);
    if run_at.is_some() && when.is_none() {
        fields.complain("runAt", "must be a time as in RFC 3339, such as 2027-01-31T12:00:00Z");
    }
    let submit = Submit {
        job_type: job_type.unwrap_or_default(),
        // As the command line and MCP take it: no arguments are no mistake, unless the tool's schema says so.
        payload: payload.unwrap_or(Bytes::from_static(b"{}")),
        key: fields.take("idempotencyKey", "a string"),
        run_at: when,
        delay: fields.take("delayMs", "a whole number of milliseconds").map(Duration::from_millis),
        priority: fields.take("priority", "a whole number from -100 to 100").unwrap_or_default(),
        expires_in: fields.take("expiresInMs", "a whole number of milliseconds").map(Duration::from_millis),
        tags: fields.take("tags", "an array of strings").unwrap_or_default(),
        traceparent: traceparent(headers),
    };
    fields.finish()?;
    if submit.run_at.is_some() && submit.delay.is_some() {
        return Err(Problem::of_field(Code::ConflictingFields, "/runAt", "give runAt or delayMs, not both"));
    }
    with_key(submit, header_key(headers)?)
}

/// The key of the header, which the body may repeat.
fn with_key(mut submit: Submit, key: Option<String>) -> Result<Submit, Problem> {
    match (&submit.key, key) {
        (Some(own), Some(sent)) if *own != sent => {
            let message = "differs from the header Idempotency-Key";
            Err(Problem::of_field(Code::KeyMismatch, "/idempotencyKey", message))
        }
        (Some(_), _) | (None, None) => Ok(submit),
        (None, sent) => {
            submit.key = sent;
            Ok(submit)
        }
    }
}

/// The key that came as a header.
///
/// # Errors
/// `bad_request` if it is no text or there is more than one.
pub fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong = |message| Problem::of_field(Code::BadRequest, "/idempotencyKey", message);
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(wrong("the header Idempotency-Key is there more than once")),
        (Some(key), None) => {
            let text = key.to_str().map_err(|_| wrong("the header Idempotency-Key must be visible ASCII"))?;
            Ok(Some(text.trim().into()))
        }
    }
}

/// A trace context that is none is left out, as its specification wants.
pub fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = text.split('-');
    let fits = [2, 32, 16, 2].iter().all(|len| parts.next().is_some_and(|part| is_lower_hex(part, *len)));
    (fits && parts.next().is_none()).then(|| text.into())
}

fn is_lower_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn submit(json: &'static str, headers: &[(&'static str, &'static str)]) -> Result<Submit, Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        read(&Bytes::from_static(json.as_bytes()), &map).map_err(|problem| problem.code)
    }

    #[test]
    fn every_field_of_the_contract_arrives() {
        let json = r#"{"type":"echo","payload":{ "a" : 1 },"idempotencyKey":"k","delayMs":5,"priority":-3,
            "expiresInMs":1000,"tags":["x"]}"#;
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let submit = submit(json, &[("idempotency-key", "k"), ("traceparent", trace)]).unwrap();
        assert_eq!(submit.job_type, "echo");
        assert_eq!(submit.payload, r#"{ "a" : 1 }"#);
        assert_eq!((submit.key.as_deref(), submit.priority), (Some("k"), -3));
        assert_eq!((submit.delay, submit.expires_in), (Some(Duration::from_millis(5)), Some(Duration::from_secs(1))));
        assert_eq!((submit.tags, submit.traceparent.as_deref()), (vec!["x".to_string()], Some(trace)));
    }

    #[test]
    fn the_key_may_come_as_header_or_field_but_not_as_two() {
        let with_field = r#"{"type":"echo","payload":{},"idempotencyKey":"k"}"#;
        let without = r#"{"type":"echo","payload":{}}"#;
        assert_eq!(submit(without, &[("idempotency-key", "h")]).unwrap().key.as_deref(), Some("h"));
        assert_eq!(submit(with_field, &[("idempotency-key", "h")]).map(|_| ()), Err(Code::KeyMismatch));
        assert_eq!(
            submit(without, &[("idempotency-key", "h"), ("idempotency-key", "h")]).map(|_| ()),
            Err(Code::BadRequest)
        );
    }

    #[test]
    fn wrong_wishes_are_refused_by_code() {
        let both = r#"{"type":"a","payload":{},"delayMs":1,"runAt":"2027-01-31T12:00:00Z"}"#;
        for (json, code) in [
            (both, Code::ConflictingFields),
            (r#"{"payload":{}}"#, Code::BadRequest),
            (r#"{"type":1,"payload":{}}"#, Code::BadRequest),
            (r#"{"type":"a","payload":{},"runAt":"tomorrow"}"#, Code::BadRequest),
            (r#"{"type":"a","payload":{},"delayMs":-1}"#, Code::BadRequest),
            (r#"{"type":"a","payload":{},"tags":"x"}"#, Code::BadRequest),
            (r#"{"type":"a","payload":{},"extra":1}"#, Code::BadRequest),
            (r#"{"type":"a","payload":{}"#, Code::BadJson),
        ] {
            assert_eq!(submit(json, &[]).map(|_| ()), Err(code), "{json}");
        }
    }

    #[test]
    fn a_payload_that_is_not_sent_is_an_empty_object() {
        for json in [r#"{"type":"a"}"#, r#"{"type":"a","payload":null}"#] {
            assert_eq!(submit(json, &[]).unwrap().payload, "{}", "{json}");
        }
    }

    #[test]
    fn a_broken_trace_context_is_left_out() {
        for trace in ["", "00", "00-xyz-b7ad6b7169203331-01", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"]
        {
            let sent = HeaderMap::from_iter([(
                header::HeaderName::from_static("traceparent"),
                HeaderValue::from_static(trace),
            )]);
            assert_eq!(traceparent(&sent), None, "{trace}");
        }
    }
}
