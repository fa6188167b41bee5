//! Golden bytes of each record, and bytes that are none.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::chunk::{CHUNK_MAX, Chunk, Chunks, Item};
use super::*;
use crate::job::{
    ANSWERS_TOLD_MAX, Action, Answer, BodyRef, CARRIED_MAX, Carried, ClaimNo, Class, Completion, EVENT_TYPES, End,
    Entry, Epoch, Failure, Job, JobId, Json, Key, LastError, Logged, Mark, Millis, Part, Place, Position, Progress,
    QUESTION_KEY_MAX, QUESTION_MESSAGE_MAX, QUESTION_SCHEMA_MAX, QUESTIONS_MAX, Question, Questions, Receipt, Spec,
    Standing, State, Timestamp, Trail,
};

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        id: JobId::from_u128(0x0193_8f2a_7c00_7abc_8def_0123_4567_89ab),
        job_type: "echo".into(),
        owner: "ann".into(),
        payload: body(Part::Payload, 0),
        carried: Carried::default(),
        priority: -7,
        max_attempts: 5,
        created_at: Timestamp(1_732_960_000_000),
        expires_at: Some(Timestamp(1_732_960_060_000)),
        key: Some(Arc::new(Key { text: "k".into(), digest: [3; 32] })),
        tags: Arc::new(["x".into(), "yy".into()]),
        traceparent: Some("00-1-2-01".into()),
        replay_of: Some(JobId::from_u128(9)),
    })
}

fn body(part: Part, seq: u64) -> BodyRef {
    BodyRef { part, seq, len: 300, crc: 0xdead_beef }
}

fn failure() -> Failure {
    Failure { class: Class::Transient, message: "m".into(), code: Some("timeout".into()), rpc_code: Some(-32_603) }
}

fn progress() -> Progress {
    Progress { step: Some(1), total_steps: Some(4), percent: Some(12.5), message: Some("half".into()) }
}

fn completion() -> Arc<Completion> {
    let (result, content) = (Some(body(Part::Result, 2)), Some(body(Part::Content, 2)));
    Arc::new(Completion { summary: "s".into(), result, content, is_error: true, lossy: false })
}

/// A record with something in every field.
fn job(state: State) -> Job {
    Job {
        spec: spec(),
        state,
        revision: 300,
        claims: 2,
        attempts: 2,
        interruptions: 1,
        run_at: Timestamp(-1),
        updated_at: Timestamp(2),
        started_at: Some(Timestamp(3)),
        finished_at: Some(Timestamp(4)),
        progress: Some(Arc::new(progress())),
        progress_at: Some(Timestamp(5)),
        reached: Some(Place { step: 1, percent: 12.5 }),
        reached_before: None,
        partial: Some(body(Part::Partial, 1 << 32 | 1)),
        error: Some(Arc::new(LastError { failure: failure(), attempt: 2 })),
        cancel: Some(Arc::new(Receipt {
            requested_at: Timestamp(6),
            requested_by: "ann".into(),
            reason: "user".into(),
            delivered_at: Some(Timestamp(7)),
            stopped_at: None,
        })),
        logs: vec![body(Part::Log, 1)],
        questions: Questions::default(),
    }
}

/// A record of a job that waits for one of two answers.
fn asked() -> Job {
    let standings = [
        Standing::Answered { action: Action::Decline, body: body(Part::Answer, 1 << 32 | 1) },
        Standing::Open { body: body(Part::Question, 1 << 32 | 2), asked_at: Timestamp(8) },
    ];
    let keyed = |(key, standing)| Question { mark: Mark::of(key), standing };
    let questions: Vec<Question> = ["size", "colour"].into_iter().zip(standings).map(keyed).collect();
    Job { questions: questions.into(), ..job(State::InputRequired) }
}

