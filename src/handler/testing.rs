//! What tests of handlers share: a claim, and a source that only records.

use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;

use crate::job::{BodyRef, ClaimNo, JobId, Part, Timestamp};
use crate::work::{Claim, Closed, Leave, NoPayload, Report, StopFlag, WorkSource};

/// The first attempt of a job, to be over by `deadline`.
pub fn claim(deadline: Timestamp) -> Claim {
    Claim {
        job: JobId::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001),
        job_type: "trial".into(),
        number: ClaimNo(7),
        attempt: 1,
        max_attempts: 5,
        payload: BodyRef::of(Part::Payload, 0, b"{}"),
        deadline,
        idempotency_key: None,
        traceparent: None,
        stop: Arc::new(StopFlag::default()),
    }
}

/// Takes reports and keeps them.
#[derive(Default)]
pub struct Recorder {
    reports: Mutex<Vec<Report>>,
    reported: Condvar,
    log: Mutex<Bytes>,
}

impl Recorder {
    /// What was reported so far.
    pub fn reports(&self) -> Vec<Report> {
        self.reports.lock().unwrap().clone()
    }

    /// Waits until so many reports have come.
    pub fn wait_for(&self, count: usize) {
        let reports = self.reports.lock().unwrap();
        drop(self.reported.wait_while(reports, |reports| reports.len() < count).unwrap());
    }

    /// Keeps an attempt's log.
    pub fn keep_log(&self, log: Bytes) {
        *self.log.lock().unwrap() = log;
    }

    /// The log that was kept.
    pub fn log(&self) -> String {
        String::from_utf8(self.log.lock().unwrap().to_vec()).unwrap()
    }
}

impl WorkSource for Recorder {
    fn claim(&self, _: usize) -> Result<Vec<Claim>, Closed> {
        Err(Closed)
    }

    fn payload(&self, _: &Claim) -> Result<Bytes, NoPayload> {
        Err(NoPayload("none here".into()))
    }

    fn report(&self, _: &Claim, report: Report) {
        self.reports.lock().unwrap().push(report);
        self.reported.notify_all();
    }

    fn finish(&self, _: &Claim, _: Leave, _: Bytes, freed: Box<dyn FnOnce() + Send>) {
        freed();
    }
}
