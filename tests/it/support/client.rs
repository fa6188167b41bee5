//! A plain HTTP client: JSON in, status and JSON out.

use std::time::Duration;

use serde_json::{Value, json};

use super::schemas::Exchange;
use super::sse::Stream;

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    base: String,
    agent: ureq::Agent,
    token: Option<String>,
}

/// Status, headers and body of an answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Holds what MCP has answered to this request against the schema of its revision.
    pub fn hold(&self, asked: &[(&str, &str)], body: &[u8]) {
        let field = |name: &str| asked.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let mut exchange = Exchange::of(field("mcp-session-id"), field("mcp-protocol-version"), body);
        if let Some(session) = self.header("mcp-session-id") {
            exchange.opens(session);
        }
        match self.header("content-type").unwrap_or_default() {
            "application/json" => exchange.hears(self.text.as_bytes()),
            "text/event-stream" => exchange.hears_events(self.text.as_bytes()),
            // A problem of HTTP, or nothing.
            _ => {}
        }
    }

    /// A header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Longest that a test waits for one answer: a bound, not a measure.
const ANSWER_MAX: Duration = Duration::from_secs(120);

impl Client {
    /// A client of the server at this URL.
    pub fn new(base: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(ANSWER_MAX))
            .max_idle_connections(0)
            .build();
        Self { base: base.to_owned(), agent: config.into(), token: None }
    }

    /// The same with a bearer token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same, but it gives up on an answer after so long.
    pub fn patient_for(&self, longest: Duration) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(longest));
        Self { agent: config.max_idle_connections(0).build().into(), ..self.clone() }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// GET with header fields.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in self.headers(headers) {
            request = request.header(name, value);
        }
        read(request.call()?)
    }

    /// HEAD.
    pub fn head(&self, path: &str) -> Answer {
        let mut request = self.agent.head(self.url(path));
        for (name, value) in self.headers(&[]) {
            request = request.header(name, value);
        }
        read(request.call().expect("the server answers")).expect("no body")
    }

    /// POST with header fields.
    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.post(self.url(path));
        for (name, value) in self.headers(headers) {
            request = request.header(name, value);
        }
        let answer = read(request.send(body)?)?;
        if path == "/mcp" {
            answer.hold(headers, body);
        }
        Ok(answer)
    }

    fn headers(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let token = self.token.iter().map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
        token.chain(more.iter().map(|(n, v)| (n.to_string(), v.to_string()))).collect()
    }

    /// GET, JSON.
    pub fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[("accept", "application/json")]).expect("the server answers")
    }

    /// POST, JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).expect("the server answers")
    }

    /// POST, JSON, where the server may be gone.
    pub fn try_post(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        self.post_with(path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// Submits a trial job; its id.
    pub fn submit(&self, payload: Value) -> String {
        self.submit_job(json!({"type": "trial", "payload": payload}))
    }

    /// Submits a job; its id.
    pub fn submit_job(&self, job: Value) -> String {
        let answer = self.post("/api/jobs", &job);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// The job as it is.
    pub fn job(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/jobs/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The job once it has ended.
    pub fn ended(&self, id: &str) -> Value {
        loop {
            let answer = self.get(&format!("/api/jobs/{id}?wait=30s"));
            assert_eq!(answer.status, 200, "{answer:?}");
            let job = answer.json();
            if matches!(job["status"].as_str(), Some("completed" | "failed" | "canceled")) {
                return job;
            }
        }
    }

    /// All events of a path such as `/api/events`, page by page, from the earliest or after a cursor.
    pub fn pages(&self, path: &str, after: Option<&str>) -> Vec<Value> {
        let mut events = Vec::new();
        let mut cursor = after.map(str::to_owned);
        loop {
            let query = cursor.as_ref().map(|cursor| format!("?last_event_id={cursor}")).unwrap_or_default();
            let page = self.get(&format!("{path}{query}")).json();
            events.extend(page["events"].as_array().expect("events").iter().cloned());
            cursor = page["cursor"].as_str().map(str::to_owned);
            if page["hasMore"] != true {
                return events;
            }
        }
    }

    /// Opens an event stream, from the beginning of what is asked for or after an id.
    pub fn stream(&self, path: &str, last_event_id: Option<&str>) -> Stream {
        Stream::open(&self.base, path, last_event_id, self.token.as_deref())
    }

    /// The same where the server may be gone.
    pub fn try_stream(&self, path: &str, last_event_id: Option<&str>) -> std::io::Result<Stream> {
        Stream::try_open(&self.base, path, last_event_id, self.token.as_deref())
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let headers = response.headers().iter();
    let headers = headers.map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned())).collect();
    let text = response.body_mut().with_config().limit(256 * 1024 * 1024).read_to_string()?;
    Ok(Answer { status: response.status().as_u16(), headers, text })
}
