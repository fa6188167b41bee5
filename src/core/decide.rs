//! One wish at a time, decided over what the group has decided so far.
//!
//! In: a wish. Out: entries added to the group and an answer put aside until the commit, or a refusal. The deciding itself
//! is `job::machine`'s; here is only who is asked about what.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::disk::Room;
use super::group::Group;
use super::inbox::{ActRefusal, CellsRefusal, Creation, Inner, ReplayRefusal, Submission, SubmitAnswer, SubmitRefusal};
use super::publish::{Answer, Reply};
use super::thread::{Core, Fatal, Wish};
use crate::job::machine::{self, Moment};
use crate::job::{Body, Carried, Command, Entry, Head, Job, JobId, Refusal, State, Timestamp};

impl Core {
    /// Decides what the time alone brings: delays that are over, jobs that have expired.
    pub fn decide_due(&mut self, group: &mut Group) -> Result<(), Fatal> {
        self.expire_pin(group.now);
        self.queue.due(group.now);
        for id in self.queue.expired(group.now, super::GROUP_MAX) {
            // `NotNow` and `Ended` mean that something else came first.
            let _ = self.act(group, id, &Command::Expire, Vec::new())?;
        }
        Ok(())
    }

    /// Decides one wish.
    pub fn decide(&mut self, group: &mut Group, wish: Wish) -> Result<(), Fatal> {
        match wish {
            Wish::Due => Ok(()),
            Wish::Submit(Submission { creation, reply }) => {
                let answer = self.create(group, *creation)?;
                self.replies.push(Reply::Submitted(answer, reply));
                Ok(())
            }
            Wish::Inner(inner) => self.decide_inner(group, inner),
        }
    }

    fn decide_inner(&mut self, group: &mut Group, inner: Inner) -> Result<(), Fatal> {
        match inner {
            Inner::Claim { want, reply } => self.take_claimer(want, reply),
            Inner::Report { job, command, bodies } => {
                if let Err(refusal) = self.act(group, job, &command, bodies)? {
                    tracing::debug!(%job, ?refusal, "a late report was refused");
                }
            }
            Inner::Finish { job, claim, command, bodies, freed } => {
                if let Err(refusal) = self.act(group, job, &command, bodies)? {
                    tracing::warn!(%job, claim = claim.0, ?refusal, "a late end of an old attempt was refused");
                }
                self.replies.push(Reply::Freed(freed));
            }
            Inner::Act { job, command, bodies, reply } => {
                let answer = self.act(group, job, &command, bodies)?;
                self.replies.push(Reply::Acted(job, answer, reply));
            }
            Inner::Replay { of, creation, reply } => self.replay(group, of, *creation, reply)?,
            Inner::Cells { cells, reply } => {
                if cells.iter().any(|cell| cell.value.is_some()) && self.room(group.now)? < Room::Ample {
                    let _ = reply.send(Err(CellsRefusal::DiskFull));
                    return Ok(());
                }
                let change = group.cells(cells);
                self.replies.push(Reply::Cells(change, reply));
            }
            Inner::Pin { reply } => {
                // Whoever has given up waiting has let go as well.
                if let Err(Ok(pin)) = reply.send(self.pin(group.now)?) {
                    self.unpin(&pin);
                }
            }
            Inner::Unpin(pin) => self.unpin(&pin),
            Inner::Configure(rules) => self.configure(rules),
            Inner::Drain => {
                self.draining = true;
                self.claimer = None;
            }
            Inner::Release => self.running.values().for_each(|line| line.stop.set(crate::work::Stop::Shutdown)),
            Inner::Close => self.release_all(group)?,
        }
        Ok(())
    }

    /// Asks the machine about an unfinished job and adds what it says to the group.
    pub fn act(
        &mut self,
        group: &mut Group,
        id: JobId,
        command: &Command,
        bodies: Vec<Body>,
    ) -> Result<Result<(), ActRefusal>, Fatal> {
        let Some(job) = group.job(&self.table, id) else {
            self.discard(id, bodies.iter().map(|body| body.name));
            return Ok(Err(ActRefusal::NotLive));
        };
        let rules = self.parts.rules.get(&job.spec.job_type).unwrap_or(&self.default_rules);
        // Only a failure is spread by chance, and randomness costs a system call.
        let spread = if matches!(command, Command::Fail { .. }) { self.parts.clock.chance() } else { 0.0 };
        let moment = Moment { now: group.now, rules, throttle: &self.options.throttle, spread };
        let mut held = self.table.live.get(&id).and_then(|live| live.held.clone()).map(|held| *held);
        let had_held = held.is_some();
        let decided = machine::decide(job, &mut held, command, &moment);
        if (had_held || held.is_some())
            && let Some(live) = self.table.live.get_mut(&id)
        {
            live.held = held.map(Box::new);
        }
        match decided {
            Ok(entries) => {
                self.disk.wrote(bodies.iter().map(|body| body.name.len).sum());
                let unnamed = group.step(&self.table, id, entries, bodies).map_err(bug)?;
                self.discard(id, unnamed);
                self.follow(group, id);
                Ok(Ok(()))
            }
            Err(refusal) => {
                self.discard(id, bodies.iter().map(|body| body.name));
                Ok(Err(ActRefusal::Refused(refusal)))
            }
        }
    }

