//! Which heads stay in memory.

use super::fixture::World;
use crate::events::{Heads, Sizes};

#[test]
fn only_the_lately_ended_stay_and_the_unfinished_always_do() {
    let mut world = World::new(Sizes::default());
    let waiting = world.create("t", "o", &[]);
    let heads = Heads::new(vec![world.head(waiting)], 2);
    let mut ended = Vec::new();
    for _ in 0..3 {
        let job = world.create("t", "o", &[]);
        heads.set(world.head(job));
        world.start(job);
        world.complete(job);
        heads.set(world.head(job));
        heads.set(world.head(job)); // again: counts once
        ended.push(job);
    }
    assert!(heads.get(ended[0]).is_none(), "the longest ended went");
    assert!(heads.get(ended[1]).is_some() && heads.get(ended[2]).is_some());
    let live: Vec<_> = heads.live(|_| true).iter().map(|head| head.job.id()).collect();
    assert_eq!(live, [waiting]);
    heads.forget(&[ended[2]]);
    assert!(heads.get(ended[2]).is_none());
}
