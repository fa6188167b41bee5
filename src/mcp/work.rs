//! What an answer may have to wait for, apart from the request that asked: owned and small, so that it goes on in a stream, and after a
//! restart in another.
//!
//! In: jobs to watch, and until when. Out: the answer. Holds no thread; dropping it drops the wait and, but for a leash, nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::elicit::{self, Put};
use super::era::Revision;
use super::helpers::Watch;
use super::leash::Leash;
use super::log::Level;
use super::reply::Members;
use super::rounds::Round;
use super::rpc::Error;
use super::session::{Abilities, Session};
use super::stream::Stream;
use super::tools::{ended, unfinished};
use super::voice::Voice;
use super::{Endpoint, log, refusal, tasks};
use crate::job::{Head, JobId, Timestamp};
use crate::service::Viewer;

/// Longest that a client which takes no stream waits for a job to end, whatever it asked for: then its request may as well be repeated.
pub const SILENT_MAX: Duration = Duration::from_secs(600);

/// Longest that a call waits for an answer to a question that its client was sent; then it is answered as if nobody could be asked.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// How the idempotency keys begin that a bridge of ours gives to each call, so that it may send it again: nobody else has them.
pub const OWN_KEY: &str = "longhaul-call-";

/// Why a job is canceled whose call's client canceled the request.
const GIVEN_UP: &str = "the client canceled the request";

/// What a method makes of a request.
pub(super) enum Outcome {
    /// Its answer.
    Ready(Members),
    /// An answer that has to be waited for.
    Waiting(Work),
    /// A stream that is the answer.
    Stream(Stream),
}

impl From<Members> for Outcome {
    fn from(members: Members) -> Self {
        Self::Ready(members)
    }
}

/// Who waits.
#[derive(Clone)]
pub(super) struct Asker {
    /// The principal.
    pub viewer: Viewer,
    /// How the answer is written.
    pub revision: Revision,
    /// The session, in the revisions that have them.
    pub session: Option<Arc<Session>>,
    /// What the client can do.
    pub abilities: Abilities,
    /// 2026-07-28: the client wants log lines from this level on.
    pub level: Option<Level>,
}

impl Asker {
    /// From which level on log lines are sent.
    pub(super) fn level(&self) -> Option<Level> {
        self.session.as_ref().map_or(self.level, |session| session.level())
    }
}

/// An answer that has to be waited for.
pub(super) struct Work {
    /// For what.
    pub waits: Waits,
    /// Gives the job up with the request, where the revision says so.
    pub leash: Option<Leash>,
    /// Under which token progress is told if the request brought none.
    pub token: Option<Box<str>>,
    /// 2026-07-28: the answer may be what the job asks.
    pub round: Option<Round>,
}

/// For what an answer waits. Written into the event ids of resumable streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Waits {
    /// The job of a `tools/call`, until then: its result, else its handle.
    #[serde(rename = "c")]
    Call(JobId, i64),
    /// `wait_for_jobs`.
    #[serde(rename = "w")]
    Jobs(Watch),
    /// `tasks/result` of 2025-11-25.
    #[serde(rename = "r")]
    Result(JobId),
    /// `tasks/cancel` of 2025-11-25: until the job has ended.
    #[serde(rename = "x")]
    Cancel(JobId),
}

impl Waits {
    /// Waits, telling `voice` meanwhile.
    ///
    /// # Errors
    /// What the method answers in place of a result.
    async fn run(
        &self,
        endpoint: &Endpoint,
        asker: &Asker,
        voice: &mut Voice,
        round: Option<&Round>,
    ) -> Result<Members, Error> {
        match self {
            Self::Call(job, until) => call(endpoint, asker, voice, round, (*job, Timestamp(*until))).await,
            Self::Jobs(watch) => watch.run(endpoint, asker, voice).await,
            Self::Result(job) => tasks::legacy::await_result(endpoint, asker, voice, *job).await,
            Self::Cancel(job) => tasks::legacy::await_cancel(endpoint, asker, *job).await,
        }
    }

    /// What is answered when the wait is over, now.
    ///
    /// # Errors
    /// As `run`.
    async fn at_once(
        &self,
        endpoint: &Endpoint,
        asker: &Asker,
        voice: &mut Voice,
        round: Option<&Round>,
    ) -> Result<Members, Error> {
        match self {
            Self::Call(job, _) => call(endpoint, asker, voice, round, (*job, Timestamp(0))).await,
            Self::Jobs(watch) => watch.over().run(endpoint, asker, voice).await,
            Self::Result(_) | Self::Cancel(_) => Err(tasks::legacy::still_works()),
        }
    }