/// The entries of questions: they came later than the others.
fn entries_of_questions() -> Vec<Entry> {
    vec![
        Entry::Asked {
            claim: ClaimNo(2),
            key: "size".into(),
            message: "Which?".into(),
            schema: Json("{}".into()),
            body: body(Part::Question, 1 << 32 | 1),
        },
        Entry::Answered {
            by: "ann".into(),
            answers: vec![Answer { key: "size".into(), action: Action::Accept, body: body(Part::Answer, 1 << 32 | 1) }],
        },
    ]
}

/// One entry of each kind.
fn entries() -> Vec<Entry> {
    let (claim, log, failure) = (ClaimNo(2), Some(body(Part::Log, 2)), failure());
    let (by, reason): (Arc<str>, Arc<str>) = ("ann".into(), "user".into());
    vec![
        Entry::Created { spec: spec(), run_at: Some(Timestamp(1)) },
        Entry::Started { claim, attempt: 2, max_attempts: 5, worker: "w1".into() },
        Entry::Progress(progress()),
        Entry::Partial { body: body(Part::Partial, 1), inline: Some(Json("[1]".into())) },
        Entry::Retrying {
            claim,
            end: End::TimedOut,
            failure: failure.clone(),
            retry: 1,
            max_attempts: 5,
            next_at: Timestamp(9),
            log,
        },
        Entry::Released { claim, log },
        Entry::Interrupted { claim, charged: true },
        Entry::CancelRequested { by: by.clone(), reason: reason.clone() },
        Entry::CancelDelivered { claim },
        Entry::Completed {
            claim,
            completion: completion(),
            attempts: 2,
            duration: Millis(1_500),
            inline: Some(Json("{}".into())),
            log,
        },
        Entry::Failed { claim: Some(claim), end: Some(End::Failed), failure, attempts: 2, log: None },
        Entry::Canceled { claim: None, by, reason, log: None },
        Entry::Replayed { as_job: JobId::from_u128(77) },
    ]
}

fn logged() -> Vec<Logged> {
    positioned(entries())
}

fn positioned(entries: Vec<Entry>) -> Vec<Logged> {
    let spec = spec();
    let of = |(n, entry): (usize, Entry)| Logged {
        position: Position(1_000 + n as u64),
        at: Timestamp(1_732_960_000_000 + n as i64),
        job: spec.id,
        job_type: spec.job_type.clone(),
        owner: spec.owner.clone(),
        tags: spec.tags.clone(),
        entry,
    };
    entries.into_iter().enumerate().map(of).collect()
}

fn chunks(entries: &[Logged]) -> Vec<(Position, Vec<u8>)> {
    let mut chunks = Chunks::default();
    entries.iter().for_each(|logged| chunks.push(&Item::from(logged)));
    chunks.finish().collect()
}

fn states() -> Vec<(&'static str, State)> {
    vec![
        ("pending", State::Pending),
        ("in_progress", State::InProgress { claim: ClaimNo(2), worker: "w1".into() }),
        ("completed", State::Completed(completion())),
        ("failed", State::Failed { replayed_as: Some(JobId::from_u128(77)) }),
        ("canceled", State::Canceled { by: "ann".into(), reason: "user".into() }),
    ]
}

