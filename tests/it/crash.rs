//! Death at every named place: whatever a client was told before is true after.
//!
//! Each point of `fault::Point`, with each step of a group, has a scene below that leads there. In it the real binary
//! aborts on the n-th pass, `verify` accepts what it left, and a clean start is compared with the story of the client; a
//! start that died dies once more before that. `LONGHAUL_LONG=1` takes many more passes. The breaches at the end show that
//! the comparison would notice.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;

use longhaul::fault::{Breach, Point, Step};
use rustix::process::Signal;
use serde_json::json;

use crate::story::driver::{Deed, Driver, ENDLESS_MS, Gone, Way};
use crate::story::truth::{self, Kept};
use crate::story::{Shared, Story};
use crate::support::{Server, TRIAL, is_long};

/// Cases at a time: most of each is waiting for a disk.
const AT_ONCE: usize = 4;
/// Rounds after which a point that was not passed never will be.
const ROUNDS_MAX: usize = 60;
/// Ended jobs that are kept where some are to go; a client never has so many whose end it does not know.
const KEPT: &str = "20";

/// Attempts that are running when a server dies: a few, or more than one group of its recovery takes.
const FEW: usize = 3;
const MORE_THAN_A_GROUP: usize = 140;
/// Attempts that can run at once, where few do.
const WORKERS: usize = 8;

/// How a server is brought to a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// By work.
    Serving,
    /// By work, with so few ended jobs kept that some go.
    Trimming,
    /// By the signal to end, with attempts running.
    Ending,
    /// By a start after a death that left attempts and an unnamed body.
    Starting,
    /// By the very first start.
    New,
    /// Only with a promise broken: tested below.
    Broken,
    /// By nothing: the reason.
    Never(&'static str),
}

/// The scene of each point; a new point needs one before this compiles.
fn scene(point: Point, step: Option<Step>) -> Scene {
    match point {
        Point::BeforeCommit | Point::BeforeSync | Point::AfterSync => step.map_or(Scene::Serving, scene_of_step),
        Point::BeforeAnswer => match step {
            Some(Step::Trim | Step::Interrupt) => Scene::Never("nobody asked for it"),
            Some(step) => scene_of_step(step),
            None => Scene::Serving,
        },
        Point::OutcomeKnown | Point::BodyWriting | Point::BodyRenaming | Point::BodyRenamed => Scene::Serving,
        Point::BodyRemoving => Scene::Trimming,
        Point::Opening | Point::Recovering | Point::Recovered | Point::BodySweeping => Scene::Starting,
        Point::Creating => Scene::New,
        Point::Draining | Point::Releasing | Point::Closing | Point::Closed => Scene::Ending,
        Point::BetweenBatches | Point::BeforeFloor => Scene::Broken,
        Point::RestoreFilled | Point::RestoreSynced => Scene::Never("`restore` passes it: see `backup`"),
        Point::CompactFilled
        | Point::CompactSynced
        | Point::CompactHalfway
        | Point::CompactSwapped
        | Point::CompactKept => Scene::Never("`compact` passes it: see `compact`"),
    }
}

fn scene_of_step(step: Step) -> Scene {
    match step {
        Step::Create | Step::Claim | Step::Report | Step::Ask | Step::Answer => Scene::Serving,
        Step::Finish | Step::Retry => Scene::Serving,
        Step::Replay | Step::Cancel | Step::Refer | Step::Cell => Scene::Serving,
        Step::Release => Scene::Ending,
        Step::Interrupt => Scene::Starting,
        Step::Trim => Scene::Trimming,
    }
}

/// A death to be tried.
#[derive(Debug, Clone, Copy)]
struct Case {
    point: Point,
    step: Option<Step>,
    pass: u32,
}

impl Case {
    /// The same as `LONGHAUL_CRASH`.
    fn wish(&self) -> String {
        let step = self.step.map(|step| format!("/{}", step.name())).unwrap_or_default();
        format!("{}{step}:{}", self.point.name(), self.pass)
    }

