//! Where a callback goes: an absolute URL, taken apart and held to what we call.
//!
//! In: what a client wrote. Out: its parts, or why it will not do. What cannot be written in ASCII, holds a user, or a fragment, is refused.

use std::net::IpAddr;

use hyper::Uri;

/// Longest URL that is called, in bytes.
pub const URL_MAX: usize = 1_024;

/// What is wrong with a URL of another scheme.
pub const BAD_SCHEME: &str = "must begin with https://";

/// A URL that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// TLS.
    pub is_secure: bool,
    /// As in the URL, lower case, without brackets.
    pub host: Box<str>,
    /// 443 or 80 if the URL names none.
    pub port: u16,
    /// `Host` header.
    pub authority: Box<str>,
    /// Path and query.
    pub path: Box<str>,
}

impl Target {
    /// Takes the URL apart.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn of(url: &str) -> Result<Self, &'static str> {
        if url.len() > URL_MAX {
            return Err("is too long");
        }
        // What one reader takes for a part of the host, another takes for its end.
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>`{}|^".contains(&byte)) {
            return Err("must be plain ASCII");
        }
        if url.contains('#') {
            return Err("must have no fragment");
        }
        let uri: Uri = url.parse().map_err(|_| "is not an absolute URL")?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(BAD_SCHEME),
        };
        let authority = uri.authority().ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("must hold no user and no password");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        // What follows the host is a port in decimal or nothing: some readers take more for one.
        let port = match authority.as_str().strip_prefix(authority.host()).map(|rest| rest.strip_prefix(':')) {
            Some(None) => Some(if is_secure { 443 } else { 80 }),
            Some(Some(port)) => port.parse::<u16>().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit())),
            None => None,
        };
        let port = port.filter(|_| !host.is_empty()).ok_or("names no host and port")?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = authority.as_str().to_ascii_lowercase();
        Ok(Self { is_secure, host: host.into(), port, authority: authority.into(), path: path.into() })
    }

    /// The host, if it is an address and not a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_comes_apart_or_is_refused() {
        let target = Target::of("https://Hooks.Example.org/a/b?c=d").expect("is one");
        assert_eq!((&*target.host, target.port, &*target.path), ("hooks.example.org", 443, "/a/b?c=d"));
        let target = Target::of("http://[::1]:8080").expect("is one");
        assert_eq!((target.address(), target.port, &*target.path), (Some("::1".parse().unwrap()), 8080, "/"));
        assert_eq!(&*target.authority, "[::1]:8080");
        for bad in [
            "",
            "hooks.example.org/a",
            "/a",
            "ftp://example.org",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://user@example.org",
            "https://user:pass@example.org",
            "https://example.org/#a",
            "https://example.org:0x50/",
            "https://example.org:99999/",
            "https://exa mple.org/",
            "https://ex\\ample.org/",
            "https://exämple.org/",
        ] {
            assert!(Target::of(bad).is_err(), "{bad}: {:?}", Target::of(bad));
        }
        assert!(Target::of(&format!("https://example.org/{}", "a".repeat(URL_MAX))).is_err());
    }
}