/// Every kind of record, by name.
fn records() -> Vec<(String, Vec<u8>)> {
    let trail = Trail { blocks: 3, recent: vec![Position(5), Position(70_000)] };
    let mut buffer = Buffer::default();
    let heads =
        states().into_iter().map(|(name, state)| (format!("head {name}"), buffer.head(&job(state), &trail).to_vec()));
    let mut records: Vec<_> = heads.collect();
    records.push(("chunk".into(), chunks(&logged()).remove(0).1));
    let row = Row { status: crate::job::Status::Failed, dead_letter: true, job_type: "echo".into() };
    records.push(("row".into(), encode(Kind::Row, &row)));
    records.push(("key".into(), encode(Kind::Key, &spec().id)));
    records.push(("block".into(), encode(Kind::Block, &(1..=64).map(Position).collect::<Vec<_>>())));
    records.push(("epoch".into(), encode(Kind::Own, &Epoch(0xfeed_beef))));
    records.push(("standing".into(), encode(Kind::Own, &(7_u64, 900_u64))));
    records.push(("head asked".into(), buffer.head(&asked(), &trail).to_vec()));
    records.push(("chunk of questions".into(), chunks(&positioned(entries_of_questions())).remove(0).1));
    records
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As the first release wrote them.
const GOLDEN: &str = include_str!("golden.txt");

/// A store written by an earlier build must be read by this one: a layout that changes needs a new version byte.
#[test]
fn records_have_the_bytes_they_always_had() {
    let written: String = records().iter().map(|(name, bytes)| format!("{name}: {}\n", hex(bytes))).collect();
    let changed: Vec<_> = written.lines().zip(GOLDEN.lines()).filter(|(now, golden)| now != golden).collect();
    assert!(written == GOLDEN, "{changed:#?}\n\nall of them now:\n{written}");
}

#[test]
fn records_come_back_as_they_were_written() {
    let trail = Trail { blocks: 3, recent: vec![Position(5), Position(70_000)] };
    for ((_, bytes), (_, state)) in records().iter().zip(states()) {
        assert_eq!(head(bytes), Ok(Head { job: job(state), trail: trail.clone() }));
    }
    for entries in [entries(), entries_of_questions()] {
        let (first, bytes) = chunks(&positioned(entries.clone())).remove(0);
        let chunk = Chunk::decode(first, &bytes).expect("a chunk");
        assert_eq!(chunk.entries, positioned(entries));
    }
    let bytes = Buffer::default().head(&asked(), &trail).to_vec();
    assert_eq!((bytes[0], head(&bytes)), (Kind::Asked as u8, Ok(Head { job: asked(), trail })));
}

#[test]
fn a_record_carries_the_payload_that_it_names_and_no_other() {
    let trail = Trail { blocks: 0, recent: vec![Position(7)] };
    for (job, kind) in [(job(State::Pending), Kind::Head), (asked(), Kind::Asked)] {
        let payload = b"{}";
        let mut job = Job {
            spec: Arc::new(Spec { payload: BodyRef::of(Part::Payload, 0, payload), ..(*job.spec).clone() }),
            ..job
        };
        assert_eq!(Buffer::default().head(&job, &trail)[0], kind as u8, "nothing is carried");
        Arc::make_mut(&mut job.spec).carried = Carried::of(payload);
        let bytes = Buffer::default().head(&job, &trail).to_vec();
        let found = head(&bytes).expect("a record");
        assert_eq!((bytes[0], found.job.spec.carried()), (Kind::Carrying as u8, Some(&payload[..].into())));
        assert_eq!(found, Head { job: job.clone(), trail: trail.clone() });
        let mut other = bytes[ENVELOPE..].to_vec();
        *other.last_mut().expect("the payload") = b'[';
        let found = head(&enveloped(Kind::Carrying, &other));
        assert!(matches!(found, Err(Damage::Content(why)) if why.contains("payload")));
        Arc::make_mut(&mut job.spec).carried = Carried::of(b"[]");
        assert_eq!(Buffer::default().head(&job, &trail)[0], kind as u8, "another payload is not carried");
    }
    for (len, is_carried) in [(CARRIED_MAX, true), (CARRIED_MAX + 1, false)] {
        let payload = vec![0; len];
        let name = BodyRef::of(Part::Payload, 0, &payload);
        assert_eq!(Carried::of(&payload).bytes(name).is_some(), is_carried);
    }
}

#[test]
fn another_version_is_refused_by_its_first_byte() {
    let mut buffer = Buffer::default();
    let mut bytes = buffer.head(&job(State::Pending), &Trail::default()).to_vec();
    bytes[0] = 0x14;
    assert_eq!(head(&bytes), Err(Damage::Foreign { found: 0x14, wanted: Kind::Head }));
    let Error::Corrupt { at, why } = head(&bytes).expect_err("foreign").at("here") else { panic!("another error") };
    assert_eq!(at, "here");
    assert!(why.contains("0x14") && why.contains("0x11"), "{why}");
    assert_eq!(head(&[]), Err(Damage::Foreign { found: 0, wanted: Kind::Head }));
}

#[test]
fn every_cut_and_every_flipped_bit_is_noticed() {
    for (name, bytes) in records() {
        let broken = |bytes: &[u8]| match name.as_str() {
            "chunk" | "chunk of questions" => Chunk::decode(Position(1_000), bytes).is_err(),
            "row" => decode::<Row>(Kind::Row, bytes).is_err(),
            "key" => decode::<JobId>(Kind::Key, bytes).is_err(),
            "block" => decode::<Vec<Position>>(Kind::Block, bytes).is_err(),
            "epoch" => decode::<Epoch>(Kind::Own, bytes).is_err(),
            "standing" => decode::<(u64, u64)>(Kind::Own, bytes).is_err(),
            _ => head(bytes).is_err(),
        };
        assert!(!broken(&bytes), "{name}");
        assert!((0..bytes.len()).all(|length| broken(&bytes[..length])), "{name} cut");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(broken(&flipped), "{name} with bit {bit} flipped");
        }
    }
}

