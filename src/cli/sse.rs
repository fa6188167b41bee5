//! Reads server-sent events as the HTML standard has them, however the bytes are cut.
//!
//! In: bytes as they come. Out: whole events, cursors without an event, hints when to come back. An event that was not
//! ended by an empty line is none. Never holds more than one event, and never one without limit.

/// Longest event, all its lines together, in bytes. A longer one is no event of ours: the stream is given up.
pub const EVENT_MAX: usize = 4 << 20;

/// What a stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An event.
    Event {
        /// Its `event:`; `message` if there was none.
        name: String,
        /// Its `data:` lines.
        data: String,
        /// The cursor after it.
        id: String,
    },
    /// The cursor moved without an event.
    Cursor(String),
    /// How many milliseconds to wait before coming back.
    Retry(u64),
}

/// The stream sends an event larger than `EVENT_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// A stream as far as it was read.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    after_return: bool,
    is_begun: bool,
    name: String,
    data: String,
    has_data: bool,
    has_id: bool,
    id: String,
}

impl Parser {
    /// Reads on, and adds what is complete to `frames`.
    ///
    /// # Errors
    /// `TooLong`: the stream is of no more use.
    pub fn read(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        for byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                // The second half of CRLF.
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    self.end_line(frames);
                }
                _ if self.line.len() + self.data.len() >= EVENT_MAX => return Err(TooLong),
                _ => self.line.push(*byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line);
        if !std::mem::replace(&mut self.is_begun, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned().into();
        }
        if line.is_empty() {
            return self.end_event(frames);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => {
                value.clone_into(&mut self.id);
                self.has_id = true;
            }
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                frames.extend(value.parse().ok().map(Frame::Retry));
            }
            // Comments begin with a colon and have an empty name; other fields are passed over, as the standard says.
            _ => {}
        }
    }

    fn end_event(&mut self, frames: &mut Vec<Frame>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let has_id = std::mem::take(&mut self.has_id);
        if std::mem::take(&mut self.has_data) {
            let name = if name.is_empty() { "message".to_owned() } else { name };
            frames.push(Frame::Event { name, data, id: self.id.clone() });
        } else if has_id {
            frames.push(Frame::Cursor(self.id.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        Parser::default().read(text.as_bytes(), &mut frames).expect("short enough");
        frames
    }

    fn event(name: &str, data: &str, id: &str) -> Frame {
        Frame::Event { name: name.to_owned(), data: data.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let cases = [
            ("data: a\n\n", vec![event("message", "a", "")]),
            ("data:a\r\rdata: b\r\n\r\n", vec![event("message", "a", ""), event("message", "b", "")]),
            ("event: x\ndata: a\ndata:\ndata:  b\nid: 7\n\n", vec![event("x", "a\n\n b", "7")]),
            (": a comment\n\ndata\n\n", vec![event("message", "", "")]),
            ("id: 1\n\ndata: a\n\n", vec![Frame::Cursor("1".to_owned()), event("message", "a", "1")]),
            ("id: 1\ndata: a\n\nid\ndata: b\n\n", vec![event("message", "a", "1"), event("message", "b", "")]),
            ("id: a\0b\ndata: a\n\n", vec![event("message", "a", "")]),
            ("retry: 250\nretry: -1\nretry: 1s\nretry\n\n", vec![Frame::Retry(250)]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![event("message", "a", "")]),
            ("event: x\n\ndata: a\n\n", vec![event("message", "a", "")]),
            ("unknown: x\nData: y\n\n", vec![]),
            ("data: never ended\n", vec![]),
            ("id: 9\ndata: never ended", vec![]),
        ];
        for (text, frames) in cases {
            assert_eq!(read(text), frames, "{text:?}");
        }
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut parser = Parser::default();
        let mut frames = Vec::new();
        let line = format!("data: {}\n", "x".repeat(1 << 20));
        let outcome = (0..8).map(|_| parser.read(line.as_bytes(), &mut frames)).find(Result::is_err);
        assert_eq!((outcome, frames.len()), (Some(Err(TooLong)), 0));
    }

    fn line_end() -> impl Strategy<Value = &'static str> {
        prop_oneof![Just("\n"), Just("\r"), Just("\r\n")]
    }

    proptest! {
        #[test]
        fn events_are_the_same_wherever_the_bytes_are_cut_and_however_lines_end(
            events in prop::collection::vec(("[a-z.]{1,9}", "[^\r\n]{0,20}", "[0-9a-f]{1,8}-[0-9]{1,4}"), 0..6),
            end in line_end(),
            cuts in prop::collection::vec(1..9usize, 1..40),
        ) {
            let mut text = String::new();
            let mut expected = Vec::new();
            for (name, data, id) in &events {
                text += &format!(": c{end}id: {id}{end}event: {name}{end}data: {data}{end}data: 2{end}{end}");
                expected.push(event(name, &format!("{data}\n2"), id));
            }
            let mut parser = Parser::default();
            let mut frames = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                parser.read(now, &mut frames).expect("short enough");
                rest = later;
            }
            prop_assert_eq!(frames, expected);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            let _ = Parser::default().read(&bytes, &mut Vec::new());
        }
    }
}
