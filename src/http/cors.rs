//! What pages of the configured origins may send and read (case 17). Nothing for anybody else.
//!
//! In: an origin that the guard let through. Out: headers.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Request headers that a page may send; `Mcp-Param-*` beside them.
const ALLOWED: [&str; 13] = [
    "accept",
    "authorization",
    "content-type",
    "idempotency-key",
    "if-none-match",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "range",
    "traceparent",
    "tracestate",
];

/// A tool's arguments mirrored into headers have names of their own.
const PARAMETER: &str = "mcp-param-";

/// Most `Mcp-Param-*` names that one preflight is granted; the page is refused the others.
const PARAMETERS_MAX: usize = 64;

/// Answer headers that a page may read.
const EXPOSED: &str = "Mcp-Session-Id, Location, ETag, Retry-After, Content-Range, Accept-Ranges, WWW-Authenticate";

/// How long a browser may keep the answer to its preflight, in seconds.
const MAX_AGE: &str = "7200";

const REQUEST_HEADERS: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;

/// Whether it asks what it may ask.
pub fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Grants a preflight: `methods` of the path, and those of the asked-for headers that are known.
pub fn grant(asked: &HeaderMap, methods: &'static str, answer: &mut HeaderMap) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    if let Ok(names) = HeaderValue::from_str(&granted(asked)) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
}

/// Lets the page of a configured origin read an answer.
pub fn expose(asked: &HeaderMap, answer: &mut HeaderMap) {
    if let Some(origin) = asked.get(header::ORIGIN) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}

fn granted(asked: &HeaderMap) -> String {
    let wished = asked.get_all(REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
    let names = wished.flat_map(|list| list.split(',')).map(|name| name.trim().to_ascii_lowercase());
    let is_parameter = |name: &String| name.starts_with(PARAMETER) && HeaderName::try_from(name.as_str()).is_ok();
    let parameters = names.filter(is_parameter).take(PARAMETERS_MAX);
    let all: Vec<_> = ALLOWED.iter().map(|name| (*name).to_string()).chain(parameters).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_17_a_preflight_grants_what_event_streams_and_mcp_need() {
        let mut asked = HeaderMap::new();
        let wish = "Last-Event-ID, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, authorization, \
                    content-type, Mcp-Param-Region, x-evil, mcp-param-\u{1}";
        asked.insert(REQUEST_HEADERS, HeaderValue::from_bytes(wish.replace('\u{1}', "b ad").as_bytes()).unwrap());
        let mut answer = HeaderMap::new();
        grant(&asked, "GET, POST", &mut answer);
        let allowed = answer[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
        let allowed: Vec<_> = allowed.split(", ").collect();
        for name in [
            "last-event-id",
            "mcp-protocol-version",
            "mcp-session-id",
            "mcp-method",
            "mcp-name",
            "authorization",
            "content-type",
            "mcp-param-region",
        ] {
            assert!(allowed.contains(&name), "{name} is not granted");
        }
        assert!(!allowed.contains(&"x-evil") && !allowed.iter().any(|name| name.contains(' ')));
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_METHODS], "GET, POST");
    }

    #[test]
    fn case_17_the_answer_itself_exposes_the_session() {
        let mut asked = HeaderMap::new();
        asked.insert(header::ORIGIN, HeaderValue::from_static("https://app.example.com"));
        let mut answer = HeaderMap::new();
        expose(&asked, &mut answer);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example.com");
        assert!(answer[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap().contains("Mcp-Session-Id"));
        assert_eq!(answer[header::VARY], "Origin");
    }
}
