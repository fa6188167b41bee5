//! Talks to the server's HTTP API for the client commands. Blocks.
//!
//! In: a path and what to send. Out: an answer, a stream, or a `Failure` that names the remedy. Never prints.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body, Timeout};

use super::failure::Failure;

/// The server that is asked when none is named.
pub const SERVER: &str = "http://127.0.0.1:7450";

/// Largest answer that is read into memory. Results beyond 64 KiB have their own URL and are passed on as they come.
pub const ANSWER_MAX: u64 = 64 << 20;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the server may be silent. Its streams say something every 15 s, unless it is configured otherwise; then a
/// stream that was given up for nothing resumes where it was.
const SILENCE: Duration = Duration::from_secs(60);

/// Bodies from this size on are sent once the server has said that it takes them: one that it refuses would be answered while it is still
/// written, and the connection closed. Smaller ones are written at once, before there is an answer.
const EXPECT_MIN: usize = 64 << 10;

/// A server, and who we are to it.
pub struct Client {
    agent: Agent,
    server: String,
    token: Option<String>,
    /// Who says that the server is there, if nobody has named it.
    said_by: Option<String>,
}

/// A whole answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// `Refused`: what answers there is no longhaul.
    pub fn json(&self) -> Result<Value, Failure> {
        let nonsense = |_| Failure::Refused("the answer is no JSON: is this a longhaul server?".to_owned());
        serde_json::from_slice(&self.body).map_err(nonsense)
    }
}

impl Client {
    /// A client for a server such as `http://127.0.0.1:7450`. Connects to nothing yet.
    ///
    /// # Errors
    /// `Usage` if the URL or the token cannot be one.
    pub fn new(server: &str, token: Option<String>) -> Result<Self, Failure> {
        let server = server.trim_end_matches('/');
        let host = server.strip_prefix("http://").or_else(|| server.strip_prefix("https://"));
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            return Err(Failure::Usage(format!("{server:?} is no URL such as {SERVER} (--server or LONGHAUL_SERVER)")));
        };
        if token.as_ref().is_some_and(|token| token.bytes().any(|byte| !byte.is_ascii_graphic())) {
            return Err(Failure::Usage("LONGHAUL_TOKEN holds characters that no token has".to_owned()));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        if ["127.", "localhost", "[::1]"].iter().any(|loopback| host.starts_with(loopback)) {
            // A proxy cannot know what our loopback is.
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().new_agent(), server: server.to_owned(), token, said_by: None })
    }

    /// The same, known from there: told when nobody answers.
    #[must_use]
    pub fn known_from(mut self, whom: Option<String>) -> Self {
        self.said_by = whom;
        self
    }

    /// The server, as a person is told of it.
    fn name(&self) -> String {
        match &self.said_by {
            Some(whom) => format!("{}, where {whom} says that it is", self.server),
            None => self.server.clone(),
        }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// `Unreachable`, `BrokeOff`; `Refused` with the server's reasons for any status but 2xx.
    pub fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, Failure> {
        self.whole(self.open(path, query, "application/json", None)?)
    }

    /// The same for something that may be gone.
    ///
    /// # Errors
    /// As `get`, but for a 404, which is `None`.
    pub fn find(&self, path: &str, query: &[(&str, String)]) -> Result<Option<Answer>, Failure> {
        let response = self.open(path, query, "application/json", None)?;
        if response.status() == 404 { Ok(None) } else { self.whole(response).map(Some) }
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// As `get`.
    pub fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        let body = serde_json::to_string(body).map_err(|why| Failure::Usage(why.to_string()))?;
        let mut request = self.agent.post(self.url(path)).content_type("application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if body.len() >= EXPECT_MIN {
            request = request.header("Expect", "100-continue");
        }
        let response = request.send(body).map_err(|error| self.sorted(&error))?;
        self.whole(response)
    }

    /// Opens a body that is passed on as it comes.
    ///
    /// # Errors
    /// As `get`.
    pub fn body(&self, path: &str) -> Result<Body, Failure> {
        let response = self.open(path, &[], "*/*", None)?;
        if response.status().is_success() { Ok(response.into_body()) } else { Err(self.refusal(response)) }
    }

    /// Opens an event stream after a cursor, whatever the status of the answer.
    ///
    /// # Errors
    /// `Unreachable`, `BrokeOff`.
    pub fn stream(&self, path: &str, cursor: Option<&str>) -> Result<Response<Body>, Failure> {
        self.open(path, &[], "text/event-stream", cursor)
    }

    fn open(
        &self,
        path: &str,
        query: &[(&str, String)],
        accept: &str,
        cursor: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(self.url(path)).header("Accept", accept);
        for (name, value) in query {
            request = request.query(name, value);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(cursor) = cursor {
            request = request.header("Last-Event-ID", cursor);
        }
        request.call().map_err(|error| self.sorted(&error))
    }

    /// Paths are ours; a server may also name whole URLs, of which the path counts.
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    fn whole(&self, mut response: Response<Body>) -> Result<Answer, Failure> {
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
        Ok(Answer { status, body: body.map_err(|error| self.sorted(&error))? })
    }

    /// What the server said instead of doing it.
    pub fn refusal(&self, response: Response<Body>) -> Failure {
        /// More of a refusal is not read.
        const REFUSAL_MAX: u64 = 256 << 10;
        let status = response.status();
        let mut text = Vec::new();
        // A refusal of which only the status arrived is still a refusal.
        let _ = response.into_body().into_reader().take(REFUSAL_MAX).read_to_end(&mut text);
        let Ok(problem) = serde_json::from_slice::<Problem>(&text) else {
            return Failure::Refused(format!("{} answers {status}: is this a longhaul server?", self.server));
        };
        Failure::Refused(problem.text(status.as_u16()))
    }

    /// The server stopped in the middle of an answer.
    pub fn broke_off(&self, why: &std::io::Error) -> Failure {
        Failure::BrokeOff { server: self.name(), why: why.to_string() }
    }

    fn sorted(&self, error: &ureq::Error) -> Failure {
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                Failure::Usage(format!("{:?} is no URL that can be asked: {error}", self.server))
            }
            ureq::Error::Io(why) if is_break(why.kind()) => self.broke_off(why),
            ureq::Error::Io(why) => Failure::Unreachable { server: self.name(), why: why.to_string() },
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                Failure::Unreachable { server: self.name(), why: error.to_string() }
            }
            ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => {
                Failure::BrokeOff { server: self.name(), why: error.to_string() }
            }
            _ => Failure::Unreachable { server: self.name(), why: error.to_string() },
        }
    }
}

