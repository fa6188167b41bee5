//! The seeds of the fuzz target, and what it has found: each is a row of commands and reboots that a store on disk must
//! live through. `fuzz/README.md` says how the target is run.

use std::path::Path;

#[path = "../../fuzz/src/engine/mod.rs"]
mod engine;

#[test]
fn a_store_on_disk_lives_through_every_seed_of_the_fuzz_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/recovery");
    let mut count = 0;
    for seed in std::fs::read_dir(seeds).unwrap() {
        let path = seed.unwrap().path();
        println!("{}", path.display());
        engine::run(&std::fs::read(path).unwrap());
        count += 1;
    }
    assert!(count > 0, "there are seeds");
}
