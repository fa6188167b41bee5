//! What tests of handlers share: a claim, and a source that only records.

use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;

use crate::job::{Action, BodyRef, Carried, ClaimNo, JobId, Part, Timestamp};
use crate::work::{Claim, Closed, Leave, NoBody, Report, StopFlag, WorkSource};

/// The first attempt of a job, to be over by `deadline`.
pub fn claim(deadline: Timestamp) -> Claim {
    Claim {
        job: JobId::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001),
        job_type: "trial".into(),
        number: ClaimNo(7),
        attempt: 1,
        max_attempts: 5,
        payload: BodyRef::of(Part::Payload, 0, b"{}"),
        carried: Carried::default(),
        deadline,
        idempotency_key: None,
        traceparent: None,
        stop: Arc::new(StopFlag::default()),
        answers: Arc::default(),
    }
}

/// Takes reports and keeps them.
#[derive(Default)]
pub struct Recorder {
    reports: Mutex<Vec<Report>>,
    reported: Condvar,
    log: Mutex<Bytes>,
    bodies: Mutex<Vec<(BodyRef, Bytes)>>,
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

    /// Answers a question of the claim's job.
    pub fn answer(&self, claim: &Claim, key: &str, action: Action, content: Option<&str>) {
        let content = content.map(|content| format!(",\"content\":{content}")).unwrap_or_default();
        let bytes = Bytes::from(format!("{{\"key\":\"{key}\",\"action\":\"{}\"{content}}}", action.name()));
        let name = {
            let mut bodies = self.bodies.lock().unwrap();
            let name = BodyRef::of(Part::Answer, bodies.len() as u64, &bytes);
            bodies.push((name, bytes));
            name
        };
        claim.answers.put([name]);
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

    fn body(&self, _: &Claim, name: BodyRef) -> Result<Bytes, NoBody> {
        let bodies = self.bodies.lock().unwrap();
        let found = bodies.iter().find(|(known, _)| *known == name);
        found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| NoBody("none here".into()))
    }

    fn report(&self, _: &Claim, report: Report) {
        self.reports.lock().unwrap().push(report);
        self.reported.notify_all();
    }

    fn finish(&self, _: &Claim, _: Leave, _: Bytes, freed: Box<dyn FnOnce() + Send>) {
        freed();
    }
}
