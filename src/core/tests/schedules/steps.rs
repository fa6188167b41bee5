//! The core turned by hand, for schedules in which one seed decides who does what when.
//!
//! In: wishes, and the wish that it turn once. Out: receivers of answers. The turn itself is the core's own.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use tokio::sync::oneshot;

use crate::core::handle::Handle;
use crate::core::inbox::{ActRefusal, Creation, Inner, ReplayRefusal, Submission, SubmitAnswer};
use crate::core::thread::{Core, Fatal, Options, Parts, Wish};
use crate::job::{Body, Command, Head, JobId, Timestamp};
use crate::work::Claim;

/// See the head of this file.
pub struct Steps {
    core: Core,
    handle: Handle,
}

impl Steps {
    /// A core over the heads that `recover` returned, which does nothing by itself.
    pub fn new(parts: Parts, options: Options, heads: &[Arc<Head>]) -> Self {
        let (core, handle) = Core::new(parts, options, heads);
        Self { core, handle }
    }

    /// The way in.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// One turn, if somebody wants something or a due time has come; whether there was one.
    pub fn step(&mut self) -> Result<bool, Fatal> {
        let now = self.core.parts.clock.now();
        let submitted = |core: &Core| core.submit.try_recv().ok().map(Wish::Submit);
        let due = |core: &Core| core.next_due().is_some_and(|due| due <= now).then_some(Wish::Due);
        let wish = self.core.at_hand().or_else(|| submitted(&self.core)).or_else(|| due(&self.core));
        let Some(wish) = wish else { return Ok(false) };
        self.core.turn(wish)?;
        Ok(true)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.closing
    }

    /// When it would turn without being asked.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.core.next_due()
    }

    /// Asks for claims.
    pub fn claim(&self, want: usize) -> Receiver<Vec<Claim>> {
        let (reply, claims) = crossbeam_channel::bounded(1);
        self.send(Inner::Claim { want, reply });
        claims
    }

    /// Asks for a job.
    pub fn submit(&self, creation: Box<Creation>) -> oneshot::Receiver<SubmitAnswer> {
        let (reply, answer) = oneshot::channel();
        self.handle.submit.try_send(Submission { creation, reply }).expect("room in the lane");
        answer
    }

    /// Acts on a job.
    pub fn act(
        &self,
        job: JobId,
        command: Command,
        bodies: Vec<Body>,
    ) -> oneshot::Receiver<Result<Arc<Head>, ActRefusal>> {
        let (reply, answer) = oneshot::channel();
        self.send(Inner::Act { job, command, bodies, reply });
        answer
    }

    /// Asks for a new job from a dead letter.
    pub fn replay(&self, of: JobId, creation: Box<Creation>) -> oneshot::Receiver<Result<Arc<Head>, ReplayRefusal>> {
        let (reply, answer) = oneshot::channel();
        self.send(Inner::Replay { of, creation, reply });
        answer
    }

    fn send(&self, wish: Inner) {
        self.handle.inner.try_send(wish).expect("room in the lane");
    }
}
