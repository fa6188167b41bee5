//! A command line with `{payload.field}` placeholders.
//!
//! In: a payload, as JSON text. Out: a program and its arguments. A value fills one argument or part of one, never two, and is
//! never read by a shell; what could be taken for an option is refused.

use serde_json::Value;

use crate::job::{Class, Outcome};

/// Program and arguments, with the places to fill.
#[derive(Debug, PartialEq, Eq)]
pub struct Template {
    program: String,
    arguments: Vec<Argument>,
}

#[derive(Debug, PartialEq, Eq)]
struct Argument {
    pieces: Vec<Piece>,
    /// A `--` stands before it: a leading `-` means nothing.
    guarded: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(String),
}

const OPEN: &str = "{payload.";

impl Template {
    /// Reads a command line as it is configured.
    ///
    /// # Errors
    /// What is wrong with it: no program, a placeholder in the program's name or without an end.
    pub fn parse(command: &[String]) -> Result<Self, String> {
        let Some((program, arguments)) = command.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err("expected a program and its arguments".into());
        };
        if program.contains(OPEN) {
            return Err("the program itself must not come from the payload".into());
        }
        let mut guarded = false;
        let mut parsed = Vec::with_capacity(arguments.len());
        for argument in arguments {
            parsed.push(Argument { pieces: pieces(argument)?, guarded });
            guarded |= argument == "--";
        }
        Ok(Self { program: program.clone(), arguments: parsed })
    }

    /// The fields that are filled in, with the numbers of their arguments.
    pub fn fields(&self) -> impl Iterator<Item = (usize, &str)> {
        let pieces = self
            .arguments
            .iter()
            .zip(1..)
            .flat_map(|(argument, at)| argument.pieces.iter().map(move |piece| (at, piece)));
        pieces.filter_map(|(at, piece)| match piece {
            Piece::Field(path) => Some((at, path.as_str())),
            Piece::Text(_) => None,
        })
    }

    /// Program and arguments for this payload.
    ///
    /// # Errors
    /// A permanent failure: a field is missing, or its value cannot be an argument.
    pub fn fill(&self, payload: &str) -> Result<Vec<String>, Outcome> {
        let needed = self.arguments.iter().flat_map(|argument| &argument.pieces).any(|piece| match piece {
            Piece::Field(_) => true,
            Piece::Text(_) => false,
        });
        let payload: Value = if needed {
            serde_json::from_str(payload).map_err(|why| refusal(&format!("the payload: {why}")))?
        } else {
            Value::Null
        };
        let arguments = self.arguments.iter().map(|argument| argument.fill(&payload));
        std::iter::once(Ok(self.program.clone())).chain(arguments).collect()
    }
}

impl Argument {
    fn fill(&self, payload: &Value) -> Result<String, Outcome> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Field(path) => filled.push_str(&text_at(payload, path)?),
            }
        }
        match self.pieces.first() {
            Some(Piece::Field(path)) if filled.starts_with('-') && !self.guarded => {
                Err(refusal(&format!("payload.{path} begins with '-' and could be taken for an option")))
            }
            Some(Piece::Field(_) | Piece::Text(_)) | None => Ok(filled),
        }
    }
}

/// The field's value as one argument: text as it is, anything else as JSON.
fn text_at(payload: &Value, path: &str) -> Result<String, Outcome> {
    let found = path.split('.').try_fold(payload, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => Err(refusal(&format!("payload.{path} is missing"))),
        Some(Value::String(text)) if text.contains('\0') => {
            Err(refusal(&format!("payload.{path} holds a NUL character, which no argument can")))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
    }
}

fn refusal(message: &str) -> Outcome {
    Outcome::failed(Class::Permanent, None, message)
}

fn pieces(argument: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = argument;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (path, behind) = after.split_once('}').ok_or_else(|| format!("{OPEN} without a }} in {argument:?}"))?;
        if path.split('.').any(|name| name.is_empty() || name.contains(['{', ' '])) {
            return Err(format!("no field's name: {{payload.{path}}} in {argument:?}"));
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before.into()));
        }
        pieces.push(Piece::Field(path.into()));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(command: &[&str]) -> Result<Template, String> {
        Template::parse(&command.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    fn filled(command: &[&str], payload: &str) -> Result<Vec<String>, String> {
        template(command).expect("a good command").fill(payload).map_err(|outcome| match outcome {
            Outcome::Failed(failing) => {
                assert_eq!(failing.failure.class, Class::Permanent);
                failing.failure.message.to_string()
            }
            Outcome::Done(_) | Outcome::Asked => unreachable!("no outcome of filling"),
        })
    }

    #[test]
    fn a_value_is_one_argument_whatever_it_holds() {
        let payload = r#"{"name": "a b; rm -rf $HOME \"'`", "n": 1.50, "deep": {"list": [1, 2]}}"#;
        let command = ["tool", "{payload.name}", "--n={payload.n}", "{payload.deep.list}", "{other} {", ""];
        let expected = ["tool", "a b; rm -rf $HOME \"'`", "--n=1.5", "[1,2]", "{other} {", ""];
        assert_eq!(filled(&command, payload).expect("all there"), expected);
    }

    #[test]
    fn what_looks_like_an_option_is_refused_unless_two_dashes_stand_before_it() {
        let payload = r#"{"x": "-rf", "n": -1}"#;
        assert!(filled(&["rm", "{payload.x}"], payload).is_err_and(|m| m.contains("begins with '-'")));
        assert!(filled(&["rm", "{payload.n}"], payload).is_err_and(|m| m.contains("payload.n")));
        assert!(filled(&["rm", "{payload.x}", "--"], payload).is_err());
        assert_eq!(filled(&["rm", "--", "{payload.x}"], payload).expect("guarded")[2], "-rf");
        assert_eq!(filled(&["rm", "--x={payload.x}"], payload).expect("no option of its own")[1], "--x=-rf");
    }

    #[test]
    fn a_field_that_is_missing_or_no_argument_is_a_permanent_failure() {
        for payload in ["{}", r#"{"x": null}"#, r#"{"x": "a\u0000b"}"#] {
            assert!(filled(&["tool", "{payload.x}"], payload).is_err_and(|m| m.contains("payload.x")), "{payload}");
        }
        assert!(filled(&["tool", "{payload.x.y}"], r#"{"x": "text"}"#).is_err());
    }

    #[test]
    fn a_command_that_cannot_be_meant_is_a_complaint_about_the_configuration() {
        let bad = [&[][..], &[""], &["{payload.tool}"], &["tool", "{payload.x"], &["tool", "{payload.}"]];
        for command in bad {
            assert!(template(command).is_err(), "{command:?}");
        }
    }
}