    pub fn discard(&self, id: JobId, names: impl IntoIterator<Item = crate::job::BodyRef>) {
        for name in names.into_iter().filter(|name| name.len > crate::job::BODY_SMALL_MAX as u64) {
            self.parts.store.discard(id, name);
        }
    }

    /// Keeps the queue in step with what was decided about a job.
    fn follow(&mut self, group: &Group, id: JobId) {
        if let Some(part) = group.part(id) {
            self.line_up(&part.after, group.now);
        }
    }

    /// Puts a job where it belongs in the queue.
    pub fn line_up(&mut self, job: &Job, now: Timestamp) {
        match job.state {
            State::InProgress { .. } => {}
            State::Pending => self.queue.pending(job, now),
            State::InputRequired => self.queue.asked(job),
            State::Completed(_) | State::Failed { .. } | State::Canceled { .. } => self.queue.remove(job.id()),
        }
    }

    fn create(&mut self, group: &mut Group, creation: Creation) -> Result<Answer<SubmitAnswer>, Fatal> {
        match self.admit(group, &creation)? {
            Admission::New => {
                let id = self.add(group, creation)?;
                Ok(Answer::Created(id))
            }
            Admission::Known(answer) => {
                self.discard(creation.spec.id, [creation.payload.name]);
                Ok(answer)
            }
        }
    }

    fn add(&mut self, group: &mut Group, creation: Creation) -> Result<JobId, Fatal> {
        let (entry, body, id) = created(creation, group);
        group.create(entry, body).map_err(bug)?;
        self.added(group, id);
        Ok(id)
    }

    fn added(&mut self, group: &mut Group, id: JobId) {
        let Some(part) = group.part(id) else { return };
        let spec = part.after.spec.clone();
        self.disk.wrote(spec.payload.len);
        self.queue.pending(&part.after, group.now);
        self.table.payload_bytes += spec.payload.len;
        if let Some(key) = &spec.key {
            group.keys.insert((spec.owner.clone(), spec.job_type.clone(), key.text.clone()), id);
        }
    }

    /// Whether the job may come to be, or is there already by its key.
    fn admit(&mut self, group: &Group, creation: &Creation) -> Result<Admission, Fatal> {
        if let Some(known) = self.keyed(group, creation)? {
            return Ok(Admission::Known(known));
        }
        let refused = |why| Ok(Admission::Known(Answer::Now(Err(why))));
        if self.draining {
            return refused(SubmitRefusal::Draining);
        }
        let waiting = self.queue.ready_len() + self.queue.waiting_len() + self.queue.asked_len();
        if waiting as u64 >= self.options.max_pending {
            return refused(SubmitRefusal::Full("queue.max_pending"));
        }
        if self.table.payload_bytes.saturating_add(creation.payload.name.len) > self.options.max_pending_bytes {
            return refused(SubmitRefusal::Full("queue.max_pending_bytes"));
        }
        if self.room(group.now)? < Room::Ample {
            return refused(SubmitRefusal::DiskFull);
        }
        Ok(Admission::New)
    }

    /// The answer for a job whose key names one already.
    fn keyed(&self, group: &Group, creation: &Creation) -> Result<Option<Answer<SubmitAnswer>>, Fatal> {
        let spec = &creation.spec;
        let Some(key) = &spec.key else { return Ok(None) };
        let name = (spec.owner.clone(), spec.job_type.clone(), key.text.clone());
        let judge = |known: &Job| match &known.spec.key {
            Some(there) if there.digest == key.digest => Ok(()),
            _ => Err(SubmitRefusal::KeyConflict(known.id())),
        };
        if let Some(part) = group.keys.get(&name).and_then(|id| group.part(*id)) {
            return Ok(Some(match judge(&part.after) {
                Ok(()) => Answer::Known(part.after.id()),
                Err(refusal) => Answer::Now(Err(refusal)),
            }));
        }
        let store = &self.parts.store;
        let Some(id) = store.keyed(&spec.owner, &spec.job_type, &key.text).map_err(Fatal::Store)? else {
            return Ok(None);
        };
        let Some(head) = self.any_head(id)? else { return Ok(None) };
        Ok(Some(match judge(&head.job) {
            Ok(()) if group.part(id).is_some() => Answer::Known(id),
            Ok(()) => Answer::Now(Ok((head, false))),
            Err(refusal) => Answer::Now(Err(refusal)),
        }))
    }

