//! The whole stdout of a `text` or `json` program.
//!
//! In: bytes, up to a limit. Out: one JSON value. Holds the result once, in the form in which it is kept: text becomes a JSON string as
//! it comes, JSON is made compact where it lies.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json;
use super::pump::Sink;
use super::text::{Decoder, Quoted, append};
use crate::job::{Class, JSON_DEPTH_MAX, Outcome, Output};
use crate::work::content;

/// What was written so far.
pub struct Collected {
    decoder: Decoder,
    kept: Kept,
    taken: u64,
    max: u64,
}

enum Kept {
    Text(Quoted),
    Json(Vec<u8>),
}

impl Collected {
    /// At most `max` bytes, to become one string.
    pub fn text(max: u64) -> Self {
        Self::new(max, Kept::Text(Quoted::new(usize::try_from(max).unwrap_or(usize::MAX))))
    }

    /// At most `max` bytes, which are one JSON value.
    pub fn json(max: u64) -> Self {
        Self::new(max, Kept::Json(Vec::new()))
    }

    fn new(max: u64, kept: Kept) -> Self {
        Self { decoder: Decoder::default(), kept, taken: 0, max }
    }

    /// The output as text: a JSON string, without the one line end that programs put behind their last line. Or as the one JSON value that it
    /// is, or as the CallToolResult that it is.
    ///
    /// # Errors
    /// Of JSON: a protocol error if it is none, or a CallToolResult with a bad content block.
    pub fn into_output(mut self) -> Result<Output, Outcome> {
        let lossy = self.decoder.finish(|text| self.kept.push(text, self.max));
        match self.kept {
            Kept::Text(mut text) => {
                text.drop_line_end();
                Ok(Output { data: Some(text.finish().into()), lossy, ..Output::default() })
            }
            Kept::Json(text) => value(text, lossy),
        }
    }
}

impl Kept {
    fn push(&mut self, text: &str, most: u64) {
        match self {
            Self::Text(quoted) => quoted.push(text),
            Self::Json(json) => append(json, text.as_bytes(), usize::try_from(most).unwrap_or(usize::MAX)),
        }
    }
}

impl Sink for Collected {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Outcome> {
        self.taken += bytes.len() as u64;
        if self.taken > self.max {
            let message = format!("the program wrote more than the {} bytes of max_result", self.max);
            return Err(Outcome::failed(Class::Fatal, Some("output_too_large"), &message));
        }
        let (kept, max) = (&mut self.kept, self.max);
        self.decoder.push(bytes, |text| kept.push(text, max));
        Ok(())
    }

    fn replies(&mut self) -> Result<Vec<u8>, Outcome> {
        Ok(Vec::new())
    }
}

fn value(text: Vec<u8>, lossy: bool) -> Result<Output, Outcome> {
    let (text, depth) = json::squeezed(text).map_err(|why| no_json(&why))?;
    // Of anything else but an object, what is wrong would be said with all of it.
    if text.starts_with(b"{")
        && let Ok(call) = serde_json::from_slice::<CallToolResult<'_>>(&text)
        && call.content.get().starts_with('[')
        // Its members may be as deep as any value.
        && depth <= JSON_DEPTH_MAX + 1
    {
        return call.into_output(&text, lossy);
    }
    if depth > JSON_DEPTH_MAX {
        return Err(no_json(json::UNSOUND));
    }
    Ok(Output { data: Some(text), lossy, ..Output::default() })
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
    /// `whole` is what it was read from: its members become parts of that.
    fn into_output(self, whole: &Bytes, lossy: bool) -> Result<Output, Outcome> {
        content::check(self.content.get()).map_err(|why| protocol_error(&format!("the program's {why}")))?;
        let part = |value: &RawValue| whole.slice_ref(value.get().as_bytes());
        let data = match self.structured {
            Some(value) => part(value),
            None => text_of(self.content.get()),
        };
        let content = Some(part(self.content));
        Ok(Output { data: Some(data), content, is_error: self.is_error, lossy, summary: None })
    }
}

/// The text blocks of MCP content, one under the other, as a JSON string: what a reader without MCP gets.
fn text_of(content: &str) -> Bytes {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Option<std::borrow::Cow<'a, str>>,
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| serde_json::from_str::<Block<'_>>(block.get()).ok()?.text);
    let (mut quoted, mut between) = (Quoted::new(content.len()), "");
    for text in texts {
        quoted.push(between);
        quoted.push(&text);
        between = "\n";
    }
    quoted.finish().into()
}

fn no_json(why: &str) -> Outcome {
    protocol_error(&format!("the program's output is not one JSON value: {why}"))
}

fn protocol_error(message: &str) -> Outcome {
    Outcome::failed(Class::Fatal, Some("protocol_error"), message)
}
