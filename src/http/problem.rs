//! Errors as `application/problem+json` (contract 8): each has a stable code, a status, and a text for people.
//!
//! In: a `Code`, or what `service` refused. Out: an answer. Never says anything about the inside of the server.

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::body::Body;
use crate::service::{Known, Refused, Violation};

/// The codes of contract 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The body is no JSON.
    BadJson,
    /// A field, parameter or header makes no sense.
    BadRequest,
    /// A cursor makes no sense.
    BadCursor,
    /// A filter of a list makes no sense.
    BadFilter,
    /// Two fields that exclude each other.
    ConflictingFields,
    /// `Idempotency-Key` and the body's `idempotencyKey` differ.
    KeyMismatch,
    /// No credentials, or none that are known.
    Unauthenticated,
    /// Known credentials without the scope.
    Forbidden,
    /// An `Origin` that is not allowed.
    BadOrigin,
    /// A `Host` that is not allowed.
    BadHost,
    /// No such job, or another principal's.
    NoSuchJob,
    /// No tool makes jobs of that type.
    NoSuchType,
    /// Nothing at that path.
    NoSuchPath,
    /// Not with that method.
    Method,
    /// None of the accepted forms can be had.
    NotAcceptable,
    /// Over a limit of size.
    TooLarge,
    /// The body's type is another one.
    MediaType,
    /// The range lies outside the body.
    Range,
    /// The key names a job with another payload.
    IdempotencyConflict,
    /// No such question is open.
    NotWaiting,
    /// The dead letter was replayed before.
    AlreadyReplayed,
    /// Only a failed job can be replayed.
    NotDeadLettered,
    /// The payload does not fit the schema.
    Schema,
    /// A limit of number is reached.
    TooMany,
    /// Right now there is no room.
    Busy,
    /// The server is shutting down.
    Draining,
    /// The store has failed.
    Unhealthy,
    /// The disk's reserve is reached.
    DiskFull,
    /// A body cannot be read from the disk.
    Damaged,
}

impl Code {
    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadJson => "bad_json",
            Self::BadRequest => "bad_request",
            Self::BadCursor => "bad_cursor",
            Self::BadFilter => "bad_filter",
            Self::ConflictingFields => "conflicting_fields",
            Self::KeyMismatch => "key_mismatch",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::BadOrigin => "bad_origin",
            Self::BadHost => "bad_host",
            Self::NoSuchJob => "no_such_job",
            Self::NoSuchType => "no_such_type",
            Self::NoSuchPath => "no_such_path",
            Self::Method => "method",
            Self::NotAcceptable => "not_acceptable",
            Self::TooLarge => "too_large",
            Self::MediaType => "media_type",
            Self::Range => "range",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::NotWaiting => "not_waiting",
            Self::AlreadyReplayed => "already_replayed",
            Self::NotDeadLettered => "not_dead_lettered",
            Self::Schema => "schema",
            Self::TooMany => "too_many",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
            Self::DiskFull => "disk_full",
            Self::Damaged => "damaged",
        }
    }

    /// The status of contract 8.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadJson
            | Self::BadRequest
            | Self::BadCursor
            | Self::BadFilter
            | Self::ConflictingFields
            | Self::KeyMismatch => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::BadOrigin | Self::BadHost => StatusCode::FORBIDDEN,
            Self::NoSuchJob | Self::NoSuchType | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Range => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::IdempotencyConflict | Self::NotWaiting | Self::AlreadyReplayed | Self::NotDeadLettered => {
                StatusCode::CONFLICT
            }
            Self::Schema => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy | Self::Draining | Self::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
            Self::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// When to come back, in seconds, for what passes by itself.
    const fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::Busy => Some("1"),
            Self::TooMany | Self::Draining => Some("5"),
            Self::Unhealthy | Self::DiskFull => Some("30"),
            Self::Damaged
            | Self::BadJson
            | Self::BadRequest
            | Self::BadCursor
            | Self::BadFilter
            | Self::ConflictingFields
            | Self::KeyMismatch
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::BadOrigin
            | Self::BadHost
            | Self::NoSuchJob
            | Self::NoSuchType
            | Self::NoSuchPath
            | Self::Method
            | Self::NotAcceptable
            | Self::TooLarge
            | Self::MediaType
            | Self::Range
            | Self::IdempotencyConflict
            | Self::NotWaiting
            | Self::AlreadyReplayed
            | Self::NotDeadLettered
            | Self::Schema => None,
        }
    }
}

