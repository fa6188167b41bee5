//! Sessions of the older revisions: opened by `initialize`, bound to a principal, kept in cells so that they outlive the server.
//!
//! In: an id from a header and who sent it. Out: the session, or that there is none. A look-up reads one map in memory; the disk
//! hears of a session when it opens, when it ends, and rarely in between. Holds no lock across an await.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::app;
use super::calls::{CallInFlight, Calls};
use super::era::{Presence, Revision};
use super::log::Level;
use super::subscriptions::Subscriptions;
use super::tasks::Started;
use super::work::Waits;
use crate::clock::Clock;
use crate::job::{Millis, Timestamp};
use crate::service::CellChange;
use crate::service::{Refused, Service, Viewer};

/// Open sessions. When one more is asked for, the hundredth part that was idle the longest ends.
pub const SESSIONS_MAX: usize = 100_000;
/// The last use of a session is written at most so often. A restart takes it for that much younger, so none ends early.
pub const SEEN_EVERY: Millis = Millis::seconds(3_600);
/// Cells that one write removes at most.
const REMOVE_MAX: usize = 100;
/// A use is noted in memory only when it is so much later than the last, to keep the cores from passing a cache line about.
const NOTE_EVERY: Millis = Millis::seconds(1);

const PREFIX: &str = "session/";

/// One open session.
#[derive(Debug)]
pub(super) struct Session {
    /// As minted: 32 hex digits.
    pub id: Arc<str>,
    /// The negotiated revision.
    pub revision: Revision,
    owner: Arc<str>,
    /// What its client can do.
    pub abilities: Abilities,
    /// From which level on log lines are sent; `None` until the client says.
    level: AtomicU8,
    /// The resources that its client wants to hear of.
    pub subscriptions: Subscriptions,
    /// Ends the standing stream that is open, when a newer one takes its place.
    standing: Mutex<Arc<Notify>>,
    /// Tells its streams that it has ended.
    end: Notify,
    /// Its requests that are being answered.
    pub calls: Calls,
    /// Its calls that became tasks.
    pub started: Started,
    seen: AtomicI64,
    saved: AtomicI64,
    ended: AtomicBool,
}

/// What a client says that it can do, as far as anything here depends on it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Abilities {
    /// It asks its user questions (`elicitation`).
    pub elicitation: bool,
    /// It shows apps (`extensions["io.modelcontextprotocol/ui"]`).
    pub ui: bool,
    /// It takes tasks in the place of results (`extensions["io.modelcontextprotocol/tasks"]`; 2026-07-28 alone).
    pub tasks: bool,
}

impl Abilities {
    /// As a client declares them, in `initialize` or in the envelope.
    pub(super) fn of(capabilities: &serde_json::Value) -> Self {
        let has = |pointer: &str| capabilities.pointer(pointer).is_some_and(serde_json::Value::is_object);
        // A client that names the one form of questions has not the other.
        let asks_by_form = has("/elicitation/form") || !has("/elicitation/url");
        Self {
            elicitation: has("/elicitation") && asks_by_form,
            ui: app::is_shown_by(capabilities),
            tasks: has("/extensions/io.modelcontextprotocol~1tasks"),
        }
    }

    /// As the envelope of 2026-07-28 declares them; none if it does not.
    pub(super) fn declared(capabilities: Option<&RawValue>) -> Self {
        let capabilities = capabilities.and_then(|raw| serde_json::from_str(raw.get()).ok());
        capabilities.as_ref().map(Self::of).unwrap_or_default()
    }
}

/// A session as its cell holds it.
#[derive(Serialize, Deserialize)]
struct Cell<'a> {
    version: &'a str,
    owner: &'a str,
    seen: i64,
    #[serde(default)]
    can: Abilities,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uris: Vec<Box<str>>,
}

/// What a header names.
#[derive(Debug, Clone)]
pub(super) enum Lookup {
    /// No header.
    Absent,
    /// No session that is open and the caller's.
    Unknown,
    /// An open session.
    Known(Arc<Session>),
}

impl Lookup {
    /// Without the session.
    pub(super) fn presence(&self) -> Presence {
        match self {
            Self::Absent => Presence::Absent,
            Self::Unknown => Presence::Unknown,
            Self::Known(_) => Presence::Known,
        }
    }
}

/// Every open session.
pub(super) struct Sessions {
    service: Arc<Service>,
    clock: Arc<dyn Clock>,
    ttl: Millis,
    swept: AtomicI64,
    open: RwLock<HashMap<Arc<str>, Arc<Session>>>,
}

