//! The calls of the API, a file for each group. Each reads what was sent, asks `service`, and writes the answer.
//!
//! Callers are known and have the scope when they come here.

pub mod backup;
pub mod bodies;
pub mod bulk;
pub mod events;
pub mod fields;
pub mod input;
pub mod job;
pub mod list;
pub mod log;
pub mod probe;
pub mod submit;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::app::App;
use super::body::Body;
use super::problem::{Code, Problem};
use crate::job::Head;
use crate::service::Detail;

/// What a body claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/x-ndjson`
    Lines,
}

impl Media {
    /// By `Content-Type`, whatever its parameters; `None` if there is none.
    ///
    /// # Errors
    /// `media_type` for any other.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(field) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
        let name = field.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("application/json") {
            Ok(Some(Self::Json))
        } else if name.eq_ignore_ascii_case("application/x-ndjson") {
            Ok(Some(Self::Lines))
        } else {
            Err(media_type())
        }
    }
}

/// 415.
fn media_type() -> Problem {
    Problem::new(Code::MediaType, "the body must be application/json, or application/x-ndjson for many jobs")
}

/// An answer in JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    // Our own values have string keys and no failing parts; an empty body would still be an honest 200.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A job as the answer.
///
/// # Errors
/// What `Service::view` refuses.
async fn show(
    app: &App,
    status: StatusCode,
    head: &std::sync::Arc<Head>,
    detail: Detail,
) -> Result<Response<Body>, Problem> {
    let view = app.service.view(head, &app.links(detail)).await?;
    Ok(json(status, &view))
}

/// Adds a header whose value is made of plain text.
fn put(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Whether `If-None-Match` names this tag.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_body_is_taken_by_its_type_whatever_the_parameters() {
        let of = |value| Media::of(&with(header::CONTENT_TYPE, value)).map_err(|problem| problem.code);
        assert_eq!(of("Application/JSON; charset=utf-8"), Ok(Some(Media::Json)));
        assert_eq!(of("application/x-ndjson"), Ok(Some(Media::Lines)));
        for value in ["text/plain", "application/x-www-form-urlencoded", "application/json-seq", ""] {
            assert_eq!(of(value), Err(Code::MediaType), "{value}");
        }
        assert_eq!(Media::of(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn a_tag_is_known_in_any_list_that_names_it() {
        for value in ["\"r3\"", "W/\"r3\"", "\"r1\", \"r3\"", "*"] {
            assert!(is_known(&with(header::IF_NONE_MATCH, value), "\"r3\""), "{value}");
        }
        for value in ["\"r4\"", "r3", ""] {
            assert!(!is_known(&with(header::IF_NONE_MATCH, value), "\"r3\""), "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"r3\""));
    }
}
