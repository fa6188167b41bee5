//! `completion/complete`: what may be written in a place that a prompt or a URI template leaves open.
//!
//! In: a reference, a place and what was typed so far. Out: values that begin so. Job ids are the caller's own.

use serde::Deserialize;
use serde_json::json;

use super::prompts::Prompt;
use super::reply::Members;
use super::resources::uri::Part;
use super::rpc::{self, Error, INVALID_PARAMS, Message};
use super::{Endpoint, refusal};
use crate::job::JobId;
use crate::service::{Query, Viewer};

/// Most values of one answer.
pub const VALUES_MAX: usize = 100;
/// The most characters that a job id has.
const ID_LENGTH: usize = 36;

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Deserialize)]
struct Asked {
    #[serde(rename = "ref")]
    reference: Reference,
    argument: Place,
}

#[derive(Deserialize)]
struct Place {
    name: String,
    value: String,
}

/// Values, the likeliest first.
struct Values {
    shown: Vec<String>,
    /// How many there are, if they were counted.
    total: Option<usize>,
    has_more: bool,
}

/// The values.
///
/// # Errors
/// -32602: the parameters are not as the method has them, or there is no such prompt, template or place; -32603 if jobs cannot be read.
pub(super) async fn complete(endpoint: &Endpoint, viewer: &Viewer, message: &Message<'_>) -> Result<Members, Error> {
    let Asked { reference, argument: place } = message.params()?;
    let values = match &reference {
        Reference::Prompt { name } => {
            let shown = endpoint.shown();
            beginning(of_prompt(&shown.prompts, name, &place.name)?, &place.value)
        }
        Reference::Resource { uri } if Part::ALL.iter().any(|part| part.template() == uri) => {
            if place.name != "id" {
                return Err(no_place(&place.name));
            }
            job_ids(endpoint, viewer, &place.value).await?
        }
        Reference::Resource { uri } => {
            let shown = endpoint.shown();
            let known = shown.stock.suggestions(uri, &place.name).ok_or_else(|| no_place(&place.name))?;
            beginning(known, &place.value)
        }
    };
    let mut completion = json!({ "values": values.shown, "hasMore": values.has_more });
    if let Some(total) = values.total {
        completion["total"] = total.into();
    }
    let mut json = b"\"completion\":".to_vec();
    rpc::push_value(&mut json, &completion);
    Ok(Members { json, ..Members::default() })
}

fn no_place(name: &str) -> Error {
    let shown = crate::job::cut(name, 64);
    Error::answered(INVALID_PARAMS, format!("params.ref has no place {shown} here to complete"))
}

fn of_prompt<'a>(prompts: &'a [Prompt], prompt: &str, place: &str) -> Result<&'a [String], Error> {
    let found = prompts.iter().find(|known| known.name == prompt);
    let shown = crate::job::cut(prompt, 64);
    let prompt = found.ok_or_else(|| Error::answered(INVALID_PARAMS, format!("there is no prompt {shown}")))?;
    let argument = prompt.arguments.iter().find(|known| known.name == place);
    argument.map(|argument| &*argument.values).ok_or_else(|| no_place(place))
}

/// The known values that begin with what was typed, whatever its case.
fn beginning(known: &[String], typed: &str) -> Values {
    let typed = typed.to_lowercase();
    let mut fitting: Vec<String> =
        known.iter().filter(|value| value.to_lowercase().starts_with(&typed)).cloned().collect();
    let total = fitting.len();
    fitting.truncate(VALUES_MAX);
    Values { shown: fitting, total: Some(total), has_more: total > VALUES_MAX }
}

/// The caller's own jobs whose ids begin so, newest first. Looks at no others: ids that begin alike lie together.
async fn job_ids(endpoint: &Endpoint, viewer: &Viewer, typed: &str) -> Result<Values, Error> {
    let nothing = Values { shown: Vec::new(), total: Some(0), has_more: false };
    let Some((first, last)) = range(typed) else { return Ok(nothing) };
    let query = Query {
        owner: Some(viewer.principal.clone()),
        before: last.checked_add(1).map(JobId::from_u128),
        limit: VALUES_MAX + 1,
        ..Query::default()
    };
    let listing = endpoint.service.jobs(viewer, query).await.map_err(|refused| refusal::internal(&refused))?;
    let ids = listing.jobs.iter().map(|head| head.job.id());
    let mut shown: Vec<String> = ids.take_while(|id| id.as_u128() >= first).map(|id| id.to_string()).collect();
    let has_more = shown.len() > VALUES_MAX;
    shown.truncate(VALUES_MAX);
    Ok(Values { total: (!has_more).then_some(shown.len()), shown, has_more })
}

/// The least and greatest id that begin with `typed`; `None` if none can.
fn range(typed: &str) -> Option<(u128, u128)> {
    let template = "00000000-0000-0000-0000-000000000000";
    let fits = |(typed, template): (u8, u8)| match template {
        b'-' => typed == b'-',
        _ => typed.is_ascii_digit() || (b'a'..=b'f').contains(&typed),
    };
    if typed.len() > ID_LENGTH || !typed.bytes().zip(template.bytes()).all(fits) {
        return None;
    }
    let filled = |with: &str| {
        let digits: String = typed.chars().filter(|char| *char != '-').collect();
        let rest = with.repeat(32 - digits.len());
        u128::from_str_radix(&(digits + &rest), 16).ok()
    };
    Some((filled("0")?, filled("f")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_begin_alike_lie_in_one_range() {
        assert_eq!(range(""), Some((0, u128::MAX)));
        let id = JobId::from_u128(0x0190_b5a0_0000_7000_8000_0000_0000_abcd);
        let text = id.to_string();
        for length in 0..=text.len() {
            let (first, last) = range(&text[..length]).expect("a beginning");
            assert!((first..=last).contains(&id.as_u128()), "{}", &text[..length]);
        }
        assert_eq!(range(&text), Some((id.as_u128(), id.as_u128())));
        for no_beginning in ["x", "0190B", "01-", "0190b5a00", "語", &format!("{text}0")] {
            assert_eq!(range(no_beginning), None, "{no_beginning}");
        }
    }

    #[test]
    fn at_most_a_hundred_values_are_told_and_how_many_there_are() {
        let known: Vec<String> = (0..150).map(|n| format!("Value {n}")).chain(["other".into()]).collect();
        let values = beginning(&known, "value 1");
        assert_eq!((values.shown.len(), values.total, values.has_more), (61, Some(61), false));
        let values = beginning(&known, "");
        assert_eq!((values.shown.len(), values.total, values.has_more), (VALUES_MAX, Some(151), true));
    }
}