impl Sessions {
    /// The sessions that were open when the server last stopped.
    pub(super) async fn load(service: Arc<Service>, clock: Arc<dyn Clock>, ttl: Millis) -> Result<Self, Refused> {
        let cells = service.cells(PREFIX).await?;
        let now = clock.now();
        let mut open = HashMap::with_capacity(cells.len());
        for (name, value) in &cells {
            match revive(name, value, now, seen_every(ttl)) {
                Some(session) => drop(open.insert(session.id.clone(), Arc::new(session))),
                None => tracing::warn!(cell = name, "not a session that can be read; its client will open another"),
            }
        }
        Ok(Self { service, clock, ttl, swept: AtomicI64::new(0), open: RwLock::new(open) })
    }

    /// The session that the header names for this viewer; its idle time starts again.
    pub(super) fn find(&self, header: Option<&[u8]>, viewer: &Viewer) -> Lookup {
        let Some(id) = header else { return Lookup::Absent };
        let Ok(id) = std::str::from_utf8(id) else { return Lookup::Unknown };
        let found = self.open.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let Some(session) = found.filter(|session| session.owner == viewer.principal) else { return Lookup::Unknown };
        let now = self.clock.now();
        if session.is_idle(now, self.ttl) {
            return Lookup::Unknown;
        }
        self.note(&session, now);
        Lookup::Known(session)
    }

    /// Opens a session. Durable when it returns.
    pub(super) async fn open(
        &self,
        viewer: &Viewer,
        revision: Revision,
        abilities: Abilities,
    ) -> Result<Arc<Session>, Refused> {
        let now = self.clock.now();
        self.sweep(now);
        // The low halves of two job ids: 124 random bits.
        let half = || self.clock.job_id().as_u128() & u128::from(u64::MAX);
        let session = Arc::new(Session {
            id: format!("{:016x}{:016x}", half(), half()).into(),
            revision,
            owner: viewer.principal.clone(),
            abilities,
            level: AtomicU8::new(Level::NONE),
            subscriptions: Subscriptions::default(),
            standing: Mutex::default(),
            end: Notify::new(),
            calls: Calls::default(),
            started: Started::default(),
            seen: AtomicI64::new(now.0),
            saved: AtomicI64::new(now.0),
            ended: AtomicBool::new(false),
        });
        self.service.put_cells(vec![session.cell(now)]).await?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// Ends a session: from now on nobody finds it; durable when it returns. If that fails it is open again.
    pub(super) async fn end(&self, session: &Arc<Session>) -> Result<(), Refused> {
        session.ended.store(true, Ordering::SeqCst);
        session.end.notify_waiters();
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&session.id);
        let done = self.service.put_cells(vec![session.no_cell()]).await;
        if done.is_err() {
            session.ended.store(false, Ordering::SeqCst);
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            open.insert(session.id.clone(), session.clone());
        }
        done
    }

    /// Writes what the session now is. Durable when it returns.
    ///
    /// # Errors
    /// What `Service::put_cells` refuses.
    pub(super) async fn save(&self, session: &Session) -> Result<(), Refused> {
        self.service.put_cells(vec![session.cell(self.clock.now())]).await
    }

    /// Notes a use, and now and then has it written.
    fn note(&self, session: &Arc<Session>, now: Timestamp) {
        if now.since(Timestamp(session.seen.load(Ordering::Relaxed))) < NOTE_EVERY {
            return;
        }
        session.seen.store(now.0, Ordering::Relaxed);
        let saved = session.saved.load(Ordering::Relaxed);
        let is_due = now.since(Timestamp(saved)) >= seen_every(self.ttl);
        if is_due && session.saved.compare_exchange(saved, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tokio::spawn(save(self.service.clone(), session.clone(), now, saved));
        }
    }

    /// Forgets idle sessions, at most once in `SEEN_EVERY`, and the longest idle ones when there are too many.
    fn sweep(&self, now: Timestamp) {
        let swept = self.swept.load(Ordering::Relaxed);
        let is_due = now.since(Timestamp(swept)) >= seen_every(self.ttl) || now.0 < swept;
        let is_full = self.open.read().unwrap_or_else(PoisonError::into_inner).len() >= SESSIONS_MAX;
        if !is_full && !is_due {
            return;
        }
        self.swept.store(now.0, Ordering::Relaxed);
        let gone = {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            let gone = leaving(&open, now, self.ttl, if is_full { SESSIONS_MAX / 100 } else { 0 });
            gone.iter().for_each(|session| drop(open.remove(&session.id)));
            gone
        };
        if !gone.is_empty() {
            tokio::spawn(remove(self.service.clone(), gone));
        }
    }
}