    /// A durable head, of an unfinished or an ended job.
    pub fn any_head(&self, id: JobId) -> Result<Option<Arc<Head>>, Fatal> {
        match self.table.live.get(&id) {
            Some(live) => Ok(Some(live.head.clone())),
            None => self.parts.store.job(id).map_err(Fatal::Store),
        }
    }

    fn replay(
        &mut self,
        group: &mut Group,
        of: JobId,
        creation: Creation,
        reply: oneshot::Sender<Result<Arc<Head>, ReplayRefusal>>,
    ) -> Result<(), Fatal> {
        let refusal = match self.replayable(group, of, &creation)? {
            Ok(dead) => {
                let as_job = creation.spec.id;
                let (entry, body, id) = created(creation, group);
                group.replay(dead, Entry::Replayed { as_job }, entry, body).map_err(bug)?;
                self.added(group, id);
                self.replies.push(Reply::Replayed(Ok(id), reply));
                return Ok(());
            }
            Err(refusal) => refusal,
        };
        self.discard(creation.spec.id, [creation.payload.name]);
        self.replies.push(Reply::Replayed(Err(refusal), reply));
        Ok(())
    }

    fn replayable(
        &mut self,
        group: &Group,
        of: JobId,
        creation: &Creation,
    ) -> Result<Result<Arc<Head>, ReplayRefusal>, Fatal> {
        // A dead letter that this very group made, or has replayed, is judged as it is by then.
        let pending = group.part(of).map(|part| part.after.clone());
        let Some(head) = self.any_head(of)? else {
            return Ok(Err(ReplayRefusal::Refused(Refusal::NotDeadLettered)));
        };
        let job = pending.as_ref().unwrap_or(&head.job);
        let as_job = creation.spec.id;
        let moment =
            Moment { now: group.now, rules: &self.default_rules, throttle: &self.options.throttle, spread: 0.0 };
        if let Err(refusal) = machine::decide(job, &mut None, &Command::Replay { as_job }, &moment) {
            return Ok(Err(ReplayRefusal::Refused(refusal)));
        }
        if pending.is_some() {
            return Ok(Err(ReplayRefusal::Refused(Refusal::NotNow)));
        }
        match self.admit(group, creation)? {
            Admission::New => Ok(Ok(head)),
            Admission::Known(Answer::Now(Err(why))) => Ok(Err(ReplayRefusal::Submit(why))),
            // A replay has no key, so nothing else can be known by it.
            Admission::Known(_) => Ok(Err(ReplayRefusal::Refused(Refusal::NotNow))),
        }
    }

    /// How much room the disk has, as of a moment ago.
    pub fn room(&mut self, now: Timestamp) -> Result<Room, Fatal> {
        if self.signs.is_held() {
            return Ok(Room::None);
        }
        if let Some(room) = self.disk.fresh(now) {
            return Ok(room);
        }
        let health = self.parts.store.health().map_err(Fatal::Store)?;
        Ok(self.disk.see(now, &health, self.reserve))
    }

    /// The end: every attempt that is still held is given back, uncounted.
    fn release_all(&mut self, group: &mut Group) -> Result<(), Fatal> {
        self.draining = true;
        self.closing = true;
        self.claimer = None;
        let mut held: Vec<JobId> = self.running.keys().copied().collect();
        held.sort_unstable();
        for id in held {
            if let Some(State::InProgress { claim, .. }) = group.job(&self.table, id).map(|job| job.state.clone()) {
                let _ = self.act(group, id, &Command::Release { claim, log: None }, Vec::new())?;
            }
        }
        Ok(())
    }
}

enum Admission {
    New,
    Known(Answer<SubmitAnswer>),
}

fn created(creation: Creation, group: &Group) -> (Entry, Body, JobId) {
    let Creation { mut spec, run_at, payload } = creation;
    spec.created_at = group.now;
    spec.carried = payload.bytes.as_deref().map(Carried::of).unwrap_or_default();
    let id = spec.id;
    (machine::create(Arc::new(spec), run_at), payload, id)
}

/// Entries that this code made do not fit: never true of sound code, and never to be stored.
pub(super) fn bug(why: machine::Impossible) -> Fatal {
    Fatal::Bug(format!("entries that do not fit: {why:?}"))
}
