//! Questions of jobs: which are open, and answering them.
//!
//! In: what people say to a job's questions. Out: the job with it, durable, or each thing that is wrong. An answer is
//! given once; given again it is the same answer, whoever else came in between.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::submit::one_line;
use super::tool::violations;
use super::{Refused, Service, Viewer, Violation, json};
use crate::core::ActRefusal;
use crate::job::{
    ANSWER_MAX, Action, Answer as Named, Body, BodyRef, Command, Head, Job, JobId, Part, QUESTION_KEY_MAX,
    QUESTIONS_MAX, Standing, Timestamp, canonical, cut,
};
use crate::store::{self, Store};

/// How often an answer is decided again because somebody else answered in between.
const TRIES_MAX: usize = 4;

/// What a person says to one question.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What is made of it.
    pub action: Action,
    /// For `Action::Accept`: an object that fits the question's schema; `{}` if absent. Else it is passed over.
    pub content: Option<Box<RawValue>>,
}

/// A question that nobody has answered.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Names it for the job's life.
    pub key: String,
    /// For people.
    pub message: String,
    /// JSON Schema of the answer's content.
    pub schema: Box<RawValue>,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// A question's body.
#[derive(Deserialize)]
struct Words {
    key: String,
    message: String,
    schema: Box<RawValue>,
}

/// An answer's body.
#[derive(Serialize, Deserialize)]
struct Said {
    key: String,
    action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
}

/// An answer that makes sense by itself.
struct Checked {
    said: Said,
    /// Its content as a value.
    value: Option<Value>,
}

impl Service {
    /// The job's open questions, in the order in which they were asked. Reads them from the disk.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn questions(&self, head: &Arc<Head>) -> Result<Vec<OpenQuestion>, Refused> {
        if !head.job.awaits_input() {
            return Ok(Vec::new());
        }
        let wanted = head.clone();
        self.ask(move |store| open_questions(store, &wanted.job)).await?.map_err(|error| self.failed(&error))
    }

    /// Answers some of the job's open questions, by key: all of these or none. An answer that was given before in the
    /// same words is taken as given. Durable when it returns; the job as it is then.
    ///
    /// # Errors
    /// `NoSuchJob`. `NotWaiting`: there is no such open question, or another answer was given to it. `Schema`: contents
    /// that do not fit, by pointers such as `/KEY/content/size`. `BadField`: what cannot be meant, by the same pointers.
    /// `Busy`, `Draining`, `DiskFull`, `Unhealthy`.
    pub async fn answer(
        &self,
        viewer: &Viewer,
        id: JobId,
        answers: Vec<(String, Answer)>,
    ) -> Result<Arc<Head>, Refused> {
        let answers = check(answers)?;
        for _ in 0..TRIES_MAX {
            let head = self.job(viewer, id).await?;
            let new = match self.still_open(&head, &answers).await {
                // A body that is gone: somebody has answered, or the job has ended, since the look at it.
                Err(Refused::NoSuchJob) => continue,
                other => other?,
            };
            if new.is_empty() {
                return Ok(head);
            }
            let (answers, bodies) = new.into_iter().map(|(seq, said)| named(seq, said)).unzip();
            let command = Command::Answer { by: viewer.principal.clone(), answers };
            match self.core.act_with(id, command, bodies).await? {
                Ok(head) => return Ok(head),
                Err(ActRefusal::DiskFull) => return Err(Refused::DiskFull),
                Err(ActRefusal::NotLive | ActRefusal::Refused(_)) => {}
            }
        }
        Err(Refused::Busy)
    }

    /// Those to questions that are open, with the questions' numbers; each fits its question.
    async fn still_open<'a>(&self, head: &Arc<Head>, answers: &'a [Checked]) -> Result<Vec<(u64, &'a Said)>, Refused> {
        let (job, mut new, mut unfit) = (&head.job, Vec::new(), Vec::new());
        for answer in answers {
            let key = &answer.said.key;
            let Some(question) = job.questions.keyed(key) else { return Err(self.not_asked(head, key).await?) };
            match question.standing {
                Standing::Open { .. } if !job.awaits_input() => return Err(self.not_asked(head, key).await?),
                Standing::Open { body, .. } => {
                    unfit.extend(self.unfit(job.id(), body, answer).await?);
                    new.push((body.seq, &answer.said));
                }
                Standing::Answered { action, body } if action == answer.said.action => {
                    if !self.is_same(job.id(), body, answer).await? {
                        return Err(answered(key));
                    }
                }
                Standing::Answered { .. } => return Err(answered(key)),
            }
        }
        if unfit.is_empty() { Ok(new) } else { Err(Refused::Schema(unfit)) }
    }

    /// What is said to an answer to no open question, with the keys of those that are.
    async fn not_asked(&self, head: &Arc<Head>, key: &str) -> Result<Refused, Refused> {
        /// More keys are only counted.
        const TOLD_MAX: usize = 8;
        let key = cut(key, QUESTION_KEY_MAX);
        if !head.job.awaits_input() {
            let status = head.job.status().name();
            return Ok(Refused::NotWaiting(format!("the job is {status}: it waits for no answer to {key}")));
        }
        let open: Vec<String> = self.questions(head).await?.into_iter().map(|question| question.key).collect();
        let told = open.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = open.len().checked_sub(TOLD_MAX).filter(|more| *more > 0).map(|more| format!(" and {more} more"));
        Ok(Refused::NotWaiting(format!("no question {key} was asked; open: {told}{}", more.unwrap_or_default())))
    }

    /// What of the answer's content does not fit its question.
    async fn unfit(&self, id: JobId, question: BodyRef, answer: &Checked) -> Result<Vec<Violation>, Refused> {
        let Some(value) = &answer.value else { return Ok(Vec::new()) };
        let bytes = self.body(id, question, 0, usize::MAX).await?;
        let place = format!("/{}/content", pointed(&answer.said.key));
        let schema: Option<Value> = serde_json::from_slice::<Words>(&bytes)
            .ok()
            .and_then(|words| serde_json::from_str(words.schema.get()).ok());
        // Whoever asked has tried it out; then nothing fits it.
        let Some(validator) = schema.and_then(|schema| jsonschema::validator_for(&schema).ok()) else {
            return Ok(vec![Violation {
                pointer: place,
                message: "the question has no schema that can be used".into(),
            }]);
        };
        Ok(violations(&validator, value).into_iter().map(|violation| violation.below(&place)).collect())
    }

    /// Whether the answer that was given is this one: equal JSON values, however spelled.
    async fn is_same(&self, id: JobId, given: BodyRef, answer: &Checked) -> Result<bool, Refused> {
        let bytes = self.body(id, given, 0, usize::MAX).await?;
        let given: Option<Said> = serde_json::from_slice(&bytes).ok();
        let content = given.and_then(|given| given.content);
        let value = content.and_then(|content| json::read(content.get().as_bytes()).ok());
        Ok(value.as_ref().map(canonical::digest) == answer.value.as_ref().map(canonical::digest))
    }
}

