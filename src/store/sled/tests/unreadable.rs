//! What sled replays past a place it cannot read, and what is made of that.

use std::collections::BTreeMap;

use super::*;
use crate::job::Logged;
use crate::store::sled::{doubt, segments};
use crate::store::verify;

/// Places that are damaged, spread over all that sled replays and has called stable.
const PLACES: usize = 40;
/// Jobs before the last start, and after it: few enough that one segment holds most of what the second start has seen of some
/// pages, in one shape, and that several do in the other.
const SHAPES: [(u64, u64); 2] = [(40, 30), (90, 90)];

/// All that a store says, by look-up and by walk.
#[derive(Debug, PartialEq)]
struct Said {
    heads: Vec<Arc<crate::job::Head>>,
    bodies: Vec<Option<Bytes>>,
    live: Vec<JobId>,
    ended: Vec<JobId>,
    log: Vec<Logged>,
}

fn said(store: &Sled, ids: &[JobId]) -> Result<Said, Error> {
    let heads: Vec<_> = ids.iter().map(|id| store.job(*id)).collect::<Result<Option<Vec<_>>, _>>()?.unwrap_or_default();
    let names = heads.iter().flat_map(|head| head.job.bodies().map(|name| (head.job.id(), name)));
    let bodies = names.map(|(id, name)| store.body(id, name, 0, usize::MAX)).collect::<Result<_, _>>()?;
    let live = store.live()?.iter().map(|head| head.job.id()).collect();
    let all = Query { limit: usize::MAX, ..Query::default() };
    let ended = store.jobs(&all)?.jobs.iter().map(|head| head.job.id()).collect();
    Ok(Said { heads, bodies, live, ended, log: store.events(Position::ZERO, usize::MAX)? })
}

/// Jobs with payloads of up to 18 kB, of which two in three end where `do_end`. Answers their ids.
fn fill(store: &Sled, numbers: std::ops::Range<u64>, do_end: bool) -> Vec<JobId> {
    let fill_one = |n: u64| {
        let mut story = job(n);
        story.payload = Bytes::from(format!("\"{}\"", "x".repeat((n % 30) as usize * 600)));
        let payload = BodyRef::of(Part::Payload, 0, &story.payload);
        story.spec = Arc::new(crate::job::Spec { payload, ..(*story.spec).clone() });
        story.create(store);
        if do_end && !n.is_multiple_of(3) {
            story.start(store);
            story.progress(store, 1);
            story.complete(store, &Bytes::from(vec![b'1'; (n % 7) as usize * 2_000 + 1]));
        }
        story.id()
    };
    numbers.map(fill_one).collect()
}

/// The bytes of the data file that sled replays and has called stable.
fn replayed(dir: &Path) -> Vec<usize> {
    let file = fs::File::open(dir.join(segments::DATA)).expect("there");
    let found = segments::Segments::of(dir, &file).expect("readable");
    let of_segment = |at: &u64| (*at..*at + segments::SEGMENT).map(|at| at as usize).collect::<Vec<_>>();
    found.replayed.range(..found.tail).flat_map(|(_, at)| of_segment(at)).collect()
}

/// What became of a store that was damaged at that byte: refused, or all it ever said, at each of three openings.
fn outcome(place: &Place, ids: &[JobId], expected: &Said) -> Result<&'static str, String> {
    for opening in 0..3 {
        let store = match place.try_open() {
            Err(Error::Corrupt { .. }) => return Ok("refused"),
            Err(other) => return Err(format!("opening {opening}: {other}")),
            Ok(store) => store,
        };
        // The second time, walks come after look-ups have changed the trees.
        for reading in 0..2 {
            match said(&store, ids) {
                Ok(found) if found == *expected => {}
                // A page that nothing was replayed over is found damaged when it is read: the server ends with that.
                Err(Error::Corrupt { why, .. }) if why.contains("sled") => return Ok("read as damaged"),
                Ok(_) => return Err(format!("opening {opening}, reading {reading}: it says something else")),
                Err(error) => return Err(format!("opening {opening}, reading {reading}: {error}")),
            }
        }
        store.close().map_err(|error| error.to_string())?;
    }
    let report = verify::verify(&place.options().dir).map_err(|error| error.to_string())?;
    if report.is_whole() { Ok("whole") } else { Err(format!("{:?}", report.complaints)) }
}

/// Damages copies of such a store, each at one place, and counts what came of it.
fn tally((before, after): (u64, u64)) -> BTreeMap<&'static str, usize> {
    let made = Place::new();
    let mut ids = fill(&made.open(), 1..1 + before, true);
    let store = made.open();
    ids.extend(fill(&store, 1_000..1_000 + after, false));
    let expected = said(&store, &ids).expect("readable");
    let killed = Place::new();
    copy(&made.options().dir, &killed.options().dir);
    let bytes = fs::read(killed.path(segments::DATA)).expect("readable");
    let replayed = replayed(&killed.options().dir);
    let mut tally = BTreeMap::new();
    for n in 0..PLACES {
        let place = Place::new();
        copy(&killed.options().dir, &place.options().dir);
        let at = replayed[replayed.len() / PLACES * n + n * 97];
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (n % 8);
        fs::write(place.path(segments::DATA), damaged).expect("written");
        let is_doubtful = segments::suspicion(&place.options().dir).expect("readable").is_some();
        if n % 2 == 1 {
            // Whoever looks first takes sled's evidence with them.
            drop(verify::verify(&place.options().dir));
            assert_eq!(place.path(doubt::FILE).exists(), is_doubtful, "byte {at}");
        }
        let came = outcome(&place, &ids, &expected).unwrap_or_else(|why| panic!("byte {at} of {after}: {why}"));
        if came == "whole" {
            assert!(!place.path(doubt::FILE).exists(), "byte {at} of {after}: it was not written anew");
        }
        *tally.entry(came).or_insert(0) += 1;
    }
    tally
}

#[test]
fn behind_a_place_that_cannot_be_read_nothing_is_served_that_was_not_looked_through_in_a_copy() {
    let tallies = SHAPES.map(tally);
    assert!(
        ["refused", "whole"].iter().all(|came| tallies.iter().any(|tally| tally.contains_key(came))),
        "{tallies:?}"
    );
}
