//! The store on disk and the reference store, and what is under way between commits.
//!
//! In: steps. Out: the same changes to both stores, and a comparison after each commit and each reboot.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use longhaul::job::{
    Body, BodyRef, Command, Epoch, Head, JobId, Part, Position, Progress, Spec, State, Timestamp, machine, retry,
};
use longhaul::store::memory::Memory;
use longhaul::store::{CellChange, Change, Store};

use super::compare;
use super::decide::{self, Wanted};
use super::disk::Disk;
use super::making::{self, key_text};
use super::step::{Creation, Expect, Reboot, Step, Wish};

/// Most jobs of one run.
const JOBS_MAX: usize = 40;
/// Most changes of one commit, as in the core.
const GROUP_MAX: usize = 128;

/// Everything of one run.
pub struct World {
    disk: Disk,
    model: Memory,
    epoch: Epoch,
    now: Timestamp,
    /// Every job that was ever made, oldest first.
    jobs: Vec<JobId>,
    /// Changes that wait for the commit, and whether they are to be taken.
    group: Vec<(Change, bool)>,
    /// Jobs as those changes leave them.
    ahead: HashMap<JobId, Arc<Head>>,
    /// Keys that those changes give.
    keys: Vec<(Arc<str>, Arc<str>, Arc<str>)>,
    /// Progress that is held back: lost by a reboot.
    held: HashMap<JobId, Option<Progress>>,
    /// Bodies that were named no more, or never were, when they came here.
    gone: Vec<(JobId, BodyRef)>,
}

impl World {
    /// Two empty stores.
    pub fn new() -> Self {
        // A kill is a copy here. Armed already is as good.
        let _ = longhaul::fault::arm(None, Some(longhaul::fault::Breach::CopyUnnoticed.name()));
        let disk = Disk::new();
        disk.store.live().expect("the store works");
        Self {
            epoch: disk.store.bounds().epoch,
            disk,
            model: Memory::new(),
            now: decide::BIRTH,
            jobs: Vec::new(),
            group: Vec::new(),
            ahead: HashMap::new(),
            keys: Vec::new(),
            held: HashMap::new(),
            gone: Vec::new(),
        }
    }

    /// Takes one step. What it changes waits for `commit`.
    pub fn take(&mut self, step: Step) {
        match step {
            Step::Create(creation) => self.create(&creation),
            Step::Replay { job } => self.replay(job),
            Step::Tell { job, wish } => self.tell(job, &wish),
            Step::Burst { job, entries } => self.burst(job, entries),
            Step::Late { job } => self.late(job),
            Step::Again { job } => self.again(job),
            Step::Stray { job, is_discarded } => self.stray(job, is_discarded),
            Step::Cell { name, expect, value } => self.cell(name, expect, value),
            Step::Forget { due, jobs, dies } => self.forget(due, &jobs, dies),
            Step::Jump { millis } => self.now = decide::jumped(self.now, millis),
            Step::Reboot(how) => self.reboot(how),
        }
        if self.group.len() >= GROUP_MAX {
            self.commit();
        }
    }

    /// The end of the run: one more kill.
    pub fn end(mut self) {
        self.reboot(Reboot::Killed);
    }

    fn id(&self, job: usize) -> Option<JobId> {
        // A modulus, so that small numbers mean old jobs whatever was made since.
        let at = job.checked_rem(self.jobs.len())?;
        Some(self.jobs[at])
    }

    /// The job as the group has left it.
    fn head(&self, id: JobId) -> Option<Arc<Head>> {
        self.ahead.get(&id).cloned().or_else(|| self.model.job(id).expect("the model works"))
    }

    fn push(&mut self, change: Change) {
        for job in &change.jobs {
            self.ahead.insert(job.after.id(), decide::pending(job));
            self.gone.extend(job.dropped.iter().map(|name| (job.after.id(), *name)));
        }
        self.group.push((change, true));
    }

