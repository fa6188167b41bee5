//! One message to the server, and what comes back for it, whatever breaks off on the way.
//!
//! In: a message. Out: lines for the client, the answer last. A stream that breaks off is taken up again; a call whose answer never began is sent
//! again if that cannot start the work twice; else the client is told.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::bridge::Bridge;
use super::message::Message;
use crate::cli::client::refusal_text;
use crate::cli::sse::{Frame, Parser};
use crate::job::cut;
use crate::mcp::headers_of;

/// How long a server may be away, a restart for example, before the client is told.
pub const AWAY_MAX: Duration = Duration::from_secs(60);
/// Pause before somebody is asked again.
const PAUSE: Duration = Duration::from_millis(250);
/// Most of a method, or of what went wrong, that is logged, in bytes.
const LOGGED_MAX: usize = 500;
const SESSION: &str = "mcp-session-id";

/// What became of reading a stream.
pub enum Read {
    /// The answer came.
    Answered,
    /// It broke off after the event with this id.
    Broken(Option<String>),
}

/// What a client has heard of a request. One that is sent again is told of from where its job is, which may be known already.
#[derive(Default)]
pub struct Heard {
    progress: Option<f64>,
}

impl Heard {
    /// Whether this is no progress, or more than before: it has to rise.
    fn is_news(&mut self, data: &str) -> bool {
        let Some(progress) = Message::progress(data) else { return true };
        let is_news = self.progress.is_none_or(|before| progress > before);
        if is_news {
            self.progress = Some(progress);
        }
        is_news
    }
}

impl Bridge {
    /// Sends a message, and hands on what comes back.
    pub async fn exchange(&self, message: &Message) {
        let until = Instant::now() + AWAY_MAX;
        let (mut has_reopened, mut heard) = (false, Heard::default());
        let mut parameters = Vec::new();
        loop {
            let posted = self.post(message, &parameters).await;
            self.has_sent(message);
            let why = match posted {
                // Refused before anything was started: the tool may want arguments repeated in headers.
                Ok(response) if response.status() == StatusCode::BAD_REQUEST && parameters.is_empty() => {
                    parameters = self.parameters(message).await;
                    if !parameters.is_empty() {
                        continue;
                    }
                    match self.pass_on(message, response, &mut heard).await {
                        Ok(_) => return,
                        Err(why) => why.to_string(),
                    }
                }
                Ok(response)
                    if response.status() == StatusCode::NOT_FOUND && self.is_stale(message) && !has_reopened =>
                {
                    has_reopened = true;
                    self.reopen().await;
                    continue;
                }
                Ok(response) => match self.pass_on(message, response, &mut heard).await {
                    Ok(Read::Answered) => return,
                    Ok(Read::Broken(Some(last))) => return self.take_up(message, last, heard).await,
                    Ok(Read::Broken(None)) => "the server's answer broke off".to_owned(),
                    Err(why) => why.to_string(),
                },
                // It cannot be written as a request, now or ever.
                Err(why) if why.is_builder() => return self.tell_failure(message, &why.to_string()).await,
                Err(why) => why.to_string(),
            };
            self.place.miss();
            if !self.may_repeat(message) || Instant::now() > until {
                return self.tell_failure(message, &why).await;
            }
            sleep(PAUSE).await;
        }
    }

    /// A call may have started its work: only its key makes a second one safe.
    fn may_repeat(&self, message: &Message) -> bool {
        message.method != "tools/call" || message.text.contains("longhaul/idempotencyKey")
    }

    /// A session that the server does not know, of a message that belongs to one.
    fn is_stale(&self, message: &Message) -> bool {
        message.envelope.is_none() && message.method != "initialize" && self.session().is_some()
    }

