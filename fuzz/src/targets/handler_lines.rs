//! `handler_lines`: what a child process may print, in whatever pieces it is read, and however the child exits.
//!
//! The first byte chooses the form (`t`, `j`, `e`, or any other), the second the exit. Of the rest 0x01 cuts a piece, 0x02 cuts
//! and changes the pipe, 0x03 cuts and repeats the piece before it, up to 128 times as the next byte says; all other bytes are what is printed.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use longhaul::clock::{Clock, Manual};
use longhaul::handler::command::{Form, Piece, Program, Settings};
use longhaul::handler::{LOG_MAX, RunContext};
use longhaul::job::{
    Asking, BodyRef, CODE_MAX, Carried, ClaimNo, End, JobId, MESSAGE_MAX, Millis, Outcome, Output,
    PROGRESS_MESSAGE_MAX, Part, Progress, QUESTION_KEY_MAX, QUESTION_MESSAGE_MAX, QUESTION_SCHEMA_MAX, Timestamp,
};
use longhaul::work::{Claim, Closed, Leave, NoBody, Report, StopFlag, WorkSource, content};
use serde_json::Value;

/// Largest result of these programs, in bytes.
const RESULT_MAX: u64 = 64 * 1024;
/// Most that a program prints, in bytes: some lines of the longest length.
const PRINTED_MAX: usize = 3 << 20;
/// Up to so much is also read in other pieces, and compared.
const COMPARED_MAX: usize = 64 * 1024;
/// What reading may hold at one time, whatever is printed: a line of 1 MiB, thrice as long where it is no text, and copies.
const MEMORY_MAX: usize = 12 << 20;
/// What is compact is nested less deeply than this, or refused.
const DEPTH_MAX: usize = 120;

/// Reads the bytes as what a program prints.
///
/// # Panics
/// When what came of it is not sound, or depends on the pieces.
pub fn run(bytes: &[u8]) {
    run_measured(bytes, |hear| {
        hear();
        0
    });
}

/// The same; `most_held` runs what it is given and says how many bytes were held for it.
pub fn run_measured(bytes: &[u8], most_held: impl FnOnce(&mut dyn FnMut()) -> usize) {
    let form = match bytes.first() {
        Some(b't') => Form::Text,
        Some(b'j') => Form::Json,
        Some(b'e') => Form::Events,
        other => [Form::Text, Form::Json, Form::Events][usize::from(other.copied().unwrap_or_default()) % 3],
    };
    let status = status(bytes.get(1).copied().unwrap_or(b'0'));
    let printed = Printed::read(bytes.get(2..).unwrap_or_default());
    let mut heard = None;
    let held = most_held(&mut || heard = Some(hear(form, &printed.pieces(), status, printed.keeps())));
    assert!(held <= MEMORY_MAX, "{held} bytes were held for {} printed ones", printed.len());
    let Some(heard) = heard else { return };
    outcome_is_sound(&heard.outcome);
    assert!(heard.log.len() <= LOG_MAX && std::str::from_utf8(&heard.log).is_ok());
    if printed.len() > COMPARED_MAX {
        return;
    }
    pieces_do_not_matter(form, &printed, status, &heard);
    whole_outputs_come_through(form, &printed.stdout(), status, &heard.outcome);
}

/// An exit code, or death by a signal.
fn status(byte: u8) -> ExitStatus {
    let codes = [0, 0, 0, 0, 1, 64, 65, 75, 77, 255, 0, 2, 13];
    match byte {
        b'0' => ExitStatus::from_raw(0),
        byte if byte % 16 < 13 => ExitStatus::from_raw(codes[usize::from(byte % 16)] << 8),
        byte => ExitStatus::from_raw([9, 15, 11][usize::from(byte % 16) - 13]),
    }
}

/// What comes out of the pipes.
struct Printed(Vec<(bool, Vec<u8>)>);

