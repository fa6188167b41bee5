//! Random lives of jobs over a store on disk that is rebooted, killed and opened again, beside the reference store.
//!
//! In: any bytes, read as steps. Out: nothing, or a panic that says what was not as promised, after the steps that led
//! to it. Decides with `job::machine` as the core does; both stores get the same changes and must stay the same.
//! Shared by the fuzz target and by a test that replays the seeds.

mod choices;
mod compare;
mod decide;
mod disk;
mod making;
mod step;
mod world;

use choices::Choices;
use step::Step;
use world::World;

/// Most steps of one run; what follows is not read.
const STEPS_MAX: usize = 200;
/// Most reboots of one run: they are what takes the time.
const REBOOTS_MAX: usize = 12;

/// Lives through the steps that these bytes tell, ends with a kill, and compares.
///
/// # Panics
/// When the store on disk breaks a promise.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut told = Told(Vec::new());
    let mut world = World::new();
    let mut reboots = 0;
    while !choices.is_over() && told.0.len() < STEPS_MAX && reboots < REBOOTS_MAX {
        let (step, goes_on) = Step::read(&mut choices);
        reboots += usize::from(matches!(step, Step::Reboot(_) | Step::Forget { dies: true, .. }));
        told.0.push((step.clone(), goes_on));
        world.take(step);
        if !goes_on {
            world.commit();
        }
    }
    world.end();
}

/// The steps so far: printed when one of them ends in a panic.
struct Told(Vec<(Step, bool)>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (step, goes_on) in &self.0 {
                eprintln!("{step:?}{}", if *goes_on { ", and in the same commit" } else { "" });
            }
        }
    }
}