/// Bytes of that kind whose envelope is right, whatever is inside.
fn enveloped(kind: Kind, inside: &[u8]) -> Vec<u8> {
    let mut buffer = Buffer::default();
    buffer.seal(kind, |to| to.0.extend_from_slice(inside));
    buffer.0
}

#[test]
fn a_claimed_length_allocates_nothing() {
    // A block that says it has 2^60 positions, a chunk with as many labels or entries, a key text of 4 GiB.
    let many = [&[253][..], &(1_u64 << 60).to_le_bytes()].concat();
    let claims = decode::<Vec<Position>>(Kind::Block, &enveloped(Kind::Block, &many));
    assert!(matches!(&claims, Err(Damage::Content(why)) if why.contains("LimitExceeded")), "{claims:?}");
    for front in [[vec![0, 0], many.clone(), vec![0]].concat(), [vec![0, 0, 0], many.clone()].concat()] {
        assert!(Chunk::decode(Position(1), &enveloped(Kind::Chunk, &front)).is_err());
    }
    let text = [&[252][..], &u32::MAX.to_le_bytes()].concat();
    assert!(decode::<String>(Kind::Own, &enveloped(Kind::Own, &text)).is_err());
}

#[test]
fn chunks_stay_small_and_say_what_is_common_once() {
    let spec = spec();
    let entry = |n: u64| Logged { position: Position(n), entry: Entry::Progress(progress()), ..logged().remove(1) };
    let many: Vec<Logged> = (1..=1_000).map(entry).collect();
    let chunks = chunks(&many);
    assert!(chunks.iter().all(|(_, bytes)| bytes.len() <= CHUNK_MAX));
    let whole: usize = chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(whole < 1_000 * 45, "{whole} bytes for a thousand progress entries of {}", spec.owner);
    let back: Vec<Logged> =
        chunks.iter().flat_map(|(first, bytes)| Chunk::decode(*first, bytes).expect("a chunk").entries).collect();
    assert_eq!(back, many);
    // An entry that alone is larger has a chunk to itself.
    let large = Logged {
        entry: Entry::CancelRequested { by: "x".repeat(2 * CHUNK_MAX).into(), reason: "r".into() },
        ..entry(2)
    };
    let three = [entry(1), large, entry(3)];
    assert_eq!(self::chunks(&three).iter().map(|(first, _)| first.0).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Values stay small (design 5.4): the store keeps no side files for records and chunks.
#[test]
fn the_largest_questions_fit_their_chunks_and_the_largest_record_its_value() {
    let long = |length: usize| -> Arc<str> { "x".repeat(length).into() };
    let far = |part| BodyRef { part, seq: u64::MAX, len: 16_000, crc: u32::MAX };
    let asked = Entry::Asked {
        claim: ClaimNo(u64::MAX),
        key: long(QUESTION_KEY_MAX),
        message: long(QUESTION_MESSAGE_MAX),
        schema: Json(long(QUESTION_SCHEMA_MAX)),
        body: far(Part::Question),
    };
    let said = Answer { key: long(QUESTION_KEY_MAX), action: Action::Accept, body: far(Part::Answer) };
    let answered = Entry::Answered { by: long(64), answers: vec![said; ANSWERS_TOLD_MAX] };
    for entry in [asked, answered] {
        let tags: Arc<[Arc<str>]> = vec![long(64); 16].into();
        let logged = Logged { job_type: long(64), owner: long(64), tags, ..positioned(vec![entry]).remove(0) };
        let bytes = chunks(std::slice::from_ref(&logged)).remove(0).1;
        assert!(bytes.len() <= CHUNK_MAX, "{} bytes", bytes.len());
    }
    let standing = Standing::Open { body: far(Part::Question), asked_at: Timestamp(i64::MAX) };
    let question = |n: usize| Question { mark: Mark::of(&n.to_string()), standing };
    let many: Vec<Question> = (0..QUESTIONS_MAX).map(question).collect();
    let size = |job: &Job| Buffer::default().head(job, &Trail::default()).len();
    let plain = job(State::InputRequired);
    assert!(size(&Job { questions: many.into(), ..plain.clone() }) - size(&plain) <= 1_536);
}

#[test]
fn a_chunk_loses_only_the_entries_of_the_jobs_that_go() {
    let other = JobId::from_u128(5);
    let mut entries = logged();
    entries[1..].iter_mut().step_by(2).for_each(|logged| logged.job = other);
    let (first, bytes) = chunks(&entries).remove(0);
    let chunk = || Chunk::decode(first, &bytes).expect("a chunk");
    let rest = chunk().without(first, |job| job != other).expect("some are left");
    let rest = Chunk::decode(first, &rest).expect("a chunk");
    let kept: Vec<Logged> = entries.iter().filter(|logged| logged.job == other).cloned().collect();
    assert_eq!(rest.entries, kept);
    assert_eq!(chunk().without(first, |_| true), None);
}

proptest! {
    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..6_usize) {
        let kind = [Kind::Head, Kind::Chunk, Kind::Row, Kind::Key, Kind::Block, Kind::Own][kind];
        for bytes in [bytes.clone(), enveloped(kind, &bytes)] {
            let _ = head(&bytes);
            let _ = Chunk::decode(Position(u64::MAX - 1), &bytes);
            let _ = decode::<Row>(kind, &bytes);
            let _ = decode::<JobId>(kind, &bytes);
            let _ = decode::<Vec<Position>>(kind, &bytes);
            let _ = decode::<(u64, u64)>(kind, &bytes);
        }
    }

    #[test]
    fn a_damaged_honest_record_never_panics(at in 0..400_usize, byte in any::<u8>(), chunk in any::<bool>()) {
        let (name, bytes) = &records()[if chunk { 5 } else { 2 }];
        let mut inside = bytes[ENVELOPE..].to_vec();
        let at = at % inside.len();
        inside[at] = byte;
        let _ = (name, head(&enveloped(Kind::Head, &inside)));
        let _ = Chunk::decode(Position(1_000), &enveloped(Kind::Chunk, &inside));
    }
}

#[test]
fn every_type_of_event_that_an_entry_tells_is_listed_and_no_other() {
    let entries = [entries(), entries_of_questions()].concat();
    let told: std::collections::BTreeSet<_> = entries.iter().filter_map(Entry::event_type).collect();
    assert_eq!(told, EVENT_TYPES.into_iter().collect());
}