/// What a refusal says to a person, with its remedy; `None` if the body is not one of a longhaul server.
pub fn refusal_text(status: u16, body: &[u8]) -> Option<String> {
    serde_json::from_slice::<Problem>(body).ok().map(|problem| problem.text(status))
}

/// Whether only a connection that had been made can end so.
fn is_break(kind: ErrorKind) -> bool {
    [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::UnexpectedEof]
        .contains(&kind)
}

/// `application/problem+json`, as far as a person wants to know it.
#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    errors: Vec<Violation>,
}

#[derive(Deserialize)]
struct Violation {
    #[serde(default)]
    pointer: String,
    #[serde(default)]
    message: String,
}

impl Problem {
    fn text(&self, status: u16) -> String {
        let mut text = format!("refused ({status} {})", self.code);
        if self.errors.is_empty() && !self.detail.is_empty() {
            text += &format!(": {}", self.detail);
        }
        for Violation { pointer, message } in &self.errors {
            text += &format!("\n  {}: {message}", if pointer.is_empty() { "it" } else { pointer });
        }
        match self.code.as_str() {
            "unauthenticated" => text += "\nSet LONGHAUL_TOKEN to a token that `longhaul token new` printed.",
            "busy" | "too_many" | "draining" | "disk_full" => text += "\nTry again later.",
            _ => {}
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_each_field_and_its_remedy() {
        let problem = |json: &str| serde_json::from_str::<Problem>(json).expect("a problem").text(422);
        let said =
            problem(r#"{"code":"schema","detail":"/a: b","errors":[{"pointer":"/a","message":"b"},{"message":"c"}]}"#);
        assert_eq!(said, "refused (422 schema)\n  /a: b\n  it: c");
        assert_eq!(
            problem(r#"{"code":"no_such_job","detail":"no such job"}"#),
            "refused (422 no_such_job): no such job"
        );
        assert!(problem(r#"{"code":"unauthenticated"}"#).contains("LONGHAUL_TOKEN"));
    }

    #[test]
    fn a_server_without_a_scheme_is_a_mistake_that_is_told() {
        for server in ["localhost:7450", "", "ftp://x", "http://"] {
            assert!(matches!(Client::new(server, None), Err(Failure::Usage(_))), "{server}");
        }
        assert!(matches!(Client::new(SERVER, Some("a b".to_owned())), Err(Failure::Usage(_))));
    }
}