/// One refusal on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What the client's program looks at.
    pub code: Code,
    /// What a person reads.
    pub detail: String,
    /// Which fields, with what is wrong.
    pub errors: Vec<Violation>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with a text for people.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    /// A problem of one field, named by its pointer.
    pub fn of_field(code: Code, pointer: &str, message: impl Into<String>) -> Self {
        let violation = Violation { pointer: pointer.into(), message: message.into() };
        Self::of_fields(code, vec![violation])
    }

    /// A problem of several fields.
    pub fn of_fields(code: Code, errors: Vec<Violation>) -> Self {
        let text = |v: &Violation| {
            if v.pointer.is_empty() { v.message.clone() } else { format!("{}: {}", v.pointer, v.message) }
        };
        let detail = errors.iter().map(text).collect::<Vec<_>>().join("; ");
        Self { errors, ..Self::new(code, detail) }
    }

    /// The same with a header more.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// As it goes over the wire, on one line.
    pub fn to_json(&self) -> serde_json::Value {
        let status = self.code.status();
        let mut text = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "code": self.code.name(),
            "detail": self.detail,
        });
        if !self.errors.is_empty() {
            let errors = self.errors.iter().map(|v| json!({"pointer": v.pointer, "message": v.message}));
            text["errors"] = errors.collect();
        }
        text
    }

    /// The answer.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::whole(self.to_json().to_string()));
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.code.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        headers.extend(self.headers);
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoSuchType(known) => Self::of_field(Code::NoSuchType, "/type", no_such_type(&known)),
            Refused::BadJson(why) => Self::of_field(Code::BadJson, "/payload", why),
            Refused::BadField(errors) => Self::of_fields(Code::BadRequest, errors),
            Refused::Schema(errors) => Self::of_fields(Code::Schema, errors),
            Refused::IdempotencyConflict(id) => {
                Self::new(Code::IdempotencyConflict, format!("the key names job {id}, which has another payload"))
            }
            Refused::TooMany(limit) => Self::new(Code::TooMany, format!("{limit} is reached")),
            Refused::Conflict => Self::new(Code::Busy, "it was changed meanwhile; try again"),
            Refused::Busy => Self::new(Code::Busy, "the server is busy; try again soon"),
            Refused::Draining => Self::new(Code::Draining, "the server is shutting down"),
            Refused::Unhealthy => Self::new(Code::Unhealthy, "the server has failed and will be restarted"),
            Refused::DiskFull => Self::new(Code::DiskFull, "the disk's reserve (store.disk_reserve) is reached"),
            Refused::NoSuchJob => Self::new(Code::NoSuchJob, "no such job"),
            Refused::Damaged(why) => Self::new(Code::Damaged, format!("{why}; only a backup has it")),
            Refused::NotWaiting(why) => Self::new(Code::NotWaiting, why),
            Refused::NotDeadLettered => Self::new(Code::NotDeadLettered, "only a failed job can be replayed"),
            Refused::AlreadyReplayed(id) => {
                Self::new(Code::AlreadyReplayed, format!("it was already replayed, as job {id}"))
            }
        }
    }
}

fn no_such_type(known: &Known) -> String {
    let Known { meant, nearest, others } = known;
    let mut text = "no tool makes jobs of this type".to_owned();
    if let Some(meant) = meant {
        text += &format!("; did you mean {meant}?");
    }
    if nearest.len() > usize::from(meant.is_some()) {
        let more = if *others > 0 { format!(" and {others} more") } else { String::new() };
        text += &format!(" (known: {}{more})", nearest.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    #[test]
    fn each_refusal_has_the_status_and_code_of_the_contract() {
        let id = JobId::from_u128(7);
        let one = || vec![Violation { pointer: "/budget".into(), message: "not a number".into() }];
        for (refused, status, code, retry) in [
            (Refused::NoSuchType(Known::default()), 404, "no_such_type", false),
            (Refused::BadJson("no object".into()), 400, "bad_json", false),
            (Refused::BadField(one()), 400, "bad_request", false),
            (Refused::Schema(one()), 422, "schema", false),
            (Refused::IdempotencyConflict(id), 409, "idempotency_conflict", false),
            (Refused::TooMany("queue.max_pending"), 429, "too_many", true),
            (Refused::Busy, 503, "busy", true),
            (Refused::Draining, 503, "draining", true),
            (Refused::Unhealthy, 503, "unhealthy", true),
            (Refused::DiskFull, 507, "disk_full", true),
            (Refused::NoSuchJob, 404, "no_such_job", false),
            (Refused::Damaged("cut".into()), 500, "damaged", false),
            (Refused::NotWaiting("no question".into()), 409, "not_waiting", false),
            (Refused::NotDeadLettered, 409, "not_dead_lettered", false),
            (Refused::AlreadyReplayed(id), 409, "already_replayed", false),
        ] {
            let problem = Problem::from(refused);
            let json = problem.to_json();
            assert_eq!((json["status"].as_u64(), json["code"].as_str()), (Some(status), Some(code)));
            let response = problem.into_response();
            assert_eq!(u64::from(response.status().as_u16()), status);
            assert_eq!(response.headers().contains_key(header::RETRY_AFTER), retry, "{code}");
        }
    }

    /// A user who had mistyped a type was told that there is none such, and nothing of those that there are.
    #[test]
    fn a_type_that_there_is_not_is_told_with_those_that_there_are() {
        let told = |meant: Option<&str>, nearest: &[&str], others| {
            let nearest = nearest.iter().map(|name| (*name).to_owned()).collect();
            no_such_type(&Known { meant: meant.map(Into::into), nearest, others })
        };
        let none = "no tool makes jobs of this type";
        assert_eq!(told(None, &[], 0), none);
        assert_eq!(told(None, &["echo"], 0), format!("{none} (known: echo)"));
        assert_eq!(told(Some("echo"), &["echo"], 0), format!("{none}; did you mean echo?"));
        assert_eq!(told(Some("a"), &["a", "b"], 3), format!("{none}; did you mean a? (known: a, b and 3 more)"));
    }

    #[test]
    fn a_problem_names_its_fields_by_pointer() {
        let problem = Problem::of_field(Code::BadRequest, "/priority", "at most 100");
        assert_eq!(problem.detail, "/priority: at most 100");
        assert_eq!(problem.to_json()["errors"], json!([{"pointer": "/priority", "message": "at most 100"}]));
    }
}
