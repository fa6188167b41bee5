//! The whole stdout of a `text` or `json` program.
//!
//! In: bytes, up to a limit. Out: one JSON value. Decodes only at the end, so no character is ever cut in two.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json;
use super::pump::Sink;
use crate::job::{Class, Outcome, Output};
use crate::work::content;

/// What was written so far.
pub struct Collected {
    bytes: Vec<u8>,
    max: u64,
}

impl Collected {
    /// At most `max` bytes.
    pub fn new(max: u64) -> Self {
        Self { bytes: Vec::new(), max }
    }

    /// The output as text: a JSON string, without the one line end that programs put behind their last line.
    pub fn into_text(self) -> Output {
        let (text, lossy) = decode(self.bytes);
        Output { data: Some(string(without_line_end(&text))), lossy, ..Output::default() }
    }

    /// The output as the one JSON value that it is, or as the CallToolResult that it is.
    ///
    /// # Errors
    /// A protocol error if it is no JSON, or a CallToolResult with a bad content block.
    pub fn into_json(self) -> Result<Output, Outcome> {
        let (text, lossy) = decode(self.bytes);
        let value: &RawValue = serde_json::from_str(&text).map_err(|why| no_json(&why.to_string()))?;
        let value = value.get();
        if let Ok(call) = serde_json::from_str::<CallToolResult<'_>>(value)
            && call.content.get().starts_with('[')
        {
            return call.into_output(lossy);
        }
        Ok(Output { data: Some(compacted(value)?), lossy, ..Output::default() })
    }
}

impl Sink for Collected {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Outcome> {
        if (self.bytes.len() + bytes.len()) as u64 > self.max {
            let message = format!("the program wrote more than the {} bytes of max_result", self.max);
            return Err(Outcome::failed(Class::Fatal, Some("output_too_large"), &message));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn replies(&mut self) -> Result<Vec<u8>, Outcome> {
        Ok(Vec::new())
    }
}

/// MCP's form of a result, as far as it is taken apart.
#[derive(Deserialize)]
struct CallToolResult<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(rename = "isError", default)]
    is_error: bool,
}

impl CallToolResult<'_> {
    fn into_output(self, lossy: bool) -> Result<Output, Outcome> {
        content::check(self.content.get()).map_err(|why| protocol_error(&format!("the program's {why}")))?;
        let data = match self.structured {
            Some(value) => compacted(value.get())?,
            None => string(&text_of(self.content.get())),
        };
        let content = Some(compacted(self.content.get())?);
        Ok(Output { data: Some(data), content, is_error: self.is_error, lossy, summary: None })
    }
}

/// The text blocks of MCP content, one under the other: what a reader without MCP gets.
fn text_of(content: &str) -> String {
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content).unwrap_or_default();
    blocks.into_iter().filter_map(|block| block.text).collect::<Vec<_>>().join("\n")
}

fn decode(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}

/// Without one `\n` or `\r\n` at the very end; further ones are the program's own.
fn without_line_end(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
}

fn string(text: &str) -> Bytes {
    serde_json::Value::from(text).to_string().into()
}

fn compacted(value: &str) -> Result<Bytes, Outcome> {
    json::compact(value).map(Bytes::from).ok_or_else(|| no_json(json::UNSOUND))
}

fn no_json(why: &str) -> Outcome {
    protocol_error(&format!("the program's output is not one JSON value: {why}"))
}

fn protocol_error(message: &str) -> Outcome {
    Outcome::failed(Class::Fatal, Some("protocol_error"), message)
}
