//! What every store must do: one suite, run against each of them (style 10).
//!
//! In: a way to open a store. Out: a panic that names the broken promise. It looks through the port only, and pins the
//! sync back to see that nothing newer than the watermark is shown.

mod commits;
mod lists;
mod logs;
mod pins;

pub mod story;
mod watermark;

use std::sync::{Arc, Mutex, PoisonError};

use super::Store;

/// What is done between a commit and its sync.
type Look = Box<dyn FnMut() + Send>;

/// Stands where a store syncs. Tests put a look in, and take it out again.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Option<Look>>>);

impl Held {
    /// What the store is to call between writing and syncing.
    pub fn hook(&self) -> Box<dyn Fn() + Send + Sync> {
        let held = self.clone();
        Box::new(move || held.look())
    }

    fn look(&self) {
        // Taken out while it runs: it may use the store, and only the first sync is of interest.
        let look = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut look) = look {
            look();
        }
    }

    /// Does this at the next sync.
    fn at_next(&self, look: impl FnMut() + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(look));
    }
}

/// A kind of store under test.
pub trait Factory {
    /// A new, empty store, with this hook before each sync.
    fn create(&mut self, held: &Held) -> Arc<dyn Store>;

    /// Closes the store last made and opens it again; `None` for a kind that ends with its process.
    fn reopen(&mut self, store: Arc<dyn Store>, held: &Held) -> Option<Arc<dyn Store>>;
}

/// One promise: gets a new store and may ask for it to be opened again.
type Promise = fn(&mut Subject<'_>);

/// The store under test.
pub struct Subject<'a> {
    factory: &'a mut dyn Factory,
    held: Held,
    /// The store.
    pub store: Arc<dyn Store>,
}

impl Subject<'_> {
    /// Closes the store and opens it again, if it is of a kind that outlives its process; says whether it is.
    fn reopen(&mut self) -> bool {
        let old = Arc::clone(&self.store);
        old.close().expect("a store closes");
        let opened = self.factory.reopen(old, &self.held);
        let kept = opened.is_some();
        self.store = opened.unwrap_or_else(|| Arc::clone(&self.store));
        kept
    }
}

/// Runs the whole suite.
///
/// # Panics
/// When the store breaks a promise.
pub fn exercise(factory: &mut dyn Factory) {
    let promises: Vec<(&str, Promise)> =
        [commits::PROMISES, pins::PROMISES, logs::PROMISES, lists::PROMISES, watermark::PROMISES].concat();
    for (name, promise) in promises {
        let held = Held::default();
        let store = factory.create(&held);
        tracing::info!(name, "a promise of the store");
        promise(&mut Subject { factory, held, store });
    }
}

#[cfg(test)]
mod tests {
    use super::super::sled::{Options, Sled};
    use super::super::{Durability, memory::Memory};
    use super::*;

    struct InMemory;

    impl Factory for InMemory {
        fn create(&mut self, held: &Held) -> Arc<dyn Store> {
            Arc::new(Memory::with_sync(held.hook()))
        }

        fn reopen(&mut self, _: Arc<dyn Store>, _: &Held) -> Option<Arc<dyn Store>> {
            None
        }
    }

    #[derive(Default)]
    struct OnDisk(Option<tempfile::TempDir>);

    impl OnDisk {
        fn open(&self, held: &Held) -> Arc<dyn Store> {
            let dir = self.0.as_ref().expect("made before").path().join("store");
            let options = Options { dir, cache_bytes: 16 * 1024 * 1024, durability: Durability::Disk };
            Arc::new(Sled::open_with(&options, held.hook()).expect("the store opens"))
        }
    }

    impl Factory for OnDisk {
        fn create(&mut self, held: &Held) -> Arc<dyn Store> {
            self.0 = Some(tempfile::tempdir().expect("a temporary directory"));
            self.open(held)
        }

        fn reopen(&mut self, store: Arc<dyn Store>, held: &Held) -> Option<Arc<dyn Store>> {
            drop(store);
            Some(self.open(held))
        }
    }

    #[test]
    fn memory_keeps_the_contract() {
        exercise(&mut InMemory);
    }

    #[test]
    fn sled_keeps_the_contract() {
        exercise(&mut OnDisk::default());
    }
}