    /// The client canceled the request itself: a call's job goes with it, a wait for jobs ends nothing else.
    pub(super) async fn give_up(&self, endpoint: &Endpoint, viewer: &Viewer) {
        match self {
            Self::Call(job, _) => {
                // Others may wait for the job of a key, and who sent the key will ask again.
                let is_shared = |key: &str| !key.starts_with(OWN_KEY);
                match endpoint.service.job(viewer, *job).await {
                    Ok(head) if head.job.spec.key.as_ref().is_some_and(|key| is_shared(&key.text)) => return,
                    Ok(_) | Err(_) => {}
                }
                // It may have ended meanwhile; then there is nothing to give up.
                let _ = endpoint.service.cancel(viewer, *job, Some(GIVEN_UP.into())).await;
            }
            // A task is canceled by `tasks/cancel` alone.
            Self::Jobs(_) | Self::Result(_) | Self::Cancel(_) => {}
        }
    }

    /// Whether the client gave it up so, however long ago.
    pub(super) async fn is_given_up(&self, endpoint: &Endpoint, viewer: &Viewer) -> bool {
        let Self::Call(job, _) = self else { return false };
        let head = endpoint.service.job(viewer, *job).await;
        head.is_ok_and(|head| head.job.cancel.as_ref().is_some_and(|cancel| &*cancel.reason == GIVEN_UP))
    }

    /// The task that every message on the way is about.
    pub(super) fn task(&self) -> Option<JobId> {
        match self {
            Self::Result(job) => Some(*job),
            Self::Call(..) | Self::Jobs(_) | Self::Cancel(_) => None,
        }
    }
}

impl Work {
    /// A wait that gives nothing up when it is dropped.
    pub(super) fn of(waits: Waits) -> Self {
        Self { waits, leash: None, token: None, round: None }
    }

    /// As `Waits::run`; then whoever asked has what was asked for, and nothing is given up any more.
    ///
    /// # Errors
    /// As `Waits::run`.
    pub(super) async fn run(mut self, endpoint: &Endpoint, asker: &Asker, voice: &mut Voice) -> Result<Members, Error> {
        let cut_short = voice.cut_short(endpoint);
        let outcome = tokio::select! {
            biased;
            outcome = self.waits.run(endpoint, asker, voice, self.round.as_ref()) => outcome,
            () = cut_short => self.waits.at_once(endpoint, asker, voice, self.round.as_ref()).await,
        };
        self.leash.iter_mut().for_each(Leash::release);
        outcome
    }
}

/// When a wait that lasts until `until` is over, on the clock that waits are measured by.
pub(super) fn deadline(endpoint: &Endpoint, until: Timestamp) -> Instant {
    let left = until.since(endpoint.clock.now()).duration();
    Instant::now() + left.min(SILENT_MAX)
}

/// A person who thinks costs nothing: while the client asks one, the time that the call may take stands still.
async fn call(
    endpoint: &Endpoint,
    asker: &Asker,
    voice: &mut Voice,
    round: Option<&Round>,
    (job, until): (JobId, Timestamp),
) -> Result<Members, Error> {
    let mut deadline = deadline(endpoint, until);
    let mut is_asking = false;
    let head = endpoint.service.job(&asker.viewer, job).await;
    let mut head = head.map_err(|refused| refusal::internal(&refused))?;
    while !head.job.status().is_terminal() {
        if head.job.awaits_input() {
            match elicit::put(endpoint, asker, voice, round, &head).await? {
                Put::Asked => {}
                Put::Answered(newer) => {
                    head = newer;
                    continue;
                }
                Put::Instead(members) => return Ok(members),
            }
        }
        if head.job.awaits_input() != is_asking {
            is_asking = !is_asking;
            deadline = Instant::now() + if is_asking { ANSWER_WAIT_MAX } else { inline_wait(endpoint, &head) };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(unfinished(endpoint, asker, &head));
        }
        voice.progress(&head, endpoint.clock.now()).await;
        // The job is durable: whatever the wait runs into, its handle is the truth.
        match moved_on(endpoint, asker, &head, left.min(voice.patience())).await {
            Ok(newer) => head = newer.unwrap_or(head),
            Err(_) => return Ok(unfinished(endpoint, asker, &head)),
        }
    }
    voice.last(&head, endpoint.clock.now()).await;
    if let Some(level) = asker.level() {
        log::send(endpoint, &head, level, voice).await;
    }
    ended(endpoint, asker, &head).await
}

/// How long a call of this job's tool waits.
fn inline_wait(endpoint: &Endpoint, head: &Head) -> Duration {
    let catalogue = endpoint.service.catalogue();
    catalogue.of_type(&head.job.spec.job_type).map(|tool| tool.inline_wait.duration()).unwrap_or_default()
}

/// The job once it has moved on; `None` if it did not within `at_most`.
pub(super) async fn moved_on(
    endpoint: &Endpoint,
    asker: &Asker,
    head: &Head,
    at_most: Duration,
) -> Result<Option<Arc<Head>>, crate::service::Refused> {
    let seen = [(head.job.id(), head.job.revision)];
    Ok(endpoint.service.wait_any(&asker.viewer, &seen, at_most).await?.pop())
}
