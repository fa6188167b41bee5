//! Handing out work: as many claims as a source has room for, in one batch.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::disk::Room;
use super::group::Group;
use super::publish::Reply;
use super::thread::{Core, Fatal};
use crate::job::{ClaimNo, Command, Job, JobId, State};
use crate::work::{Answers, Claim, StopFlag};

/// A source that waits for work.
pub(super) struct Claimer {
    pub want: usize,
    pub reply: Sender<Vec<Claim>>,
}

/// How a running attempt is reached.
pub(super) struct Line {
    pub stop: Arc<StopFlag>,
    pub answers: Arc<Answers>,
}

/// Who runs an attempt of this process, as `job.started` names it.
const WORKER: &str = "local";

impl Core {
    /// Remembers who waits for work; in a draining server nobody does.
    pub fn take_claimer(&mut self, want: usize, reply: Sender<Vec<Claim>>) {
        self.claimer = (!self.draining && want > 0).then_some(Claimer { want, reply });
    }

    /// Starts as many jobs as the claimer has room for.
    pub fn hand_out(&mut self, group: &mut Group) -> Result<(), Fatal> {
        self.more_claims = false;
        if self.claimer.is_none() || self.queue.ready_len() == 0 || self.room(group.now)? < Room::Low {
            return Ok(());
        }
        let Some(claimer) = self.claimer.take() else { return Ok(()) };
        let worker: Arc<str> = WORKER.into();
        let mut started = Vec::new();
        while started.len() < claimer.want.min(super::GROUP_MAX) {
            let Some(id) = self.queue.take(group.now) else { break };
            match self.act(group, id, &Command::Start { worker: worker.clone() }, Vec::new())? {
                Ok(()) => started.push(id),
                Err(refusal) => {
                    return Err(Fatal::Bug(format!("the queue held {id}, which cannot start: {refusal:?}")));
                }
            }
        }
        match started.is_empty() {
            true => self.claimer = Some(claimer),
            false => self.replies.push(Reply::Claims(started, claimer.reply)),
        }
        Ok(())
    }

    /// The claim on a job whose start is durable.
    pub fn claim(&mut self, id: JobId) -> Option<Claim> {
        let job = &self.table.live.get(&id)?.head.job;
        let claim = claim_of(job, self.rules(&job.spec.job_type).timeout)?;
        self.running.insert(id, Line { stop: claim.stop.clone(), answers: claim.answers.clone() });
        self.parts.metrics.slot_taken();
        Some(claim)
    }
}

fn claim_of(job: &Job, timeout: crate::job::Millis) -> Option<Claim> {
    let State::InProgress { claim, .. } = job.state else { return None };
    let started: ClaimNo = claim;
    Some(Claim {
        job: job.id(),
        job_type: job.spec.job_type.clone(),
        number: started,
        attempt: job.attempts,
        max_attempts: job.spec.max_attempts,
        payload: job.spec.payload,
        carried: job.spec.carried.clone(),
        deadline: job.started_at.unwrap_or(job.updated_at).plus(timeout),
        idempotency_key: job.spec.key.as_ref().map(|key| key.text.clone()),
        traceparent: job.spec.traceparent.clone(),
        stop: Arc::new(StopFlag::default()),
        answers: Arc::new(Answers::new(job.questions.answers().collect())),
    })
}
