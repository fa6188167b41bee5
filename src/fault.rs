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
    /// A place where the process can be made to die. Those of a group are passed once for each of its steps, and a step may
    /// be asked for: `before-commit/claim`.
    Point {
        /// Of a group: it is decided, nothing of it is in the store.
        BeforeCommit = "before-commit",
        /// One tree has its batch, and others wait; passed only while the breach `separate-batches` is on.
        BetweenBatches = "between-batches",
        /// What was trimmed is gone, the floor has not risen; passed only while the breach `floor-after-removal` is on.
        BeforeFloor = "before-floor",
        /// Of a group: it is in the store, and not synced.
        BeforeSync = "before-sync",
        /// Of a group: it is synced, and nobody was told.
        AfterSync = "after-sync",
        /// Of a group: readers of events may know, whoever asked does not.
        BeforeAnswer = "before-answer",
        /// The handler is done, and nobody else knows how it ended.
        OutcomeKnown = "outcome-known",
        /// A new store is complete, and not in its place.
        Creating = "creating",
        /// The store is open, what opening wrote is not synced.
        Opening = "opening",
        /// Unfinished jobs are read, what was interrupted is not yet said to be.
        Recovering = "recovering",
        /// Recovery is done, nobody is served.
        Recovered = "recovered",
        /// The end has begun: nothing new is taken.
        Draining = "draining",
        /// The grace is over: attempts are told to give up.
        Releasing = "releasing",
        /// Nothing runs any more, the store is open.
        Closing = "closing",
        /// The store is closed, how far it reached is not noted.
        Closed = "closed",
        /// Half of a large body is in its file.
        BodyWriting = "body-writing",
        /// All of it is, under the unfinished name.
        BodyRenaming = "body-renaming",
        /// It has its name, and no record names it.
        BodyRenamed = "body-renamed",
        /// No record names it any more, its file is still there.
        BodyRemoving = "body-removing",
        /// The start has found a file that no record names.
        BodySweeping = "body-sweeping",
        /// A restored store is complete, and neither verified nor synced.
        RestoreFilled = "restore-filled",
        /// It is synced, and not in its place.
        RestoreSynced = "restore-synced",
        /// A compacted store is complete, and neither verified nor synced.
        CompactFilled = "compact-filled",
        /// It is synced, and not in its place.
        CompactSynced = "compact-synced",
        /// The old store has left its place, and the new one has not come: only where they cannot change in one step.
        CompactHalfway = "compact-halfway",
        /// The new store is in its place, and the folder above is not synced.
        CompactSwapped = "compact-swapped",
        /// It is there for good, and the old one is still beside it.
        CompactKept = "compact-kept",
    }
}

names! {
    /// What a group does to one of its jobs.
    Step {
        /// A job comes to be.
        Create = "create",
        /// An attempt is handed out.
        Claim = "claim",
        /// An attempt says something.
        Report = "report",
        /// An attempt asks a question.
        Ask = "ask",
        /// Questions are answered.
        Answer = "answer",
        /// A job completes or fails.
        Finish = "finish",
        /// A failed attempt is to be followed by another.
        Retry = "retry",
        /// A dead letter is replayed.
        Replay = "replay",
        /// A job is canceled, or is to be.
        Cancel = "cancel",
        /// An attempt is given back.
        Release = "release",
        /// An attempt has ended with its process.
        Interrupt = "interrupt",
        /// A large body is named.
        Refer = "refer",
        /// A cell changes.
        Cell = "cell",
        /// Ended jobs go.
        Trim = "trim",
    }
}

/// The steps of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps(u16);

impl Steps {
    /// Whether this step is among them.
    #[must_use]
    pub const fn has(self, step: Step) -> bool {
        self.0 & 1 << step as u16 != 0
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().fold(0, |all, step| all | 1 << step as u16))
    }
}

impl Point {
    /// Whether it is passed by groups, and so has steps.
    #[must_use]
    pub const fn is_of_a_group(self) -> bool {
        match self {
            Self::BeforeCommit | Self::BeforeSync | Self::AfterSync | Self::BeforeAnswer => true,
            Self::BetweenBatches
            | Self::BeforeFloor
            | Self::OutcomeKnown
            | Self::Creating
            | Self::Opening
            | Self::Recovering
            | Self::Recovered
            | Self::Draining
            | Self::Releasing
            | Self::Closing
            | Self::Closed
            | Self::BodyWriting
            | Self::BodyRenaming
            | Self::BodyRenamed
            | Self::BodyRemoving
            | Self::BodySweeping
            | Self::RestoreFilled
            | Self::RestoreSynced
            | Self::CompactFilled
            | Self::CompactSynced
            | Self::CompactHalfway
            | Self::CompactSwapped
            | Self::CompactKept => false,
        }
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
        /// A copy of a store is taken for the store itself: what a test opens that puts together what a crash leaves.
        CopyUnnoticed = "copy-unnoticed",
        /// No promise: the system says that two folders cannot change places in one step.
        NoExchange = "no-exchange",
    }
}