    /// The headers that repeat arguments of this call, by the tool's schema; none if there are no such, or the schema cannot be had.
    async fn parameters(&self, message: &Message) -> Vec<(String, String)> {
        let (Some(version), "tools/call") = (&message.envelope, message.method.as_str()) else { return Vec::new() };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {},
        });
        let list = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {"_meta": meta}});
        let Ok(response) = self.post(&Message::read(list.to_string()), &[]).await else { return Vec::new() };
        let list: Value = serde_json::from_str(&response.text().await.unwrap_or_default()).unwrap_or_default();
        let call: Value = serde_json::from_str(&message.text).unwrap_or_default();
        let tools = list["result"]["tools"].as_array().into_iter().flatten();
        let tool = tools.into_iter().find(|tool| tool["name"] == call["params"]["name"]);
        tool.map(|tool| headers_of(&tool["inputSchema"], &call["params"]["arguments"])).unwrap_or_default()
    }

    async fn post(&self, message: &Message, parameters: &[(String, String)]) -> reqwest::Result<Response> {
        let request = self.request(Method::POST).header(CONTENT_TYPE, "application/json");
        let request = match &message.envelope {
            Some(version) => {
                let request = request.header("mcp-protocol-version", version).header("mcp-method", &message.method);
                message.name_header().into_iter().fold(request, |request, name| request.header("mcp-name", name))
            }
            None if message.method == "initialize" => request,
            None => self.in_session(request),
        };
        let request = parameters.iter().fold(request, |request, (name, value)| request.header(name, value));
        request.header(ACCEPT, "application/json, text/event-stream").body(message.text.clone()).send().await
    }

    /// Opens a session as a client once did; its id.
    pub async fn shake_hands(&self, handshake: &Message) -> reqwest::Result<Option<String>> {
        let response = self.post(handshake, &[]).await?;
        let id = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if let Some(id) = &id {
            let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            let request = self.request(Method::POST).header(SESSION, id).header(CONTENT_TYPE, "application/json");
            request.body(note).send().await?;
        }
        Ok(id)
    }

    fn in_session(&self, request: RequestBuilder) -> RequestBuilder {
        self.session().into_iter().fold(request, |request, session| request.header(SESSION, session))
    }

    fn request(&self, method: Method) -> RequestBuilder {
        // Nothing listens at port 0: then asking fails, and is tried again.
        let url = self.place.url().unwrap_or_else(|| "http://127.0.0.1:0".to_owned());
        let request = self.client.request(method, format!("{url}/mcp"));
        self.token.iter().fold(request, |request, token| request.bearer_auth(token))
    }

    async fn pass_on(&self, message: &Message, response: Response, heard: &mut Heard) -> reqwest::Result<Read> {
        let is_stream =
            response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if is_stream {
            return Ok(self.read(response, message.id.as_deref(), heard).await);
        }
        let (status, session) = (response.status(), response.headers().get(SESSION).cloned());
        let text = response.text().await?;
        if message.method == "initialize"
            && status.is_success()
            && let Some(session) = session.and_then(|session| session.to_str().ok().map(str::to_owned))
        {
            self.opened(session, message);
        }
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) if value.get("jsonrpc").is_some() || value.is_array() => {
                // What wanted no answer gets none, not even a refusal.
                if message.id.is_some() || message.method.is_empty() {
                    self.say(text).await;
                }
            }
            Ok(_) | Err(_) if status.is_success() => {}
            Ok(value) => self.tell_refusal(message, status, &text, &value).await,
            Err(_) => self.tell_refusal(message, status, &text, &Value::Null).await,
        }
        Ok(Read::Answered)
    }

    /// Hands on the messages of a stream, until the answer to `id`, or for ever.
    pub async fn read(&self, mut response: Response, id: Option<&str>, heard: &mut Heard) -> Read {
        let (mut parser, mut frames, mut last) = (Parser::default(), Vec::new(), None);
        while let Ok(Some(bytes)) = response.chunk().await {
            if parser.read(&bytes, &mut frames).is_err() {
                break;
            }
            for frame in frames.drain(..) {
                match frame {
                    Frame::Event { data, id: at, .. } => {
                        last = Some(at).filter(|at| !at.is_empty()).or(last);
                        let is_answer = id.is_some_and(|id| Message::answers(&data, id));
                        if !data.is_empty() && (id.is_none() || heard.is_news(&data)) {
                            self.say(data).await;
                        }
                        if is_answer {
                            return Read::Answered;
                        }
                    }
                    Frame::Cursor(at) => last = Some(at),
                    Frame::Retry(_) => {}
                }
            }
        }
        Read::Broken(last)
    }

    /// Goes on with a stream that broke off.
    async fn take_up(&self, message: &Message, mut last: String, mut heard: Heard) {
        let mut until = Instant::now() + AWAY_MAX;
        while Instant::now() < until {
            sleep(PAUSE).await;
            match self.get(Some(&last)).await {
                Ok(response) if response.status().is_success() => {
                    match self.read(response, message.id.as_deref(), &mut heard).await {
                        Read::Answered => return,
                        Read::Broken(newer) => {
                            last = newer.unwrap_or(last);
                            until = Instant::now() + AWAY_MAX;
                        }
                    }
                }
                Ok(response) if response.status().is_client_error() => break,
                Ok(_) | Err(_) => self.place.miss(),
            }
        }
        self.tell_failure(message, "the server's answer broke off and could not be taken up again").await;
    }

    /// Opens the session's stream: a new one, or what followed an event.
    pub async fn get(&self, last: Option<&str>) -> reqwest::Result<Response> {
        let request = self.in_session(self.request(Method::GET)).header(ACCEPT, "text/event-stream");
        last.into_iter().fold(request, |request, last| request.header("last-event-id", last)).send().await
    }

    /// Ends the session, if the server can be asked.
    pub async fn close(&self) {
        if self.session().is_some() {
            let request = self.in_session(self.request(Method::DELETE)).timeout(Duration::from_secs(1));
            // The client is gone either way; the session ends by itself in time.
            let _ = request.send().await;
        }
    }

    /// The server answers with a status in place of a message.
    async fn tell_refusal(&self, message: &Message, status: StatusCode, text: &str, body: &Value) {
        let said = body["detail"].as_str().or(body["title"].as_str());
        let foreign = || match said {
            Some(said) => format!("the server answers {status}: {said}"),
            None => format!("the server answers {status}"),
        };
        let why = refusal_text(status.as_u16(), text.as_bytes()).unwrap_or_else(foreign);
        if status.is_client_error() {
            // It was refused before anything was started.
            self.tell(message, &why).await;
        } else {
            self.tell_failure(message, &why).await;
        }
    }

    async fn tell_failure(&self, message: &Message, why: &str) {
        match message.method.as_str() {
            "tools/call" => {
                let text = format!("{why}; the call may have started a job all the same: list_jobs shows it");
                self.tell(message, &text).await;
            }
            _ => self.tell(message, why).await,
        }
    }

    async fn tell(&self, message: &Message, text: &str) {
        let (method, why) = (cut(&message.method, LOGGED_MAX), cut(text, LOGGED_MAX));
        tracing::warn!(method, why, "a message got no answer");
        let Some(id) = &message.id else { return };
        let error = serde_json::json!({ "code": -32603, "message": text });
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_that_a_client_has_heard_is_not_told_again() {
        let told =
            |progress: f64| format!(r#"{{"method":"notifications/progress","params":{{"progress":{progress}}}}}"#);
        let mut heard = Heard::default();
        let news = [0.0, 2.0, 2.0, 1.0, 2.5].map(|progress| heard.is_news(&told(progress)));
        assert_eq!(news, [true, true, false, false, true]);
        let others = [r#"{"method":"notifications/message","params":{"progress":1}}"#, r#"{"id":1,"result":{}}"#];
        assert!(others.iter().all(|other| heard.is_news(other)));
    }
}
