//! What happens once a group is decided: commit, then tell. Nothing here is told before it is synced.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use super::group::{Group, Live};
use super::inbox::{ActRefusal, CellsRefusal, ReplayRefusal, SubmitAnswer};
use super::thread::{Core, Fatal};
use crate::fault::{self, Point};
use crate::job::{Entry, Head, JobId, Logged, Position};
use crate::store::{Change, JobChange};
use crate::work::{Claim, Stop};

/// An answer that may name a job of this very group.
pub(super) enum Answer<T> {
    /// Known already.
    Now(T),
    /// This group creates the job.
    Created(JobId),
    /// The job was there, and this group may have changed it.
    Known(JobId),
}

/// An answer that waits for the commit.
pub(super) enum Reply {
    Submitted(Answer<SubmitAnswer>, oneshot::Sender<SubmitAnswer>),
    Acted(JobId, Result<(), ActRefusal>, oneshot::Sender<Result<Arc<Head>, ActRefusal>>),
    Replayed(Result<JobId, ReplayRefusal>, oneshot::Sender<Result<Arc<Head>, ReplayRefusal>>),
    Cells(usize, oneshot::Sender<Result<(), CellsRefusal>>),
    Claims(Vec<JobId>, Sender<Vec<Claim>>),
    Freed(Box<dyn FnOnce() + Send>),
}

/// What a commit made of a group.
#[derive(Default)]
struct Landed {
    heads: HashMap<JobId, Arc<Head>>,
    changed: Vec<Arc<Head>>,
    /// Jobs that this group ended.
    ended: Vec<JobId>,
    logged: Vec<Logged>,
    conflicts: Vec<usize>,
}

impl Landed {
    fn add(&mut self, part: &JobChange, first: Position) -> Position {
        let (head, logged) = part.landed(first);
        let next = first.plus(logged.len() as u64);
        let was_live = part.before.as_ref().is_none_or(|before| !before.job.status().is_terminal());
        if was_live && head.job.status().is_terminal() {
            self.ended.push(head.job.id());
        }
        self.logged.extend(logged);
        self.changed.push(head.clone());
        self.heads.insert(head.job.id(), head);
        next
    }
}

impl Core {
    /// Commits the group, then publishes it, then answers.
    pub fn commit_and_publish(&mut self, group: Group) -> Result<(), Fatal> {
        let began = self.parts.clock.tick();
        let landed = self.commit(&group)?;
        if !group.changes.is_empty() {
            super::count::group(&self.parts.metrics, &group, self.parts.clock.tick().saturating_sub(began));
        }
        self.settle(&landed);
        for logged in &landed.logged {
            let event = logged.entry.event_type().unwrap_or("quiet");
            tracing::debug!(job = %logged.job, job_type = %logged.job_type, position = logged.position.0, event);
        }
        if !landed.logged.is_empty() {
            self.parts.published.publish(landed.changed.clone(), &landed.logged);
        }
        fault::group_point(Point::BeforeAnswer, || Change::steps(&group.changes));
        self.tell_running(&group);
        for reply in std::mem::take(&mut self.replies) {
            self.answer(reply, &landed)?;
        }
        Ok(())
    }

    fn commit(&self, group: &Group) -> Result<Landed, Fatal> {
        let mut landed = Landed::default();
        if group.changes.is_empty() {
            return Ok(landed);
        }
        let results = self.parts.store.commit(&group.changes).map_err(Fatal::Store)?;
        for (n, (change, result)) in group.changes.iter().zip(results).enumerate() {
            let Ok(mut position) = result else {
                if !change.jobs.is_empty() {
                    return Err(Fatal::Bug("a job changed behind the core's back".into()));
                }
                landed.conflicts.push(n);
                continue;
            };
            for part in &change.jobs {
                position = landed.add(part, position);
            }
        }
        Ok(landed)
    }

    /// Takes the new heads over.
    fn settle(&mut self, landed: &Landed) {
        for head in &landed.changed {
            let id = head.job.id();
            if head.job.claim().is_none() && self.running.remove(&id).is_some() {
                self.parts.metrics.slot_freed();
            }
            if head.job.status().is_terminal() {
                self.table.live.remove(&id);
                continue;
            }
            match self.table.live.get_mut(&id) {
                Some(live) => live.head = head.clone(),
                None => {
                    self.table.live.insert(id, Live { head: head.clone(), held: None });
                }
            }
        }
        for head in landed.ended.iter().filter_map(|id| landed.heads.get(id)) {
            self.table.payload_bytes = self.table.payload_bytes.saturating_sub(head.job.spec.payload.len);
            self.sweep.ended(&head.job, &self.options.retention);
        }
    }

    /// Tells running attempts that their cancel is durable, or what was answered.
    fn tell_running(&self, group: &Group) {
        for part in group.changes.iter().flat_map(|change| &change.jobs) {
            let Some(line) = self.running.get(&part.after.id()) else { continue };
            for entry in &part.entries {
                match entry {
                    Entry::CancelRequested { .. } => line.stop.set(Stop::Cancel),
                    Entry::Answered { answers, .. } => line.answers.put(answers.iter().map(|answer| answer.body)),
                    Entry::Created { .. }
                    | Entry::Started { .. }
                    | Entry::Progress(_)
                    | Entry::Partial { .. }
                    | Entry::Retrying { .. }
                    | Entry::Released { .. }
                    | Entry::Interrupted { .. }
                    | Entry::CancelDelivered { .. }
                    | Entry::Completed { .. }
                    | Entry::Failed { .. }
                    | Entry::Canceled { .. }
                    | Entry::Replayed { .. }
                    | Entry::Asked { .. } => {}
                }
            }
        }
    }

    fn answer(&mut self, reply: Reply, landed: &Landed) -> Result<(), Fatal> {
        // Whoever has given up waiting is not told: the answer is durable all the same.
        match reply {
            Reply::Submitted(answer, reply) => {
                let answer = match answer {
                    Answer::Now(answer) => answer,
                    Answer::Created(id) => Ok((self.head_of(id, landed)?, true)),
                    Answer::Known(id) => Ok((self.head_of(id, landed)?, false)),
                };
                let _ = reply.send(answer);
            }
            Reply::Acted(id, answer, reply) => {
                let answer =
                    answer.map(|()| self.head_of(id, landed)).map_or_else(|no| Ok(Err(no)), |yes| yes.map(Ok))?;
                let _ = reply.send(answer);
            }
            Reply::Replayed(answer, reply) => {
                let answer =
                    answer.map(|id| self.head_of(id, landed)).map_or_else(|no| Ok(Err(no)), |yes| yes.map(Ok))?;
                let _ = reply.send(answer);
            }
            Reply::Cells(change, reply) => {
                let is_conflict = landed.conflicts.contains(&change);
                let _ = reply.send(if is_conflict { Err(CellsRefusal::Conflict) } else { Ok(()) });
            }
            Reply::Claims(started, reply) => {
                let claims: Vec<Claim> = started.into_iter().filter_map(|id| self.claim(id)).collect();
                // A dispatcher that has gone took its claims with it: they are released at the end.
                let _ = reply.send(claims);
            }
            Reply::Freed(freed) => freed(),
        }
        Ok(())
    }

    fn head_of(&self, id: JobId, landed: &Landed) -> Result<Arc<Head>, Fatal> {
        match landed.heads.get(&id) {
            Some(head) => Ok(head.clone()),
            None => self.any_head(id)?.ok_or_else(|| Fatal::Bug(format!("{id} has vanished"))),
        }
    }
}