impl Printed {
    fn read(mut bytes: &[u8]) -> Self {
        let mut pieces: Vec<(bool, Vec<u8>)> = Vec::new();
        let (mut is_stdout, mut piece, mut len) = (true, Vec::new(), 0);
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = rest;
            if *byte > 3 || *byte == 0 {
                piece.push(*byte);
                len += 1;
                continue;
            }
            pieces.push((is_stdout, std::mem::take(&mut piece)));
            match byte {
                2 => is_stdout = !is_stdout,
                3 => {
                    let times = bytes.first().map_or(0, |times| 1_usize << (times % 8));
                    bytes = bytes.get(1..).unwrap_or_default();
                    let last = pieces.last().map_or(&[][..], |(_, piece)| piece);
                    let times = times.min((PRINTED_MAX - len.min(PRINTED_MAX)) / last.len().max(1));
                    let repeated = last.repeat(times);
                    len += repeated.len();
                    pieces.push((is_stdout, repeated));
                }
                _ => {}
            }
        }
        pieces.push((is_stdout, piece));
        Self(pieces)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, piece)| piece.len()).sum()
    }

    fn keeps(&self) -> bool {
        self.len() <= COMPARED_MAX
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        self.0
            .iter()
            .map(|(is_stdout, bytes)| if *is_stdout { Piece::Stdout(bytes) } else { Piece::Stderr(bytes) })
            .collect()
    }

    fn stdout(&self) -> Vec<u8> {
        self.0.iter().filter(|(is_stdout, _)| *is_stdout).flat_map(|(_, piece)| piece.iter().copied()).collect()
    }

    fn stderr(&self) -> Vec<u8> {
        self.0.iter().filter(|(is_stdout, _)| !*is_stdout).flat_map(|(_, piece)| piece.iter().copied()).collect()
    }
}

/// What came of it.
#[derive(Debug, PartialEq)]
struct Heard {
    outcome: Outcome,
    reports: Vec<Report>,
    log: Bytes,
}

