//! Path and method to a call.
//!
//! Pure. Knows which methods a path has, and nothing of what they do.

use hyper::Method;
use hyper::header::{self, HeaderValue};

use super::problem::{Code, Problem};
use crate::job::JobId;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/mcp`
    Mcp,
    /// `/api/jobs`
    Jobs,
    /// `/api/events`
    Feed,
    /// `/api/jobs/{id}` and below.
    Job(JobId, Part),
    /// `/healthz`
    Healthz,
    /// `/readyz`
    Readyz,
    /// `/metrics`
    Metrics,
    /// `/api/backup`
    Backup,
}

/// What of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The job itself.
    Whole,
    /// `/cancel`
    Cancel,
    /// `/retry`
    Retry,
    /// `/input`
    Input,
    /// `/ticket`
    Ticket,
    /// `/events`
    Events,
    /// `/result`
    Result,
    /// `/partial`
    Partial,
    /// `/log`
    Log,
}

impl Part {
    /// What a ticket may read.
    pub const fn takes_ticket(self) -> bool {
        match self {
            Self::Whole | Self::Events | Self::Result | Self::Partial => true,
            // What a program says of itself is for the job's owner, not for whoever shows the job.
            Self::Cancel | Self::Retry | Self::Input | Self::Ticket | Self::Log => false,
        }
    }
}

const READ: &str = "GET, HEAD, OPTIONS";
const WRITE: &str = "POST, OPTIONS";
const BOTH: &str = "GET, HEAD, POST, OPTIONS";

impl Route {
    /// What is at this path.
    ///
    /// # Errors
    /// `no_such_path`; `no_such_job` for an id that is none.
    pub fn of(path: &str) -> Result<Self, Problem> {
        match path {
            "/mcp" => Ok(Self::Mcp),
            "/api/jobs" => Ok(Self::Jobs),
            "/api/events" => Ok(Self::Feed),
            "/api/backup" => Ok(Self::Backup),
            "/healthz" => Ok(Self::Healthz),
            "/readyz" => Ok(Self::Readyz),
            "/metrics" => Ok(Self::Metrics),
            _ => below_jobs(path),
        }
    }

    /// The value of `Allow`. What `/mcp` takes, `mcp` says; this is for its preflight.
    pub const fn allow(self) -> &'static str {
        match self {
            Self::Mcp => "GET, POST, DELETE, OPTIONS",
            Self::Jobs => BOTH,
            Self::Feed | Self::Backup | Self::Healthz | Self::Readyz | Self::Metrics => READ,
            Self::Job(_, part) => match part {
                Part::Whole | Part::Events | Part::Result | Part::Partial | Part::Log => READ,
                Part::Cancel | Part::Retry | Part::Input | Part::Ticket => WRITE,
            },
        }
    }

    /// Whether the path has that method; `mcp` judges its own.
    ///
    /// # Errors
    /// `method`, with `Allow`.
    pub fn check_method(self, method: &Method) -> Result<(), Problem> {
        if self == Self::Mcp || self.allow().split(", ").any(|allowed| allowed == method.as_str()) {
            return Ok(());
        }
        let problem = Problem::new(Code::Method, format!("this path has {}", self.allow()));
        Err(problem.with_header(header::ALLOW, HeaderValue::from_static(self.allow())))
    }
}

fn below_jobs(path: &str) -> Result<Route, Problem> {
    let Some(rest) = path.strip_prefix("/api/jobs/") else { return Err(no_such_path()) };
    let (id, part) = rest.split_once('/').unwrap_or((rest, ""));
    let part = match part {
        "" if !rest.ends_with('/') => Part::Whole,
        "cancel" => Part::Cancel,
        "retry" => Part::Retry,
        "input" => Part::Input,
        "ticket" => Part::Ticket,
        "events" => Part::Events,
        "result" => Part::Result,
        "partial" => Part::Partial,
        "log" => Part::Log,
        _ => return Err(no_such_path()),
    };
    let id = id.parse().map_err(|_| Problem::new(Code::NoSuchJob, "no such job"))?;
    Ok(Route::Job(id, part))
}

fn no_such_path() -> Problem {
    Problem::new(Code::NoSuchPath, "nothing is here; jobs are at /api/jobs, events at /api/events, MCP at /mcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0193a5d0-7c00-7000-8000-000000000001";

    #[test]
    fn each_path_has_its_call() {
        let id: JobId = ID.parse().unwrap();
        for (path, route) in [
            ("/mcp".to_string(), Route::Mcp),
            ("/api/jobs".into(), Route::Jobs),
            ("/api/events".into(), Route::Feed),
            ("/api/backup".into(), Route::Backup),
            (format!("/api/jobs/{ID}"), Route::Job(id, Part::Whole)),
            (format!("/api/jobs/{ID}/events"), Route::Job(id, Part::Events)),
            (format!("/api/jobs/{ID}/log"), Route::Job(id, Part::Log)),
            (format!("/api/jobs/{ID}/cancel"), Route::Job(id, Part::Cancel)),
            (format!("/api/jobs/{ID}/input"), Route::Job(id, Part::Input)),
            ("/healthz".into(), Route::Healthz),
        ] {
            assert_eq!(Route::of(&path), Ok(route), "{path}");
        }
    }

    #[test]
    fn other_paths_and_ids_are_missing() {
        for path in ["/", "", "*", "/api", "/api/jobs/", "/mcp/", "/API/jobs", "/api//jobs", "/api/jobs/x/y/z"] {
            let code = Route::of(path).map_err(|problem| problem.code);
            assert!(matches!(code, Err(Code::NoSuchPath | Code::NoSuchJob)), "{path}");
        }
        let upper = ID.to_uppercase().replace('0', "A");
        for id in ["x", "..", "%2e", &upper, "0193a5d07c0070008000000000000001"] {
            let code = Route::of(&format!("/api/jobs/{id}")).map_err(|problem| problem.code);
            assert_eq!(code, Err(Code::NoSuchJob), "{id}");
        }
        for part in ["/", "/cancel/", "/nothing", "//"] {
            let code = Route::of(&format!("/api/jobs/{ID}{part}")).map_err(|problem| problem.code);
            assert_eq!(code, Err(Code::NoSuchPath), "{part}");
        }
    }

    #[test]
    fn a_method_that_a_path_has_not_is_answered_with_those_it_has() {
        let problem = Route::Feed.check_method(&Method::POST).unwrap_err();
        assert_eq!(problem.code, Code::Method);
        assert_eq!(problem.into_response().headers()[header::ALLOW], READ);
        let id = ID.parse().unwrap();
        assert!(Route::Job(id, Part::Cancel).check_method(&Method::GET).is_err());
        assert!(Route::Job(id, Part::Whole).check_method(&Method::HEAD).is_ok());
        assert!(Route::Jobs.check_method(&Method::DELETE).is_err());
        assert!(Route::Jobs.check_method(&Method::TRACE).is_err());
    }
}