impl Session {
    /// From which level on its client wants log lines.
    pub(super) fn level(&self) -> Option<Level> {
        Level::of_number(self.level.load(Ordering::Relaxed))
    }

    /// Log lines are sent from this level on.
    pub(super) fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Takes the place of the standing stream that is open; told when another takes this one's.
    pub(super) fn stand(&self) -> Arc<Notify> {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.notify_one();
        *standing = Arc::default();
        standing.clone()
    }

    /// Returns when the session has ended.
    pub(super) async fn over(&self) {
        let end = self.end.notified();
        if !self.ended.load(Ordering::SeqCst) {
            end.await;
        }
    }

    /// Notes a request that is being answered.
    pub(super) fn call(&self, id: &str) -> CallInFlight {
        self.calls.enter(id)
    }

    /// Notes one that is answered on another stream from now on: the one before ends.
    pub(super) fn take_over(&self, id: &str, waits: &Waits) -> CallInFlight {
        self.calls.take_over(id, waits)
    }

    fn is_idle(&self, now: Timestamp, ttl: Millis) -> bool {
        now.since(Timestamp(self.seen.load(Ordering::Relaxed))) > ttl
    }

    fn cell(&self, seen: Timestamp) -> CellChange {
        let (version, level, uris) = (self.revision.name(), self.level(), self.subscriptions.all());
        let cell = Cell { version, owner: &self.owner, seen: seen.0, can: self.abilities, level, uris };
        // Plain fields always serialise.
        let value = serde_json::to_vec(&cell).unwrap_or_default();
        CellChange { name: format!("{PREFIX}{}", self.id), expect: None, value: Some(Bytes::from(value)) }
    }

    fn no_cell(&self) -> CellChange {
        CellChange { name: format!("{PREFIX}{}", self.id), expect: None, value: None }
    }
}

/// How often the last use of a session is written: a short life needs it more often.
fn seen_every(ttl: Millis) -> Millis {
    SEEN_EVERY.min(Millis(ttl.0 / 8))
}

/// The session that a cell holds.
fn revive(name: &str, value: &[u8], now: Timestamp, seen_every: Millis) -> Option<Session> {
    let id = name.strip_prefix(PREFIX)?;
    let cell: Cell<'_> = serde_json::from_slice(value).ok()?;
    // It may have been used until just before the next write was due.
    let seen = Timestamp(cell.seen).plus(seen_every).0.min(now.0.max(cell.seen));
    Some(Session {
        id: id.into(),
        revision: Revision::of_session(cell.version)?,
        owner: cell.owner.into(),
        abilities: cell.can,
        level: AtomicU8::new(cell.level.map_or(Level::NONE, |level| level as u8)),
        subscriptions: Subscriptions::of_kept(cell.uris.iter().map(|uri| &**uri)),
        standing: Mutex::default(),
        end: Notify::new(),
        calls: Calls::default(),
        started: Started::default(),
        seen: AtomicI64::new(seen),
        saved: AtomicI64::new(cell.seen),
        ended: AtomicBool::new(false),
    })
}

/// The idle sessions, and at least `least` of those that were idle the longest.
fn leaving(open: &HashMap<Arc<str>, Arc<Session>>, now: Timestamp, ttl: Millis, least: usize) -> Vec<Arc<Session>> {
    let mut by_age: Vec<_> = open.values().map(|session| (session.seen.load(Ordering::Relaxed), session)).collect();
    by_age.sort_unstable_by_key(|(seen, _)| *seen);
    let is_idle = |(_, session): &(i64, &Arc<Session>)| session.is_idle(now, ttl);
    if by_age.iter().take_while(|aged| is_idle(aged)).count() < least {
        // Who has the most makes room for everybody.
        let most = greatest(open);
        by_age.sort_by_key(|aged| !(is_idle(aged) || Some(&*aged.1.owner) == most));
    }
    let idle = by_age.iter().take_while(|aged| is_idle(aged)).count();
    by_age.into_iter().take(idle.max(least)).map(|(_, session)| session.clone()).collect()
}