fn hear(form: Form, pieces: &[Piece<'_>], status: ExitStatus, keeps: bool) -> Heard {
    let settings = Settings {
        command: vec!["program".to_owned()],
        output: form,
        env: Vec::new(),
        cwd: None,
        transient_exit_codes: vec![13],
        permanent_exit_codes: Vec::new(),
        ask_hold: Millis(0),
        cancel_grace: Millis(0),
        max_result: RESULT_MAX,
    };
    let program = Program::new(settings, None).expect("a good command");
    let source = Judge { keeps, reports: Mutex::default() };
    let clock: Arc<dyn Clock> = Arc::new(Manual::at_time(Timestamp(0)));
    let claim = claim();
    let context = RunContext::new(&source, &claim, &clock);
    let outcome = program.hear(pieces, status, &context);
    let log = context.into_log();
    Heard { outcome, reports: source.reports.into_inner().expect("no panic while held"), log }
}

fn claim() -> Claim {
    Claim {
        job: JobId::from_u128(1),
        job_type: "trial".into(),
        number: ClaimNo(1),
        attempt: 1,
        max_attempts: 5,
        payload: BodyRef::of(Part::Payload, 0, b"{}"),
        carried: Carried::default(),
        deadline: Timestamp(i64::MAX),
        idempotency_key: None,
        traceparent: None,
        stop: Arc::new(StopFlag::default()),
        answers: Arc::default(),
    }
}

/// Judges what is reported, and keeps it if there is not too much of it.
struct Judge {
    keeps: bool,
    reports: Mutex<Vec<Report>>,
}

impl WorkSource for Judge {
    fn claim(&self, _: usize) -> Result<Vec<Claim>, Closed> {
        Err(Closed)
    }

    fn body(&self, _: &Claim, _: BodyRef) -> Result<Bytes, NoBody> {
        Err(NoBody("none here".into()))
    }

    fn report(&self, _: &Claim, report: Report) {
        match &report {
            Report::Progress(progress) => progress_is_sound(progress),
            Report::Partial { data, count } => {
                assert!(*count > 0);
                json_is_sound(data);
            }
            Report::Ask { asking, count } => {
                assert!(*count > 0);
                asking_is_sound(asking);
            }
            Report::Delivered => panic!("nobody cancels here"),
        }
        if self.keeps {
            self.reports.lock().expect("no panic while held").push(report);
        }
    }

    fn finish(&self, _: &Claim, _: Leave, _: Bytes, freed: Box<dyn FnOnce() + Send>) {
        freed();
    }
}

/// A question that can be shown to people, and whose answers can be checked.
fn asking_is_sound(asking: &Asking) {
    assert!((1..=QUESTION_KEY_MAX).contains(&asking.key.len()) && asking.key.bytes().all(|b| b.is_ascii_graphic()));
    assert!((1..=QUESTION_MESSAGE_MAX).contains(&asking.message.len()));
    assert!(asking.schema.0.len() <= QUESTION_SCHEMA_MAX);
    let schema = json_is_sound(asking.schema.0.as_bytes());
    assert!(schema["type"] == "object");
    let body = json_is_sound(asking.to_json().as_bytes());
    assert_eq!((&body["key"], &body["schema"]), (&Value::from(&*asking.key), &schema));
}

fn progress_is_sound(progress: &Progress) {
    assert!(progress.percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{progress:?}");
    assert!(progress.message.as_ref().is_none_or(|message| message.len() <= PROGRESS_MESSAGE_MAX));
}

/// One JSON value on one line, of which every reader makes the same.
fn json_is_sound(bytes: &[u8]) -> Value {
    assert!(!bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "more than one line");
    serde_json::from_slice(bytes).unwrap_or_else(|why| panic!("{why}: {:?}", String::from_utf8_lossy(bytes)))
}

fn outcome_is_sound(outcome: &Outcome) {
    match outcome {
        Outcome::Done(output) => {
            output.data.as_ref().map(|data| json_is_sound(data));
            if let Some(content) = &output.content {
                json_is_sound(content);
                assert_eq!(content::check(std::str::from_utf8(content).expect("a text")), Ok(()));
            }
        }
        Outcome::Failed(failing) => {
            assert!(matches!(failing.end, End::Failed), "{failing:?}");
            let failure = &failing.failure;
            assert!(failure.message.len() <= MESSAGE_MAX);
            assert!(failure.code.as_ref().is_none_or(|code| code.len() <= CODE_MAX));
        }
        Outcome::Asked => {}
    }
}

/// Byte by byte, or each pipe at once: it is the same program.
fn pieces_do_not_matter(form: Form, printed: &Printed, status: ExitStatus, heard: &Heard) {
    let (stdout, stderr) = (printed.stdout(), printed.stderr());
    let at_once = hear(form, &[Piece::Stdout(&stdout), Piece::Stderr(&stderr)], status, true);
    let bytewise: Vec<Piece<'_>> =
        stdout.chunks(1).map(Piece::Stdout).chain(stderr.chunks(1).map(Piece::Stderr)).collect();
    assert_eq!(hear(form, &bytewise, status, true), at_once);
    assert_eq!((&heard.outcome, &heard.reports), (&at_once.outcome, &at_once.reports));
    if stdout.is_empty() || stderr.is_empty() {
        assert_eq!(heard.log, at_once.log);
    }
}

/// What is text, or is JSON to every reader, is the result as it was printed: a text without one line end at its end.
fn whole_outputs_come_through(form: Form, stdout: &[u8], status: ExitStatus, outcome: &Outcome) {
    if !status.success() || stdout.len() as u64 > RESULT_MAX {
        return assert!(form == Form::Events || matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    match (form, outcome) {
        (Form::Text, Outcome::Done(Output { data: Some(data), lossy, .. })) => {
            let line = stdout.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            assert_eq!(json_is_sound(data), Value::from(String::from_utf8_lossy(line.unwrap_or(stdout))));
            assert_eq!(*lossy, std::str::from_utf8(stdout).is_err());
        }
        (Form::Text, other) => panic!("a text is always a result: {other:?}"),
        (Form::Json, outcome) => {
            let value = std::str::from_utf8(stdout).ok().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let Some(value) = value.filter(|value| depth(value) <= DEPTH_MAX) else { return };
            let output = match outcome {
                Outcome::Done(output) => output,
                // Content blocks that are none.
                Outcome::Failed(failing)
                    if value["content"].is_array() && failing.failure.code.as_deref() == Some("protocol_error") =>
                {
                    return;
                }
                Outcome::Failed(_) | Outcome::Asked => panic!("refused: {outcome:?}"),
            };
            if output.content.is_none() {
                assert_eq!(json_is_sound(output.data.as_ref().expect("a value")), value);
            }
        }
        (Form::Events, _) => {}
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