    /// All of them. What a start or an end passes only once is tried once; interrupting many takes two groups.
    fn all() -> VecDeque<Self> {
        let passes: &[u32] = if is_long() { &[1, 2, 3, 5, 8, 13, 21, 34] } else { &[1, 2, 5] };
        let steps = |point: Point| match point.is_of_a_group() {
            true => std::iter::once(None).chain(Step::ALL.iter().copied().map(Some)).collect(),
            false => vec![None],
        };
        let places = Point::ALL.iter().flat_map(|point| steps(*point).into_iter().map(|step| (*point, step)));
        let cases = places.flat_map(|(point, step)| {
            let passes = match scene(point, step) {
                Scene::Serving | Scene::Trimming => passes,
                Scene::Starting if step == Some(Step::Interrupt) => &[1, 2],
                Scene::Ending | Scene::Starting | Scene::New => &[1],
                Scene::Broken | Scene::Never(_) => &[],
            };
            passes.iter().map(move |pass| Self { point, step, pass: *pass })
        });
        cases.collect()
    }
}

#[test]
fn a_death_at_any_named_place_leaves_every_clients_story_true() {
    let cases = Mutex::new(Case::all());
    let count = cases.lock().expect("cases").len();
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = { cases.lock().expect("cases").pop_front() } {
                    if let Err(why) = play(case) {
                        failed.lock().expect("failures").push(format!("{}: {why}", case.wish()));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("failures");
    assert!(failed.is_empty(), "{} of {count} deaths:\n{}", failed.len(), failed.join("\n"));
    println!("{count} deaths, each survived");
}

fn play(case: Case) -> Result<(), String> {
    match scene(case.point, case.step) {
        Scene::Serving => serving(case, Kept::All),
        Scene::Trimming => serving(case, Kept::NotAll),
        Scene::Ending => ending(case),
        Scene::Starting => starting(case),
        Scene::New => new(case),
        Scene::Broken | Scene::Never(_) => Ok(()),
    }
}

fn config(kept: Kept) -> String {
    let retention = match kept {
        Kept::All => String::new(),
        Kept::NotAll => format!("[retention]\nmax_jobs = {KEPT}\n"),
    };
    let tool = TRIAL.replace("\"50ms\"", "\"1ms\"").replace("\"200ms\"", "\"2ms\"");
    format!("{retention}[server]\nshutdown_grace = \"50ms\"\n[queue]\nworkers = {WORKERS}\n{tool}")
}

/// A server that is to die, and its client; not started yet.
fn prepare(case: Case, kept: Kept) -> Server {
    let mut server = Server::prepare(&config(kept));
    server.set_variable("LONGHAUL_CRASH", Some(&case.wish()));
    server
}

fn client_of(server: &Server) -> Driver {
    Driver { client: server.client(), story: Shared::default() }
}

/// Does everything there is to do, round by round, while somebody reads along. A server that survives it is killed.
fn work(server: &mut Server, driver: &Driver, rounds: usize) -> Result<(), Gone> {
    std::thread::scope(|scope| {
        scope.spawn(|| driver.follow_log());
        let done = (0..rounds).try_for_each(|round| work_round(driver, round));
        if done.is_ok() {
            server.kill();
        }
        done
    })
}

fn work_round(driver: &Driver, round: usize) -> Result<(), Gone> {
    let session = Way::Session(driver.open_session()?);
    for (n, deed) in Deed::ALL.into_iter().enumerate() {
        let way = [&Way::Http, &Way::Modern, &session][(n + round) % 3];
        driver.act(deed, &format!("{round}-{deed:?}"), way)?;
    }
    Ok(())
}

/// The process has died at this place and nowhere else.
fn died(server: &mut Server, case: Case) -> Result<(), String> {
    let status = server.wait_exit();
    let words = server.last_words();
    let place = format!("point=\"{}\" step=\"{}\"", case.point.name(), case.step.map_or("any", Step::name));
    let has_died = status.signal() == Some(Signal::ABORT.as_raw()) && words.contains(&place);
    if has_died { Ok(()) } else { Err(format!("it did not die there, but by {status}: {words}")) }
}

/// `verify` accepts what is left, and a server started on it keeps to the story.
fn prove(server: &mut Server, driver: &Driver, kept: Kept) -> Result<(), String> {
    let (is_whole, said) = server.verify();
    if !is_whole {
        return Err(format!("verify: {said}"));
    }
    come_back(server, driver, kept)
}

fn come_back(server: &mut Server, driver: &Driver, kept: Kept) -> Result<(), String> {
    server.set_variable("LONGHAUL_CRASH", None);
    server.set_variable("LONGHAUL_BREACH", None);
    server.try_start_again()?;
    let driver = Driver { client: server.client(), ..driver.clone() };
    truth::compare(&driver, kept)?;
    truth::settle(&driver, kept)
}

fn serving(case: Case, kept: Kept) -> Result<(), String> {
    let mut server = prepare(case, kept);
    // Endpoints have cells of their own: with one of these the first start may die.
    let serves = server.try_start_again().is_ok();
    let driver = client_of(&server);
    if serves && work(&mut server, &driver, ROUNDS_MAX).is_ok() {
        return Err(format!("it was not passed in {ROUNDS_MAX} rounds"));
    }
    died(&mut server, case)?;
    prove(&mut server, &driver, kept)
}

/// Attempts that end only by a cancel, known to run.
fn hold(driver: &Driver, count: usize) -> Result<(), Gone> {
    let ids =
        (0..count).map(|n| driver.submit(&format!("held-{n}"), &json!({"do": "sleep", "ms": ENDLESS_MS}), &Way::Http));
    for id in ids.collect::<Result<Vec<_>, _>>()? {
        driver.client.stream(&format!("/api/jobs/{id}/events"), None).find(|event| event.event == "job.started");
    }
    Ok(())
}

fn ending(case: Case) -> Result<(), String> {
    let mut server = prepare(case, Kept::All);
    server.try_start_again()?;
    let driver = client_of(&server);
    let began = hold(&driver, FEW).and_then(|()| driver.act(Deed::Large, "large", &Way::Http));
    began.map_err(|gone| format!("{gone:?} before the end"))?;
    server.signal(Signal::TERM);
    while driver.act(Deed::Noop, &format!("late-{}", driver.story.open().submits.len()), &Way::Http).is_ok() {}
    died(&mut server, case)?;
    prove(&mut server, &driver, Kept::All)
}

fn starting(case: Case) -> Result<(), String> {
    let first = Case { point: Point::BodyRenamed, step: None, pass: 1 };
    let mut server = prepare(first, Kept::All);
    if case.pass > 1 {
        let workers = |count: usize| format!("workers = {count}\n");
        server.reconfigure(&config(Kept::All).replace(&workers(WORKERS), &workers(MORE_THAN_A_GROUP + WORKERS)));
    }
    server.try_start_again()?;
    let driver = client_of(&server);
    let held = if case.pass > 1 { MORE_THAN_A_GROUP } else { FEW };
    hold(&driver, held).map_err(|gone| format!("{gone:?} before the first death"))?;
    if driver.act(Deed::Large, "large", &Way::Http).is_ok() {
        return Err("the first death did not come".into());
    }
    died(&mut server, first)?;
    // The recovery of a recovery: where the first leaves nothing to be done again, somewhere else in it.
    let is_done = (case.point, case.step) == (Point::AfterSync, Some(Step::Interrupt));
    let again = if is_done { Case { point: Point::Recovered, step: None, pass: 1 } } else { Case { pass: 1, ..case } };
    for case in [case, again] {
        server.set_variable("LONGHAUL_CRASH", Some(&case.wish()));
        if server.try_start_again().is_ok() {
            return Err("it started".into());
        }
        died(&mut server, case)?;
    }
    prove(&mut server, &driver, Kept::All)
}

fn new(case: Case) -> Result<(), String> {
    let mut server = prepare(case, Kept::All);
    for _ in 0..2 {
        if server.try_start_again().is_ok() {
            return Err("it started".into());
        }
        died(&mut server, case)?;
    }
    server.set_variable("LONGHAUL_CRASH", None);
    server.try_start_again()?;
    let driver = client_of(&server);
    work(&mut server, &driver, 1).map_err(|gone| format!("{gone:?}"))?;
    prove(&mut server, &driver, Kept::All)
}

/// A crash that only a broken promise leads to, and what must be noticed after it.
fn broken(breach: Breach, case: Case, kept: Kept) -> Result<(), String> {
    let mut server = prepare(case, kept);
    server.set_variable("LONGHAUL_BREACH", Some(breach.name()));
    let serves = server.try_start_again().is_ok();
    let driver = client_of(&server);
    let is_passed = !serves || work(&mut server, &driver, ROUNDS_MAX).is_err();
    assert!(is_passed, "{} was not passed", case.wish());
    died(&mut server, case).expect("it dies where it was told to");
    let (is_whole, said) = server.verify();
    let compared = come_back(&mut server, &driver, kept);
    println!("{}: verify: {}; the client: {compared:?}", case.wish(), said.lines().next().unwrap_or_default());
    if is_whole { compared } else { Err(said) }
}

/// Whoever writes each tree by itself leaves half of a group behind, and this proof says so.
#[test]
fn separate_batches_are_noticed() {
    let torn = |pass: &u32| {
        let case = Case { point: Point::BetweenBatches, step: None, pass: *pass };
        broken(Breach::SeparateBatches, case, Kept::All).is_err()
    };
    let passes = [5, 8, 9];
    assert!(passes.iter().filter(|pass| torn(pass)).count() > 0, "three deaths between batches went unnoticed");
}

/// Whoever removes first and raises the floor later leaves a log with a hole that nobody is told of.
#[test]
fn a_floor_that_rises_after_the_removal_is_noticed() {
    let case = Case { point: Point::BeforeFloor, step: None, pass: 1 };
    broken(Breach::FloorAfterRemoval, case, Kept::NotAll).expect_err("a hole above the floor");
}

/// Whoever issues a position again has told two clients different things under one id.
#[test]
fn a_position_that_is_issued_twice_is_noticed() {
    let mut server = Server::start(&config(Kept::All));
    let driver = client_of(&server);
    work(&mut server, &driver, 1).expect("it serves");
    server.set_variable("LONGHAUL_BREACH", Some(Breach::PositionTwice.name()));
    server.start_again();
    let session = Way::Session(driver.open_session().expect("it serves"));
    let work = driver.act(Deed::Noop, "again", &session);
    server.kill();
    let (is_whole, said) = server.verify();
    let compared = come_back(&mut server, &driver, Kept::All);
    println!("after {work:?}: verify: {said}; the client: {compared:?}");
    compared.expect_err("two events with one id");
    assert!(!is_whole, "{said}");
}

/// What was never so, added to a true story.
type Falsehood = (&'static str, fn(&mut Story));

const FALSEHOODS: &[Falsehood] = &[
    ("a job that never was", |story| {
        story.asks("never", &json!({"do": "noop"}));
        story.told_job("never", "01a22e74-60d7-787a-b7ff-a5d9dcc6e89d");
    }),
    ("a job under another key", |story| {
        let one = story.submits["0-Noop"].id.clone();
        story.submits.get_mut("0-Large").expect("a job").id = one;
    }),
    ("an event that was different", |story| {
        story.events.values_mut().next().expect("an event").1.push(' ');
    }),
    ("an event that is not there", |story| {
        let last = story.events.last_key_value().expect("an event");
        let (past, (job, event)) = (last.0 + 1, last.1.clone());
        story.events.insert(past, (job, event));
    }),
    ("an event that a reader was not shown", |story| {
        story
            .readings
            .push(story.events.keys().copied().enumerate().filter(|(n, _)| *n != 3).map(|(_, p)| p).collect());
    }),
    ("a gap where nothing was removed", |story| story.resets.push(json!({"reason": "trimmed"}))),
    ("another end", |story| story.ends.values_mut().for_each(|end| end["finishedAt"] = json!("earlier"))),
    ("another receipt", |story| story.receipts.values_mut().for_each(|receipt| receipt[2] = json!("another"))),
    ("a cancel of what was completed", |story| {
        let completed = story.submits["0-Noop"].id.clone().expect("a job");
        story.receipts.insert(completed, json!([]));
    }),
    ("another job from a dead letter", |story| {
        let other = story.submits["0-Noop"].id.clone();
        story.replays.values_mut().for_each(|new| new.clone_from(&other));
    }),
    ("a result that was different", |story| {
        story.submits.get_mut("0-Large").expect("a job").payload["bytes"] = json!(7);
    }),
    ("a session that never was", |story| story.sessions.extend(["never".to_owned()])),
];

#[test]
fn a_story_that_is_not_true_is_told_from_one_that_is() {
    let mut server = Server::start(&config(Kept::All));
    let driver = client_of(&server);
    work(&mut server, &driver, 1).expect("it serves");
    prove(&mut server, &driver, Kept::All).expect("the story is true");
    for (what, add) in FALSEHOODS {
        let told = Shared::default();
        *told.open() = driver.story.open().clone();
        add(&mut told.open());
        let driver = Driver { client: server.client(), story: told };
        let judged = truth::settle(&driver, Kept::All);
        assert!(judged.is_err(), "{what}: not noticed");
    }
}
