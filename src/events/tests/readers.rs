//! The way to the store: bounded, and never a wait without a wake.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Waker};

use super::fixture::{Signal, block_on};
use crate::events::{Answer, Busy, QUESTIONS_MAX, READERS, Readers};
use crate::store::Store;
use crate::store::memory::Memory;

fn readers() -> Readers {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    Readers::start(&store).unwrap()
}

/// Gives every reader something that lasts until the returned ends are dropped.
fn occupy(readers: &Readers) -> Vec<(std::sync::mpsc::Sender<()>, Answer<()>)> {
    let (began, has_begun) = channel();
    let busy = (0..READERS).map(|_| {
        let (release, released) = channel::<()>();
        let began = began.clone();
        let answer = readers.ask(move |_| {
            began.send(()).unwrap();
            wait(&released);
        });
        (release, answer)
    });
    let busy = busy.collect();
    (0..READERS).for_each(|_| has_begun.recv().unwrap());
    busy
}

fn wait(released: &Receiver<()>) {
    assert!(released.recv().is_err(), "the other end is dropped");
}

#[test]
fn a_full_queue_is_said_at_once_and_a_stream_is_woken_when_there_is_room() {
    let readers = readers();
    let busy = occupy(&readers);
    let queued: Vec<_> = (0..QUESTIONS_MAX).map(|n| readers.ask(move |_| n)).collect();
    assert_eq!(block_on(readers.ask(|_| ())), Err(Busy));
    let signal = Arc::<Signal>::default();
    let waker = Waker::from(signal.clone());
    let cx = Context::from_waker(&waker);
    assert!(readers.poll_ask(&cx, || |_: &dyn Store| 7).is_pending());
    assert!(!signal.take());
    drop(busy);
    for (n, answer) in queued.into_iter().enumerate() {
        assert_eq!(block_on(answer), Ok(n));
    }
    let Poll::Ready(answer) = readers.poll_ask(&cx, || |_: &dyn Store| 7) else { panic!("there is room") };
    assert_eq!(block_on(answer), Ok(7));
    drop(readers); // its threads have done everything
    assert!(signal.take());
}

#[test]
fn a_panic_while_reading_is_busy_for_who_asked_and_costs_no_thread() {
    let readers = readers();
    for _ in 0..2 * READERS {
        assert_eq!(block_on(readers.ask(|_| panic!("injected"))), Err::<(), _>(Busy));
    }
    let busy = occupy(&readers);
    drop(busy);
    assert_eq!(block_on(readers.ask(|store| store.bounds().last.0)), Ok(0));
}

#[test]
fn what_nobody_waits_for_any_more_is_not_read() {
    let readers = readers();
    let busy = occupy(&readers);
    let (asked, was_asked) = channel::<()>();
    drop(readers.ask(move |_| asked.send(())));
    drop(busy);
    assert!(was_asked.recv().is_err());
}
