//! What the service refused, as an MCP client and its model hear it.
//!
//! In: `Refused`. Out: a result with `isError` where the model can mend its call, else a JSON-RPC error with a code for programs.

use super::era::Revision;
use super::reply::Members;
use super::rpc::{Error, INTERNAL_ERROR, INVALID_PARAMS};
use crate::service::{Refused, Violation};

/// A call that was refused before a job existed.
pub(super) fn of_call(refused: &Refused, revision: Revision) -> Result<Members, Error> {
    match refused {
        Refused::Schema(violations) => complain(revision, &misfit(violations)),
        Refused::IdempotencyConflict(id) => complain(
            revision,
            &format!(
                "This idempotency key already names the job {id}, which has other arguments; nothing was started. Read that job with \
                 get_job, or send a new key for a new job."
            ),
        ),
        Refused::BadJson(why) => Err(Error::answered(INVALID_PARAMS, format!("params.arguments: {why}"))),
        Refused::BadField(violations) => {
            Err(Error::answered(INVALID_PARAMS, lines("The call cannot be taken:", violations)))
        }
        Refused::NoSuchType(_)
        | Refused::TooMany(_)
        | Refused::Busy
        | Refused::Draining
        | Refused::Unhealthy
        | Refused::DiskFull
        | Refused::Damaged(_)
        | Refused::NoSuchJob
        | Refused::NotWaiting(_)
        | Refused::NotDeadLettered
        | Refused::AlreadyReplayed(_)
        | Refused::Conflict => Err(internal(refused)),
    }
}

/// The same of a call that asked for a task: a result is nothing that its client waits for.
pub(super) fn of_task(refused: &Refused) -> Error {
    match of_call(refused, Revision::June2025) {
        // Before 2025-11-25 every refusal of a call is an error.
        Ok(_) => internal(refused),
        Err(error) => error,
    }
}

/// Arguments that do not fit the tool.
pub(super) fn misfit(violations: &[Violation]) -> String {
    lines(
        "The arguments do not fit the tool's input schema; nothing was started. Correct them and call again:",
        violations,
    )
}

/// Answers that do not fit their questions.
pub(super) fn misfit_answer(violations: &[Violation]) -> String {
    lines("The answers do not fit their questions, which stay open:", violations)
}

/// Some of several answers that do not fit their questions.
pub(super) fn unfit_answers(violations: &[Violation]) -> String {
    lines(
        "Some of params.inputResponses do not fit their questions, which stay open; the others were taken:",
        violations,
    )
}

/// A mistake that the model can mend: a result from 2025-11-25 on, -32602 before.
pub(super) fn complain(revision: Revision, text: &str) -> Result<Members, Error> {
    match revision {
        Revision::March2025 | Revision::June2025 => Err(Error::answered(INVALID_PARAMS, text)),
        Revision::November2025 | Revision::July2026 => Ok(Members::complaint(text)),
    }
}

/// Nothing that other arguments would mend.
pub(super) fn internal(refused: &Refused) -> Error {
    let (code, text) = match refused {
        Refused::TooMany(limit) => ("too_many", format!("the limit {limit} is reached; try again later")),
        Refused::Busy => ("busy", "the server is busy right now; try again in a moment".to_owned()),
        Refused::Draining => ("draining", "the server is shutting down; try again when it is back".to_owned()),
        Refused::DiskFull => ("disk_full", "the server's disk is nearly full; try again later".to_owned()),
        Refused::NoSuchJob => ("no_such_job", "there is no such job any more".to_owned()),
        Refused::Damaged(why) => ("damaged", format!("{why}; other jobs are not affected")),
        Refused::Unhealthy => ("unhealthy", "the server cannot go on and is stopping".to_owned()),
        Refused::NoSuchType(_)
        | Refused::BadJson(_)
        | Refused::BadField(_)
        | Refused::Schema(_)
        | Refused::IdempotencyConflict(_)
        | Refused::NotWaiting(_)
        | Refused::NotDeadLettered
        | Refused::AlreadyReplayed(_)
        | Refused::Conflict => ("internal", "the server refused its own request".to_owned()),
    };
    Error { data: Some(Box::new(serde_json::json!({ "code": code }))), ..Error::answered(INTERNAL_ERROR, text) }
}

fn lines(head: &str, violations: &[Violation]) -> String {
    violations.iter().fold(head.to_owned(), |mut text, violation| {
        let pointer = if violation.pointer.is_empty() { "(the whole)" } else { &violation.pointer };
        text.push_str("\n- ");
        text.push_str(pointer);
        text.push_str(": ");
        text.push_str(&violation.message);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_are_a_result_from_2025_11_25_on_and_an_error_before() {
        let refused = Refused::Schema(vec![
            Violation { pointer: "/budget".into(), message: "\"many\" is not of type \"number\"".into() },
            Violation { pointer: String::new(), message: "\"recipientProfile\" is a required property".into() },
        ]);
        let error = of_call(&refused, Revision::June2025).expect_err("an error");
        assert_eq!((error.status, error.code), (200, INVALID_PARAMS));
        for revision in [Revision::November2025, Revision::July2026] {
            let members = of_call(&refused, revision).expect("a result");
            let text = String::from_utf8(members.json).expect("is text");
            assert!(text.contains(r#"/budget: \"many\" is not of type \"number\""#), "{text}");
            assert!(text.ends_with(r#""isError":true"#), "{text}");
        }
    }
}
