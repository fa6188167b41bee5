//! How many event streams each principal holds open (`server.max_streams`).
//!
//! In: a principal. Out: a permit that ends with its stream, or 429. Keeps no entry for a principal without streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::problem::{Code, Problem};

/// The open streams, counted.
pub struct Streams {
    max: Option<usize>,
    open: Mutex<HashMap<Arc<str>, usize>>,
}

/// One open stream. Dropping it makes room.
pub struct Permit {
    streams: Arc<Streams>,
    principal: Arc<str>,
}

impl Streams {
    /// At most `max` streams for each principal; `None`: any number.
    pub fn new(max: Option<usize>) -> Self {
        Self { max, open: Mutex::default() }
    }

    /// Room for one more.
    ///
    /// # Errors
    /// `too_many`.
    pub fn enter(self: &Arc<Self>, principal: &Arc<str>) -> Result<Permit, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(principal.clone()).or_default();
        if let Some(max) = self.max.filter(|max| *count >= *max) {
            let detail = format!("this principal has server.max_streams = {max} streams open");
            return Err(Problem::new(Code::TooMany, detail));
        }
        *count += 1;
        Ok(Permit { streams: self.clone(), principal: principal.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(max: Option<usize>) -> Arc<Streams> {
        Arc::new(Streams::new(max))
    }

    #[test]
    fn a_principal_has_its_own_limit_and_gets_room_back() {
        let streams = streams(Some(2));
        let (ann, bob) = (Arc::from("ann"), Arc::from("bob"));
        let first = streams.enter(&ann).unwrap();
        let _second = streams.enter(&ann).unwrap();
        assert_eq!(streams.enter(&ann).err().map(|p| p.code), Some(Code::TooMany));
        let other = streams.enter(&bob).unwrap();
        drop(first);
        assert!(streams.enter(&ann).is_ok());
        drop(other);
        assert_eq!(streams.open.lock().unwrap().len(), 1, "bob is forgotten");
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let streams = streams(None);
        let local = Arc::from("local");
        let open: Vec<_> = (0..5_000).filter_map(|_| streams.enter(&local).ok()).collect();
        assert_eq!(open.len(), 5_000);
    }
}
