//! Whom a request may be addressed to and where it may come from: the defence against DNS rebinding and foreign pages.
//!
//! In: the head of a request. Out: nothing, or 403. Looks at every request, also at those without credentials.

use hyper::HeaderMap;
use hyper::Uri;
use hyper::header;

use super::problem::{Code, Problem};

/// Names that always reach us, with any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The rule of `server.allowed_hosts` and `server.allowed_origins`.
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// What the guard found out on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// None was sent, or the server's own.
    Own,
    /// One of `server.allowed_origins`: its answers carry CORS headers.
    Configured,
}

impl Guard {
    /// A guard that knows these names and origins; the host of `public_url` is one of the names.
    pub fn new(hosts: &[String], origins: &[String], public_url: Option<&str>) -> Self {
        let lower = |text: &String| text.trim_end_matches('/').to_ascii_lowercase();
        let public = public_url.and_then(|url| url.parse::<Uri>().ok());
        let public = public.as_ref().and_then(|url| url.host()).map(str::to_ascii_lowercase);
        Self { hosts: hosts.iter().map(lower).chain(public).collect(), origins: origins.iter().map(lower).collect() }
    }

    /// Lets a request through.
    ///
    /// # Errors
    /// `bad_host` unless exactly one allowed host is named, by `Host`, `:authority` or both alike; `bad_origin` for an
    /// origin that is neither configured nor the server's own, `null` among them.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Origin, Problem> {
        let host = named_host(uri, headers)?;
        if !self.allows_host(host) {
            return Err(bad_host("this Host is not one of the loopback names or server.allowed_hosts"));
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(Origin::Own) };
        match origin.to_str() {
            Ok(origin) if origins.next().is_none() => self.judge(origin.trim(), host),
            Ok(_) | Err(_) => Err(bad_origin()),
        }
    }

    fn judge(&self, origin: &str, host: &str) -> Result<Origin, Problem> {
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Ok(Origin::Configured);
        }
        // The host was allowed before, so a page of that very host is our own.
        let own = origin.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        match own {
            Some((_, authority)) if authority.eq_ignore_ascii_case(host) => Ok(Origin::Own),
            Some(_) | None => Err(bad_origin()),
        }
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        LOOPBACK.iter().any(|loopback| loopback.eq_ignore_ascii_case(name))
            || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name))
    }
}

fn named_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, Problem> {
    let mut sent = headers.get_all(header::HOST).iter();
    let host = match (sent.next(), sent.next()) {
        (None, _) => None,
        (Some(host), None) => Some(host.to_str().map_err(|_| bad_host("Host is not text"))?.trim()),
        (Some(_), Some(_)) => return Err(bad_host("more than one Host")),
    };
    match (uri.authority().map(|authority| authority.as_str()), host) {
        (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Ok(authority),
        (Some(_), Some(_)) => Err(bad_host("Host and the request's authority differ")),
        (Some(only), None) | (None, Some(only)) => Ok(only),
        (None, None) => Err(bad_host("Host is missing")),
    }
}

/// The name in `name[:port]`; `None` if it is neither, or names a user.
fn without_port(host: &str) -> Option<&str> {
    if host.contains('@') {
        return None;
    }
    let name_end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, port) = host.split_at(name_end);
    let port_is_one = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    (port_is_one && !name.is_empty()).then_some(name)
}

fn bad_host(why: &str) -> Problem {
    Problem::new(Code::BadHost, why)
}

fn bad_origin() -> Problem {
    Problem::new(Code::BadOrigin, "this Origin is not one of server.allowed_origins")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn guard() -> Guard {
        let hosts = ["jobs.example.com".to_string(), "other.example:8443".to_string()];
        Guard::new(&hosts, &["https://app.example.com".to_string()], Some("https://public.example/base"))
    }

    fn check(uri: &'static str, fields: &[(&'static str, &'static str)]) -> Result<Origin, Code> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        guard().check(&Uri::from_static(uri), &headers).map_err(|problem| problem.code)
    }

    #[test]
    fn only_loopback_names_and_configured_hosts_are_served() {
        for host in [
            "localhost",
            "LocalHost:80",
            "127.0.0.1:7450",
            "[::1]:7450",
            "[::1]",
            "jobs.example.com",
            "jobs.example.com:99",
            "other.example:8443",
            "public.example",
        ] {
            assert_eq!(check("/", &[("host", host)]), Ok(Origin::Own), "{host}");
        }
        for host in [
            "evil.example.com",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "other.example",
            "other.example:1",
            "",
            "localhost:",
            "localhost:99999",
            "localhost:80:80",
            "user@localhost",
            "[::1",
            "[::1]x",
            "::1",
            ":80",
            "localhost.",
            "127.1",
            "0.0.0.0",
        ] {
            assert_eq!(check("/", &[("host", host)]), Err(Code::BadHost), "{host}");
        }
        assert_eq!(check("/", &[]), Err(Code::BadHost));
        assert_eq!(check("/", &[("host", "localhost"), ("host", "localhost")]), Err(Code::BadHost));
    }

    #[test]
    fn an_authority_counts_like_a_host_and_must_not_contradict_it() {
        assert_eq!(check("http://localhost:7450/api/jobs", &[]), Ok(Origin::Own));
        assert_eq!(check("http://evil.example/api/jobs", &[]), Err(Code::BadHost));
        assert_eq!(check("http://evil.example/", &[("host", "localhost")]), Err(Code::BadHost));
        assert_eq!(check("http://localhost/", &[("host", "evil.example")]), Err(Code::BadHost));
    }

    #[test]
    fn only_the_servers_own_and_configured_origins_may_ask() {
        let from = |origin| check("/", &[("host", "localhost:7450"), ("origin", origin)]);
        assert_eq!(from("http://localhost:7450"), Ok(Origin::Own));
        assert_eq!(from("https://app.example.com"), Ok(Origin::Configured));
        for origin in [
            "null",
            "",
            "http://localhost:3000",
            "https://app.example.com.evil.com",
            "http://app.example.com",
            "file://",
            "ftp://localhost:7450",
            "localhost:7450",
            "https://app.example.com/x",
        ] {
            assert_eq!(from(origin), Err(Code::BadOrigin), "{origin}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
        assert_eq!(check("/", &two), Err(Code::BadOrigin));
    }
}
