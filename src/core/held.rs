//! What is done with wishes while the log has no room: nothing is committed, and nobody is kept waiting who can come back.
//!
//! In: a wish. Out: a refusal at once, or its place in a line: ends of attempts wait here, one for each slot at most, and
//! their questions. The
//! first turn with room takes the line first.

use super::disk::DISK_LOOK_EVERY;
use super::group::Group;
use super::inbox::{ActRefusal, CellsRefusal, Inner};
use super::publish::Reply;
use super::thread::{Core, Fatal, Wish};
use crate::job::Command;

impl Core {
    /// Whether the next commit surely fits on the disk.
    pub fn has_room(&mut self) -> Result<bool, Fatal> {
        let has_room = self.parts.store.room().map_err(Fatal::Store)?;
        if has_room == self.signs.is_held() {
            self.signs.hold(!has_room);
            match has_room {
                true => tracing::info!("the disk has room again: work goes on"),
                false => tracing::error!("the disk is full: nothing is stored until it has room; reads go on"),
            }
        }
        Ok(has_room)
    }

    /// One turn without a commit.
    pub fn hold(&mut self, wish: Wish) -> Result<(), Fatal> {
        self.hold_until = Some(self.parts.clock.now().plus(DISK_LOOK_EVERY));
        self.hold_one(wish)?;
        for _ in 1..super::GROUP_MAX {
            let next = self.inner.try_recv().map(Wish::Inner).or_else(|_| self.submit.try_recv().map(Wish::Submit));
            let Ok(next) = next else { break };
            self.hold_one(next)?;
        }
        // Answers only: nothing was decided.
        self.commit_and_publish(Group::new(self.parts.clock.now()))
    }

    fn hold_one(&mut self, wish: Wish) -> Result<(), Fatal> {
        let mut group = Group::new(self.parts.clock.now());
        match wish {
            Wish::Inner(Inner::Act { job, reply, .. }) => {
                self.replies.push(Reply::Acted(job, Err(ActRefusal::DiskFull), reply));
            }
            Wish::Inner(Inner::Cells { reply, .. }) => {
                let _ = reply.send(Err(CellsRefusal::DiskFull));
            }
            // Unlike other reports, a question must not be lost: its attempt waits for the answer.
            Wish::Inner(ask @ Inner::Report { command: Command::Ask { .. }, .. }) => self.held_ends.push_back(ask),
            // Progress is news; a partial result is followed by the result.
            Wish::Inner(Inner::Report { job, bodies, .. }) => self.discard(job, bodies.iter().map(|body| body.name)),
            Wish::Inner(end @ Inner::Finish { .. }) => self.held_ends.push_back(end),
            // What still runs is interrupted then, as after a crash: giving it back would have to be written.
            Wish::Inner(Inner::Close) => {
                self.draining = true;
                self.closing = true;
                self.claimer = None;
            }
            // A claim waits, a new job is refused where the room is looked at, and the rest writes nothing.
            Wish::Inner(
                Inner::Claim { .. }
                | Inner::Replay { .. }
                | Inner::Pin { .. }
                | Inner::Unpin(_)
                | Inner::Configure(_)
                | Inner::Drain
                | Inner::Release,
            )
            | Wish::Submit(_)
            | Wish::Due => self.decide(&mut group, wish)?,
        }
        Ok(())
    }
}
