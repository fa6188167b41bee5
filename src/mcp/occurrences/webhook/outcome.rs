//! What an attempt came to.
//!
//! In: an answer or a failure. Out: accepted, or why not, in the categories that clients are told. Never repeats what the other side said.

use crate::net::{Answered, Failure};

/// Not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    /// For clients.
    pub category: &'static str,
    /// The receiver does not want this one event: trying again is of no use.
    pub is_final: bool,
}

/// Whether it was accepted: by a 2xx, and by nothing else. A redirect is a failure.
pub(super) fn of(told: &Result<Answered, Failure>) -> Result<(), Failed> {
    let answered = match told {
        Ok(answered) => answered,
        Err(failure) => return Err(Failed { category: failure.name(), is_final: false }),
    };
    match answered.status {
        200..=299 => Ok(()),
        500..=599 => Err(Failed { category: "http_5xx", is_final: false }),
        // Too large, or gone: of this event, not of the subscription.
        410 | 413 => Err(Failed { category: "http_4xx", is_final: true }),
        _ => Err(Failed { category: "http_4xx", is_final: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_accepts_and_only_410_and_413_are_final() {
        for (status, category, is_final) in [
            (301, "http_4xx", false),
            (307, "http_4xx", false),
            (400, "http_4xx", false),
            (410, "http_4xx", true),
            (413, "http_4xx", true),
            (425, "http_4xx", false),
            (503, "http_5xx", false),
        ] {
            let told = Ok(Answered { status, body: bytes::Bytes::new() });
            assert_eq!(of(&told), Err(Failed { category, is_final }), "{status}");
        }
        for status in [200, 202, 204] {
            assert_eq!(of(&Ok(Answered { status, body: bytes::Bytes::new() })), Ok(()));
        }
        assert_eq!(of(&Err(Failure::Timeout)), Err(Failed { category: "timeout", is_final: false }));
    }
}
