//! Faults on purpose: named places where a test makes the process die, and named ways to make the store do wrong.
//!
//! In: the environment of a build with `debug_assertions` or the feature `trial`, handed over by `cli`. Out: an abort, or a
//! promise broken so that a test can show that it would notice. In a release build both functions are nothing at all.

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind { $($(#[$of])* $name,)* }

        impl $kind {
            /// Every one of them.
            pub const ALL: &'static [$kind] = &[$($kind::$name,)*];

            /// Its name in the environment.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
            }
        }
    };
}

names! {
    /// A place where the process can be made to die.
    Point {
        /// A group is decided, nothing of it is in the store.
        BeforeCommit = "before-commit",
        /// One tree has its batch, and others wait; passed only while the breach `separate-batches` is on.
        BetweenBatches = "between-batches",
        /// A group is in the store, and not synced.
        BeforeSync = "before-sync",
        /// A group is synced, and nobody was told.
        AfterSync = "after-sync",
    }
}

names! {
    /// A way to break a promise of the store.
    Breach {
        /// Commits are answered before their sync.
        AnswerBeforeSync = "answer-before-sync",
        /// Opening leaves unsynced what sled wrote.
        NoSyncAtOpen = "no-sync-at-open",
        /// Each tree gets its batch by itself.
        SeparateBatches = "separate-batches",
        /// Trimming raises the floor in a later commit.
        FloorAfterRemoval = "floor-after-removal",
        /// After opening, positions start one too low.
        PositionTwice = "position-twice",
    }
}

/// Dies here if the environment says so: `LONGHAUL_CRASH=<point>:<n>` aborts on the n-th pass.
#[inline]
pub fn point(point: Point) {
    #[cfg(any(debug_assertions, feature = "trial"))]
    armed::point(point);
    #[cfg(not(any(debug_assertions, feature = "trial")))]
    let _ = point;
}

/// Whether this promise is to be broken: `LONGHAUL_BREACH=<name>`. Never in a release build.
#[inline]
#[must_use]
pub fn is_broken(breach: Breach) -> bool {
    #[cfg(any(debug_assertions, feature = "trial"))]
    return armed::is_broken(breach);
    #[cfg(not(any(debug_assertions, feature = "trial")))]
    {
        let _ = breach;
        false
    }
}

#[cfg(any(debug_assertions, feature = "trial"))]
pub use armed::arm;

#[cfg(any(debug_assertions, feature = "trial"))]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Breach, Point};

    /// What is armed, once for the life of the process.
    struct Armed {
        crash: Option<(Point, AtomicU64)>,
        breach: Option<Breach>,
    }

    static ARMED: OnceLock<Armed> = OnceLock::new();

    /// Arms a crash (`<point>:<n>`, n from 1) and a breach (`<name>`), for the life of the process.
    ///
    /// # Errors
    /// A name is unknown, or n is no number from 1.
    pub fn arm(crash: Option<&str>, breach: Option<&str>) -> Result<(), String> {
        let crash = crash.map(read_crash).transpose()?;
        let breach = breach.map(read_breach).transpose()?;
        ARMED.set(Armed { crash, breach }).map_err(|_| "faults are armed already".to_owned())
    }

    fn read_crash(text: &str) -> Result<(Point, AtomicU64), String> {
        let (name, passes) = text.split_once(':').unwrap_or((text, "1"));
        let point = Point::ALL.iter().find(|point| point.name() == name);
        let passes = passes.parse().ok().filter(|passes| *passes > 0);
        match (point, passes) {
            (Some(point), Some(passes)) => Ok((*point, AtomicU64::new(passes))),
            (None, _) => Err(format!("there is no crash point {name:?}")),
            (Some(_), None) => Err(format!("{text:?} does not end with a number of passes")),
        }
    }

    fn read_breach(name: &str) -> Result<Breach, String> {
        let breach = Breach::ALL.iter().find(|breach| breach.name() == name);
        breach.copied().ok_or_else(|| format!("there is no breach {name:?}"))
    }

    pub(super) fn point(here: Point) {
        if let Some(Armed { crash: Some((point, passes)), .. }) = ARMED.get()
            && *point == here
            && passes.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }

    pub(super) fn is_broken(breach: Breach) -> bool {
        ARMED.get().is_some_and(|armed| armed.breach == Some(breach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_armed_is_said() {
        assert_eq!(arm(Some("nowhere:1"), None), Err("there is no crash point \"nowhere\"".into()));
        assert_eq!(
            arm(Some("after-sync:0"), None),
            Err("\"after-sync:0\" does not end with a number of passes".into())
        );
        assert_eq!(arm(None, Some("nothing")), Err("there is no breach \"nothing\"".into()));
    }

    #[test]
    fn nothing_happens_unless_armed() {
        Point::ALL.iter().for_each(|here| point(*here));
        assert!(!Breach::ALL.iter().any(|breach| is_broken(*breach)));
    }
}
