//! The log from its first chunk to its last: positions rise, nothing is missing from the floor on, and each entry is
//! one that its job knows of.

use super::super::super::Error;
use super::super::super::chunk::Chunk;
use super::super::{failure, keys};
use super::sums::Sum;
use super::{Inquiry, hex, words};
use crate::job::{Logged, Position};

impl Inquiry<'_> {
    /// Walks `events`.
    pub fn walk_log(&mut self) -> Result<(), Error> {
        let bounds = self.store.shown().bounds;
        let trees = self.trees;
        // Every position up to here was accounted for.
        let mut done = Position(bounds.floor.0.saturating_sub(1));
        let mut last = Position::ZERO;
        let mut found = Sum::default();
        for row in &trees.events {
            let (key, bytes) = row.map_err(failure)?;
            let Some(first) = keys::position(&key) else {
                self.report.complain("the log", format!("a chunk has the key {}", hex(&key)));
                continue;
            };
            let chunk = match Chunk::decode(first, &bytes) {
                Ok(chunk) => chunk,
                Err(damage) => {
                    self.report.complain(format!("the chunk at position {}", first.0), words(damage));
                    continue;
                }
            };
            if chunk.entries.is_empty() {
                self.report.complain(format!("the chunk at position {}", first.0), "it is empty");
            }
            for logged in &chunk.entries {
                self.report.entries += 1;
                let position = logged.position;
                if position <= last {
                    let why = format!("it comes after position {}", last.0);
                    self.report.complain(format!("position {}", position.0), why);
                    continue;
                }
                last = position;
                if position > done.next() {
                    self.complain_of_hole(done.next(), position);
                }
                done = done.max(position);
                found.add_entry(position, logged.job);
            }
        }
        if found != self.expected.log {
            self.walk_log_for_strays()?;
            self.complain_of_contradiction("events");
        }
        if done < bounds.last {
            self.complain_of_hole(done.next(), bounds.last.next());
        }
        if bounds.floor > bounds.last.next() {
            let why = format!("it is {}, and the last position is {}", bounds.floor.0, bounds.last.0);
            self.report.complain("the floor", why);
        }
        Ok(())
    }

    /// Walks `events` again: whether each entry is one that its job knows of.
    fn walk_log_for_strays(&mut self) -> Result<(), Error> {
        let trees = self.trees;
        for row in &trees.events {
            let (key, bytes) = row.map_err(failure)?;
            // What is no chunk was complained about before.
            let Some(Ok(chunk)) = keys::position(&key).map(|first| Chunk::decode(first, &bytes)) else { continue };
            chunk.entries.iter().try_for_each(|logged| self.check_logged(logged))?;
        }
        Ok(())
    }

    fn complain_of_hole(&mut self, from: Position, to: Position) {
        let floor = self.store.shown().bounds.floor;
        let at = match to.0 - from.0 {
            1 => format!("position {}", from.0),
            _ => format!("positions {} to {}", from.0, to.0 - 1),
        };
        self.report.complain(at, format!("no entry there, though the floor is {}", floor.0));
    }

    /// The entry's job is kept, and its trail names the entry.
    fn check_logged(&mut self, logged: &Logged) -> Result<(), Error> {
        let (position, id) = (logged.position, logged.job);
        let at = format!("position {}", position.0);
        match self.known(id)? {
            None => self.report.complain(at, format!("an entry of job {id}, which is not kept")),
            Some(known) if known.positions.binary_search(&position).is_ok() => {}
            Some(known) if logged.entry.is_terminal() && known.head.job.status().is_terminal() => {
                let why = format!("a second terminal event of job {id}, which its trail does not name");
                self.report.complain(at, why);
            }
            Some(_) => self.report.complain(at, format!("an entry of job {id} which its trail does not name")),
        }
        Ok(())
    }
}