    /// Puts large bodies on disk, as whoever brings them does.
    fn bring(&self, id: JobId, bodies: &[(Body, Bytes)]) {
        for (body, bytes) in bodies.iter().filter(|(body, _)| body.bytes.is_none()) {
            self.model.bring(id, body.name, bytes).expect("the model works");
            self.disk.store.bring(id, body.name, bytes).expect("the store works");
        }
    }

    fn discard(&mut self, id: JobId, names: impl IntoIterator<Item = BodyRef>) {
        for name in names {
            self.model.discard(id, name);
            self.disk.store.discard(id, name);
            self.gone.push((id, name));
        }
    }

    fn create(&mut self, creation: &Creation) {
        if self.jobs.len() >= JOBS_MAX {
            return;
        }
        let (payload, bytes) = making::body(Part::Payload, 0, creation.size);
        let spec = making::spec(self.jobs.len(), creation, payload.name, &bytes, self.now);
        let id = spec.id;
        self.jobs.push(id);
        let name = spec.key.as_ref().map(|key| (spec.owner.clone(), spec.job_type.clone(), key.text.clone()));
        let is_taken = name.as_ref().is_some_and(|name| self.is_taken(name));
        let run_at = creation.delayed.then(|| self.now.plus(longhaul::job::Millis(5_000)));
        let body = [(payload, bytes)];
        self.bring(id, &body);
        let entry = machine::create(Arc::new(spec), run_at);
        let change = Change { jobs: vec![decide::change(None, vec![entry], &body, self.now)], cells: Vec::new() };
        if is_taken {
            // The core would not try; the store must refuse it all the same.
            self.group.push((change, false));
            return;
        }
        self.keys.extend(name);
        self.push(change);
    }

    fn is_taken(&self, name: &(Arc<str>, Arc<str>, Arc<str>)) -> bool {
        self.keys.contains(name) || self.model.keyed(&name.0, &name.1, &name.2).expect("the model works").is_some()
    }

    fn replay(&mut self, job: usize) {
        let Some(dead) = self.id(job).and_then(|id| self.head(id)) else { return };
        let number = self.jobs.len();
        if number >= JOBS_MAX || !dead.job.is_dead_letter() {
            return;
        }
        let (payload, bytes) = making::body(Part::Payload, 0, number as u8);
        let old = &*dead.job.spec;
        let id = JobId::from_u128(1 << 100 | (number as u128) << 64 | 0x7abc);
        let (replay_of, payload_name) = (Some(old.id), payload.name);
        let spec = Spec { id, payload: payload_name, key: None, created_at: self.now, replay_of, ..old.clone() };
        let body = [(payload, bytes)];
        self.bring(id, &body);
        let entries = decide::entries(&dead.job, &mut None, &Command::Replay { as_job: id }, self.now);
        let replayed = decide::change(Some(dead), entries, &[], self.now);
        let created = decide::change(None, vec![machine::create(Arc::new(spec), None)], &body, self.now);
        self.jobs.push(id);
        self.push(Change { jobs: vec![replayed, created], cells: Vec::new() });
    }

    fn tell(&mut self, job: usize, wish: &Wish) {
        let Some(head) = self.id(job).and_then(|id| self.head(id)) else { return };
        let wanted = decide::command(&head.job, wish);
        self.decide(head, &wanted);
    }

    fn decide(&mut self, head: Arc<Head>, wanted: &Wanted) {
        let id = head.job.id();
        // Only a running attempt brings bodies.
        let is_running = head.job.claim().is_some();
        if is_running {
            self.bring(id, &wanted.bodies);
        }
        let entries = decide::entries(&head.job, self.held.entry(id).or_default(), &wanted.command, self.now);
        let named: Vec<BodyRef> = if entries.is_empty() {
            head.job.bodies().collect()
        } else {
            let change = decide::change(Some(head), entries, &wanted.bodies, self.now);
            let named = change.after.bodies().collect();
            self.push(Change { jobs: vec![change], cells: Vec::new() });
            named
        };
        let large = wanted.bodies.iter().filter(|(body, _)| body.bytes.is_none()).map(|(body, _)| body.name);
        let unnamed: Vec<_> = large.filter(|name| is_running && !named.contains(name)).collect();
        self.discard(id, unnamed);
    }

