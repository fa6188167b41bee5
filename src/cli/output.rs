//! The only place that prints. Results go to stdout, everything else to stderr; bars only to a terminal.
//!
//! In: values and texts, also from servers and jobs. Out: lines. Nothing that a job says can steer the terminal.

use std::io::{self, ErrorKind, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::failure::Failure;
use super::follow::Event;
use crate::job::cut;

/// Most of an event's data that its line shows, in bytes; `--json` shows all of it.
const DATA_MAX: usize = 120;

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// They are what was asked for.
    Out,
    /// They go beside a result.
    Err,
}

/// Says something on stdout at once, for whoever waits for that line. Who does not listen is not waited for.
pub fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Says on stderr why the process ends.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "longhaul: {}", clean(text));
}

/// What is printed, and how.
pub struct Output {
    /// One JSON value per line instead of text for people.
    pub json: bool,
    is_terminal: bool,
    bars: MultiProgress,
}

impl Output {
    /// For this process's stdout and stderr.
    pub fn new(json: bool) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { json, is_terminal: io::stdout().is_terminal(), bars }
    }

    /// A line of the result.
    ///
    /// # Errors
    /// `Closed` if nobody reads any more.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        let text = clean(text);
        self.bars.suspend(|| writeln!(io::stdout().lock(), "{text}")).map_err(|error| closed(&error))
    }

    /// A JSON value on a line of its own; nothing in it is changed.
    ///
    /// # Errors
    /// `Closed` if nobody reads any more.
    pub fn value(&self, value: &Value) -> Result<(), Failure> {
        self.bars.suspend(|| writeln!(io::stdout().lock(), "{value}")).map_err(|error| closed(&error))
    }

    /// Bytes of the result, as they are.
    ///
    /// # Errors
    /// `Closed` if nobody reads any more.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.bars.suspend(|| io::stdout().lock().write_all(bytes)).map_err(|error| closed(&error))
    }

    /// What a person should know beside the result.
    pub fn note(&self, text: &str) {
        // A note that cannot be told is not worth ending for.
        let _ = self.bars.suspend(|| writeln!(io::stderr().lock(), "{}", clean(text)));
    }

    /// Rows under a head: aligned on a terminal, apart by tabs and without the head elsewhere.
    ///
    /// # Errors
    /// `Closed` if nobody reads any more.
    pub fn table(&self, head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        if !self.is_terminal {
            return rows.iter().try_for_each(|row| self.line(&row.join("\t")));
        }
        let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
        align(&[std::slice::from_ref(&head), rows].concat()).iter().try_for_each(|line| self.line(line))
    }

    /// An event of a job that is followed: onto its bar if there is one, else a line.
    ///
    /// # Errors
    /// `Closed` if nobody reads any more.
    pub fn event(&self, event: &Event, bar: Option<&Bar>, stream: Stream) -> Result<(), Failure> {
        if self.json {
            return match stream {
                Stream::Out => {
                    self.bars.suspend(|| writeln!(io::stdout().lock(), "{}", event.line)).map_err(|e| closed(&e))
                }
                Stream::Err => Ok(()),
            };
        }
        let told_by_bar = bar.is_some_and(|bar| bar.show(event));
        match stream {
            _ if told_by_bar => Ok(()),
            Stream::Out => self.line(&event_line(event)),
            Stream::Err => {
                self.note(&event_line(event));
                Ok(())
            }
        }
    }

    /// A bar for a job, if somebody is there to see it.
    pub fn bar(&self, id: &str) -> Option<Bar> {
        if self.json || !self.is_terminal || !io::stderr().is_terminal() {
            return None;
        }
        let bar = self.bars.add(ProgressBar::new(100));
        // The template is ours and known to be good; without it the bar would only look plainer.
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {percent:>3}% {wide_msg}") {
            bar.set_style(style);
        }
        // The end of an id is what tells it from its neighbours.
        bar.set_prefix(id.rsplit('-').next().unwrap_or(id).to_owned());
        Some(Bar { bar })
    }
}