/// Dies here if the environment says so: `LONGHAUL_CRASH=<point>:<n>` aborts on the n-th pass.
#[inline]
pub fn point(point: Point) {
    group_point(point, Steps::default);
}

/// Dies here if the environment says so: `LONGHAUL_CRASH=<point>/<step>:<n>` aborts on the n-th pass of a group with that
/// step; without the step, of any group. The steps are asked for only then.
#[inline]
pub fn group_point(point: Point, steps: impl FnOnce() -> Steps) {
    #[cfg(any(debug_assertions, feature = "trial"))]
    armed::point(point, steps);
    #[cfg(not(any(debug_assertions, feature = "trial")))]
    let _ = (point, steps);
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

    use super::{Breach, Point, Step, Steps};

    /// Where to die.
    struct Crash {
        point: Point,
        step: Option<Step>,
        /// Passes that are left, this one included.
        passes: AtomicU64,
    }

    /// What is armed, once for the life of the process.
    struct Armed {
        crash: Option<Crash>,
        breach: Option<Breach>,
    }

    static ARMED: OnceLock<Armed> = OnceLock::new();

    /// Arms a crash (`<point>:<n>` or `<point>/<step>:<n>`, n from 1) and a breach (`<name>`), for the life of the process.
    ///
    /// # Errors
    /// A name is unknown, the point has no steps, or n is no number from 1.
    pub fn arm(crash: Option<&str>, breach: Option<&str>) -> Result<(), String> {
        let crash = crash.map(read_crash).transpose()?;
        let breach = breach.map(read_breach).transpose()?;
        ARMED.set(Armed { crash, breach }).map_err(|_| "faults are armed already".to_owned())
    }

    fn read_crash(text: &str) -> Result<Crash, String> {
        let (place, passes) = text.split_once(':').unwrap_or((text, "1"));
        let (name, step) = place.split_once('/').map_or((place, None), |(name, step)| (name, Some(step)));
        let point = Point::ALL.iter().copied().find(|point| point.name() == name);
        let point = point.ok_or_else(|| format!("there is no crash point {name:?}"))?;
        let named = |name: &str| {
            let step = Step::ALL.iter().copied().find(|step| step.name() == name && point.is_of_a_group());
            step.ok_or_else(|| format!("the crash point {:?} has no step {name:?}", point.name()))
        };
        let step = step.map(named).transpose()?;
        let passes = passes.parse().ok().filter(|passes| *passes > 0);
        let passes = passes.ok_or_else(|| format!("{text:?} does not end with a number of passes"))?;
        Ok(Crash { point, step, passes: AtomicU64::new(passes) })
    }

    fn read_breach(name: &str) -> Result<Breach, String> {
        let breach = Breach::ALL.iter().find(|breach| breach.name() == name);
        breach.copied().ok_or_else(|| format!("there is no breach {name:?}"))
    }

    pub(super) fn point(here: Point, steps: impl FnOnce() -> Steps) {
        let Some(Armed { crash: Some(crash), .. }) = ARMED.get() else { return };
        let is_meant = crash.point == here && crash.step.is_none_or(|step| steps().has(step));
        if is_meant && crash.passes.fetch_sub(1, Ordering::Relaxed) == 1 {
            let step = crash.step.map_or("any", Step::name);
            tracing::error!(point = here.name(), step, "dies here, as armed");
            std::process::abort();
        }
    }

    pub(super) fn is_broken(breach: Breach) -> bool {
        ARMED.get().is_some_and(|armed| armed.breach == Some(breach))
    }
}

#[cfg(all(test, any(debug_assertions, feature = "trial")))]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_armed_is_said() {
        assert_eq!(arm(Some("nowhere:1"), None), Err("there is no crash point \"nowhere\"".into()));
        assert_eq!(
            arm(Some("after-sync:0"), None),
            Err("\"after-sync:0\" does not end with a number of passes".into())
        );
        assert_eq!(arm(Some("closing/claim:1"), None), Err("the crash point \"closing\" has no step \"claim\"".into()));
        assert_eq!(arm(Some("after-sync/nap"), None), Err("the crash point \"after-sync\" has no step \"nap\"".into()));
        assert_eq!(arm(None, Some("nothing")), Err("there is no breach \"nothing\"".into()));
    }

    #[test]
    fn a_group_has_the_steps_it_was_given_and_no_others() {
        let some: Steps = [Step::Trim, Step::Create].into_iter().collect();
        let had: Vec<Step> = Step::ALL.iter().copied().filter(|step| some.has(*step)).collect();
        assert_eq!(had, [Step::Create, Step::Trim]);
    }

    #[test]
    fn nothing_happens_unless_armed() {
        Point::ALL.iter().for_each(|here| point(*here));
        assert!(!Breach::ALL.iter().any(|breach| is_broken(*breach)));
    }
}