/// The open questions of a job, as far as they are still there.
pub(super) fn open_questions(store: &dyn Store, job: &Job) -> Result<Vec<OpenQuestion>, store::Error> {
    let mut questions = Vec::new();
    for (name, asked_at) in job.questions.open().filter(|_| job.awaits_input()) {
        let Some(bytes) = store.body(job.id(), name, 0, usize::MAX)? else { continue };
        let Words { key, message, schema } = serde_json::from_slice(&bytes).map_err(|why| store::Error::Corrupt {
            at: format!("body {name:?} of job {}", job.id()),
            why: why.to_string(),
        })?;
        questions.push(OpenQuestion { key, message, schema, asked_at });
    }
    Ok(questions)
}

/// Each answer by itself.
fn check(answers: Vec<(String, Answer)>) -> Result<Vec<Checked>, Refused> {
    let complaint = |key: &str, what: &str, message: String| Violation {
        pointer: format!("/{}{what}", pointed(cut(key, QUESTION_KEY_MAX))),
        message,
    };
    let (mut checked, mut wrong): (Vec<Checked>, Vec<Violation>) = (Vec::new(), Vec::new());
    if answers.is_empty() || answers.len() > QUESTIONS_MAX {
        let message = format!("from 1 to {QUESTIONS_MAX} answers");
        return Err(Refused::BadField(vec![Violation { pointer: String::new(), message }]));
    }
    for (key, Answer { action, content }) in answers {
        if checked.iter().any(|earlier| earlier.said.key == key) {
            wrong.push(complaint(&key, "", "is there twice".into()));
            continue;
        }
        let content = match action {
            Action::Accept => Some(content.map_or_else(|| "{}".into(), |content| content.get().to_owned())),
            Action::Decline | Action::Cancel => None,
        };
        let value = content.as_ref().map(|content| json::read(content.as_bytes())).transpose();
        match value {
            Ok(value) if value.as_ref().is_none_or(Value::is_object) => {
                if content.as_ref().is_some_and(|content| content.len() > ANSWER_MAX) {
                    wrong.push(complaint(&key, "/content", format!("has more than {ANSWER_MAX} bytes")));
                }
                let line = content.map(|text| String::from_utf8_lossy(&one_line(&Bytes::from(text))).into_owned());
                let content = line.and_then(|line| RawValue::from_string(line).ok());
                checked.push(Checked { said: Said { key, action, content }, value });
            }
            Ok(_) => wrong.push(complaint(&key, "/content", "must be an object".into())),
            Err(why) => wrong.push(complaint(&key, "/content", why.to_string())),
        }
    }
    if wrong.is_empty() { Ok(checked) } else { Err(Refused::BadField(wrong)) }
}

/// The answer as its entry names it, and its body.
fn named(seq: u64, said: &Said) -> (Named, Body) {
    let bytes = Bytes::from(serde_json::to_vec(said).unwrap_or_default());
    let body = Body { name: BodyRef::of(Part::Answer, seq, &bytes), bytes: Some(bytes) };
    (Named { key: said.key.as_str().into(), action: said.action, body: body.name }, body)
}

/// A key as a step of a JSON pointer.
fn pointed(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn answered(key: &str) -> Refused {
    Refused::NotWaiting(format!("another answer to {} was given before", cut(key, QUESTION_KEY_MAX)))
}