/// The bar of one job. Gone when it is dropped.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Shows an event; false if it deserves a line beside the bar.
    fn show(&self, event: &Event) -> bool {
        let payload = &event.payload;
        let share = share(payload);
        match event.event_type.as_str() {
            "job.created" | "job.started" => {
                self.bar.set_message(event.event_type.trim_start_matches("job.").to_owned());
                true
            }
            "job.progress" if share.is_some() || payload["message"].is_string() => {
                self.bar.set_position(share.unwrap_or(self.bar.position()));
                self.bar.set_message(clean(&step_text(payload)));
                true
            }
            _ => false,
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How far a job is, in percent.
fn share(payload: &Value) -> Option<u64> {
    let steps = payload["step"].as_f64().zip(payload["totalSteps"].as_f64()).filter(|(_, total)| *total > 0.0);
    let percent = payload["percent"].as_f64().or_else(|| steps.map(|(step, total)| 100.0 * step / total))?;
    // The cast saturates, and the clamp leaves nothing to cut.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    Some(percent.clamp(0.0, 100.0) as u64)
}

/// An event as one line: when, whose, what.
fn event_line(event: &Event) -> String {
    let time = event.timestamp.get(11..19).unwrap_or(&event.timestamp);
    let text = event_text(event);
    // One line per event, whatever a handler wrote: nobody may forge the next one.
    let text = text.trim_end().replace(['\n', '\r'], "⏎");
    format!("{time} {} {} {text}", event.job_id, event.event_type).trim_end().to_owned()
}

fn event_text(event: &Event) -> String {
    let payload = &event.payload;
    let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
    match event.event_type.as_str() {
        "job.created" => text("type"),
        "job.started" => format!("attempt {} of {}", payload["attempt"], payload["maxAttempts"]),
        "job.progress" if payload.get("retry").is_some() => format!(
            "attempt {} of {} failed: {}; the next in {} ms",
            payload["retry"],
            payload["maxAttempts"],
            error_text(&payload["error"]),
            payload["nextAttemptInMs"]
        ),
        "job.progress" => progress_text(payload),
        "job.input_required" => super::answer::questions(payload).join("; "),
        "job.input_received" => {
            let keys = payload["keys"].as_array().into_iter().flatten();
            keys.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        "job.completed" => text("resultSummary"),
        "job.failed" => {
            let code = payload["code"].as_str().map(|code| format!(", {code}")).unwrap_or_default();
            format!("{} ({}{code})", error_text(&payload["error"]), text("class"))
        }
        "job.canceled" => text("reason"),
        _ => {
            let text = payload.to_string();
            let cut = cut(&text, DATA_MAX);
            if cut.len() < text.len() { format!("{cut}…") } else { text }
        }
    }
}

fn error_text(error: &Value) -> String {
    let text = error.as_str().or_else(|| error["message"].as_str());
    text.map_or_else(|| error.to_string(), str::to_owned)
}

/// "2/4 50% ranking", as far as it is said.
fn progress_text(payload: &Value) -> String {
    let percent = payload["percent"].as_f64().map(|percent| format!("{percent:.0}% "));
    let (step, message) = (step_number(payload), payload["message"].as_str().unwrap_or_default());
    format!("{step}{}{message}", percent.unwrap_or_default())
}

/// "2/4 ranking": what a bar does not say by itself.
fn step_text(payload: &Value) -> String {
    step_number(payload) + payload["message"].as_str().unwrap_or_default()
}

fn step_number(payload: &Value) -> String {
    match (payload["step"].as_u64(), payload["totalSteps"].as_u64()) {
        (Some(step), Some(total)) => format!("{step}/{total} "),
        (Some(step), None) => format!("step {step} "),
        (None, _) => String::new(),
    }
}

fn align(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &'_ Vec<String>, column: usize| clean(row.get(column).map_or("", String::as_str));
    let width = |column: usize| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = widths.iter().enumerate().map(|(column, width)| format!("{:width$}", cell(row, column)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Control characters, which could steer a terminal, become visible.
fn clean(text: &str) -> String {
    let harmless = |c: char| c == '\n' || c == '\t' || !c.is_control();
    text.chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
}

fn closed(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Usage(format!("stdout cannot be written: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(event_type: &str, payload: Value) -> String {
        event_line(&Event {
            event_id: "00000001-1".to_owned(),
            event_type: event_type.to_owned(),
            job_id: "J".to_owned(),
            timestamp: "2026-11-30T12:34:56.789Z".to_owned(),
            payload,
            line: String::new(),
        })
    }

    #[test]
    fn each_event_is_one_line_that_says_what_matters() {
        let retry = json!({"retry": 1, "maxAttempts": 5, "nextAttemptInMs": 1100, "error": "no route"});
        let failed = json!({"error": "bad input", "class": "permanent", "code": "exit_65", "attempts": 1});
        let cases = [
            ("job.created", json!({"type": "t"}), "12:34:56 J job.created t"),
            ("job.started", json!({"attempt": 1, "maxAttempts": 5}), "12:34:56 J job.started attempt 1 of 5"),
            ("job.progress", json!({"step": 2, "totalSteps": 4, "message": "m"}), "12:34:56 J job.progress 2/4 m"),
            ("job.progress", json!({"percent": 12.5}), "12:34:56 J job.progress 12%"),
            ("job.progress", retry, "12:34:56 J job.progress attempt 1 of 5 failed: no route; the next in 1100 ms"),
            ("job.partial", json!({"gifts": [1]}), "12:34:56 J job.partial {\"gifts\":[1]}"),
            (
                "job.input_required",
                json!({"questions": [{"key": "a", "message": "A?", "schema": {}}]}),
                "12:34:56 J job.input_required a: A? {}",
            ),
            ("job.input_received", json!({"keys": ["a", "b"]}), "12:34:56 J job.input_received a, b"),
            ("job.completed", json!({"resultSummary": "s"}), "12:34:56 J job.completed s"),
            ("job.failed", failed, "12:34:56 J job.failed bad input (permanent, exit_65)"),
            ("job.canceled", json!({"reason": "user"}), "12:34:56 J job.canceled user"),
        ];
        for (event_type, payload, expected) in cases {
            assert_eq!(line(event_type, payload), expected);
        }
    }

    #[test]
    fn nothing_that_a_job_says_can_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\rc\u{9b}d\u{7}\n\té"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}\n\té");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["ID".to_owned(), "T".to_owned()], vec!["ü".to_owned(), "long".to_owned()]];
        assert_eq!(align(&rows), ["ID  T", "ü   long"]);
    }

    #[test]
    fn the_share_of_a_job_is_between_nothing_and_all() {
        assert_eq!(share(&json!({"step": 1, "totalSteps": 4})), Some(25));
        assert_eq!(share(&json!({"percent": 250})), Some(100));
        assert_eq!(share(&json!({"step": 1, "totalSteps": 0})), None);
        assert_eq!(share(&json!({"message": "m"})), None);
    }
}