    fn burst(&mut self, job: usize, entries: u8) {
        let Some(head) = self.id(job).and_then(|id| self.head(id)) else { return };
        if head.job.claim().is_some() && entries > 0 {
            let entries = decide::burst(&head.job, entries);
            self.push(Change { jobs: vec![decide::change(Some(head), entries, &[], self.now)], cells: Vec::new() });
        }
    }

    /// A change from a head that has moved on.
    fn late(&mut self, job: usize) {
        let Some(head) = self.id(job).and_then(|id| self.head(id)) else { return };
        let mut old = Head::clone(&head);
        old.job.revision -= 1;
        let entries =
            decide::entries(&old.job, &mut None, &Command::Cancel { by: "a".into(), reason: "b".into() }, self.now);
        if !entries.is_empty() {
            let change = decide::change(Some(Arc::new(old)), entries, &[], self.now);
            self.group.push((Change { jobs: vec![change], cells: Vec::new() }, false));
        }
    }

    fn again(&mut self, job: usize) {
        let Some(head) = self.id(job).and_then(|id| self.head(id)) else { return };
        let entry = machine::create(head.job.spec.clone(), None);
        let change = decide::change(None, vec![entry], &[], self.now);
        self.group.push((Change { jobs: vec![change], cells: Vec::new() }, false));
    }

    /// A large body that no commit will name.
    fn stray(&mut self, job: usize, is_discarded: bool) {
        let Some(id) = self.id(job) else { return };
        let (body, bytes) = making::body(Part::Content, u64::MAX - self.gone.len() as u64, 8);
        self.disk.store.bring(id, body.name, &bytes).expect("the store works");
        self.gone.push((id, body.name));
        if is_discarded {
            self.disk.store.discard(id, body.name);
        }
    }

    fn cell(&mut self, name: u8, expect: Expect, value: Option<u8>) {
        let bytes = |value: u8| Bytes::from(vec![value; 1 + usize::from(value) * 1_300]);
        let cell = CellChange {
            name: format!("{}/{name}", if name < 3 { "session" } else { "other" }),
            expect: match expect {
                Expect::Anything => None,
                Expect::Nothing => Some(None),
                Expect::Value(value) => Some(Some(bytes(value))),
            },
            value: value.map(bytes),
        };
        self.commit();
        let found = self.model.cells(&cell.name).expect("the model works").pop().map(|(_, value)| value);
        let holds = cell.expect.as_ref().is_none_or(|wanted| *wanted == found);
        self.group.push((Change { jobs: Vec::new(), cells: vec![cell] }, holds));
    }

    /// Commits what waits, to both, and compares the answers.
    pub fn commit(&mut self) {
        self.ahead.clear();
        self.keys.clear();
        let (changes, taken): (Vec<Change>, Vec<bool>) = std::mem::take(&mut self.group).into_iter().unzip();
        if changes.is_empty() {
            return;
        }
        let mut next = self.model.bounds().last.next();
        let expected = self.model.commit(&changes).expect("the model works");
        let done = self.disk.store.commit(&changes).expect("the store works");
        assert_eq!(done, expected, "the answers to a commit");
        for ((change, is_taken), answer) in changes.iter().zip(taken).zip(&done) {
            assert_eq!(answer.is_ok(), is_taken, "whether a change is taken: {change:?}");
            if let (Ok(position), false) = (answer, change.jobs.is_empty()) {
                assert_eq!(*position, next, "positions follow each other");
                next = next.plus(change.jobs.iter().map(|job| job.entries.len() as u64).sum());
            }
            for job in &change.jobs {
                let id = job.after.id();
                assert_eq!(self.disk.store.job(id).expect("works"), self.model.job(id).expect("works"));
                if !is_taken {
                    let brought = job.bodies.iter().filter(|body| body.bytes.is_none()).map(|body| body.name);
                    self.discard(id, brought.collect::<Vec<_>>());
                }
            }
        }
        compare::standing(&self.disk.store, &self.model);
    }