/// The principal with the most sessions.
fn greatest(open: &HashMap<Arc<str>, Arc<Session>>) -> Option<&str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    open.values().for_each(|session| *counts.entry(&session.owner).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner)
}

/// Writes when a session was last used. One that ended meanwhile does not come back.
async fn save(service: Arc<Service>, session: Arc<Session>, seen: Timestamp, before: i64) {
    if session.ended.load(Ordering::SeqCst) {
        return;
    }
    if service.put_cells(vec![session.cell(seen)]).await.is_err() {
        session.saved.store(before, Ordering::Relaxed);
    } else if session.ended.load(Ordering::SeqCst) {
        remove(service, vec![session]).await;
    }
}

/// Removes the cells of sessions that are gone. What cannot be removed is found idle again after a restart.
async fn remove(service: Arc<Service>, sessions: Vec<Arc<Session>>) {
    for session in &sessions {
        session.ended.store(true, Ordering::SeqCst);
        session.end.notify_waiters();
    }
    for some in sessions.chunks(REMOVE_MAX) {
        if let Err(refused) = service.put_cells(some.iter().map(|session| session.no_cell()).collect()).await {
            tracing::warn!(?refused, "cells of ended sessions stay for now");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Millis = SEEN_EVERY;
    const WEEK: Millis = Millis::seconds(7 * 24 * 3_600);

    fn session(id: &str, seen: i64) -> Session {
        let value =
            format!(r#"{{"version":"2025-06-18","owner":"ann","seen":{seen},"later":"unknown fields are ignored"}}"#);
        revive(&format!("{PREFIX}{id}"), value.as_bytes(), Timestamp(seen), HOUR).expect("is a session")
    }

    #[test]
    fn a_client_that_names_only_other_forms_of_questions_cannot_be_asked() {
        for (capabilities, expected) in [
            (r#"{"elicitation":{}}"#, true),
            (r#"{"elicitation":{"form":{}}}"#, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true),
            (r#"{"elicitation":{"url":{}}}"#, false),
            (r#"{"elicitation":true}"#, false),
            (r#"{"sampling":{}}"#, false),
            ("[]", false),
        ] {
            let raw = RawValue::from_string(capabilities.into()).expect("JSON");
            assert_eq!(Abilities::declared(Some(&raw)).elicitation, expected, "{capabilities}");
        }
        assert_eq!(Abilities::declared(None), Abilities::default());
    }

    #[test]
    fn a_session_survives_in_its_cell() {
        let written = session("a", 1_000);
        let cell = written.cell(Timestamp(5_000));
        assert_eq!(cell.name, "session/a");
        let value = cell.value.expect("is written");
        let again = revive(&cell.name, &value, Timestamp(5_000), HOUR).expect("is a session");
        assert_eq!((&*again.id, &*again.owner, again.revision), ("a", "ann", Revision::June2025));
        assert_eq!(again.seen.into_inner(), 5_000);
    }

    #[test]
    fn a_restart_never_ends_a_session_early() {
        let last_write = Timestamp(0);
        let last_use = last_write.plus(Millis(HOUR.0 - 1));
        let cell = session("a", 0).cell(last_write).value.expect("is written");
        let again = revive("session/a", &cell, last_use.plus(WEEK), HOUR).expect("is a session");
        assert!(!again.is_idle(last_use.plus(WEEK), WEEK));
        assert!(again.is_idle(last_write.plus(WEEK).plus(Millis(HOUR.0 + 1)), WEEK));
    }

    #[test]
    fn cells_that_are_no_sessions_are_passed_over() {
        for value in ["", "{}", r#"{"version":"2024-11-05","owner":"a","seen":1}"#, "\u{0}"] {
            assert!(revive("session/a", value.as_bytes(), Timestamp(0), HOUR).is_none(), "{value}");
        }
    }

    #[test]
    fn the_longest_idle_sessions_leave_first() {
        let open: HashMap<_, _> =
            [("a", 30), ("b", 10), ("c", 20)].map(|(id, seen)| (Arc::from(id), Arc::new(session(id, seen)))).into();
        let gone = |now, ttl, least| -> Vec<_> {
            leaving(&open, Timestamp(now), Millis(ttl), least).iter().map(|s| s.id.to_string()).collect()
        };
        assert_eq!(gone(35, 20, 0), ["b"]);
        assert_eq!(gone(35, 100, 2), ["b", "c"]);
        assert!(gone(5, 100, 0).is_empty());
    }
}