    fn forget(&mut self, due: bool, jobs: &[usize], dies: bool) {
        self.commit();
        let ids: Vec<JobId> = if due {
            [false, true].into_iter().flat_map(|failed| self.due(failed, jobs.len())).collect()
        } else {
            jobs.iter().filter_map(|job| self.id(*job)).collect()
        };
        if dies {
            self.disk.will_die();
        }
        self.model.forget(&ids).expect("the model works");
        self.disk.store.forget(&ids).expect("the store works");
        compare::standing(&self.disk.store, &self.model);
        if dies {
            self.die(false);
        }
    }

    fn due(&self, failed: bool, limit: usize) -> Vec<JobId> {
        let types = self.model.totals();
        let due = types.types.keys().flat_map(|job_type| {
            let due = self.disk.store.ends(job_type, failed, self.now, limit).expect("the store works");
            assert_eq!(due, self.model.ends(job_type, failed, self.now, limit).expect("the model works"));
            due
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.into_iter().take(limit).map(|(_, id)| id).collect()
    }

    fn reboot(&mut self, how: Reboot) {
        match how {
            Reboot::Graceful => {
                self.commit();
                self.disk.close();
                self.recover();
            }
            Reboot::Killed => {
                self.commit();
                self.die(false);
            }
            Reboot::Undecided => {
                self.lose();
                self.die(false);
            }
            Reboot::Committing => {
                self.disk.will_die();
                self.commit();
                self.die(false);
            }
            Reboot::Starting => {
                self.commit();
                self.die(true);
            }
        }
    }

    /// What was decided and not committed is lost with the process; so are the bodies that came for it.
    fn lose(&mut self) {
        self.ahead.clear();
        self.keys.clear();
        for (change, _) in std::mem::take(&mut self.group) {
            for job in &change.jobs {
                for body in job.bodies.iter().filter(|body| body.bytes.is_none()) {
                    self.model.discard(job.after.id(), body.name);
                    self.gone.push((job.after.id(), body.name));
                }
            }
        }
    }

    fn die(&mut self, while_starting: bool) {
        self.disk.kill(while_starting);
        self.recover();
    }

    /// What a new process does: reads what lives, compares, and ends the attempts that the last one held.
    fn recover(&mut self) {
        self.held.clear();
        compare::live(&self.disk.store, &self.model);
        assert_eq!(self.disk.store.bounds().epoch, self.epoch, "the same history");
        compare::everything(&self.disk.store, &self.model, &self.jobs, &self.gone);
        let running = |head: &&Head| matches!(head.job.state, State::InProgress { .. });
        let live = self.model.live().expect("the model works");
        let held: Vec<_> = live.iter().filter(running).map(|head| (head.job.id(), head.job.interruptions)).collect();
        for (id, charged) in retry::charges(&held) {
            let Some(head) = self.head(id) else { continue };
            self.decide(head, &Wanted { command: Command::Interrupt { charged }, bodies: Vec::new() });
        }
        self.commit();
    }
}

/// Every name that a key may have.
pub fn key_names() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let owned = making::OWNERS.into_iter().flat_map(|owner| making::TYPES.map(|job_type| (owner, job_type)));
    owned.flat_map(|(owner, job_type)| (0..5).map(move |key| (owner, job_type, key_text(key))))
}

/// All positions of a job's entries, as its trail says.
pub fn positions(store: &dyn Store, head: &Head) -> Vec<Position> {
    let older = (0..head.trail.blocks).flat_map(|n| store.trail(head.job.id(), n).expect("the store works"));
    older.chain(head.trail.recent.iter().copied()).collect()
}
