//! The only way from async code to the store: four threads that read it (design 5.7).
//!
//! In: questions, as closures over the store. Out: their answers, as futures. A full queue is said at once, or, to a
//! stream, when there is room again; nobody blocks. Ends its threads when dropped.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::oneshot;

use crate::store::Store;

/// How many threads read.
pub const READERS: usize = 4;
/// Questions that wait for a thread; one more is `Busy`.
pub const QUESTIONS_MAX: usize = 1_024;

/// The queue is full: ask again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

type Question = Box<dyn FnOnce(&dyn Store) + Send>;
type Crowd = Arc<Mutex<VecDeque<Waker>>>;

/// See the module.
pub struct Readers {
    questions: Option<Sender<Question>>,
    /// Streams that found the queue full.
    crowd: Crowd,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start(store: &Arc<dyn Store>) -> std::io::Result<Self> {
        let (questions, receiver) = bounded::<Question>(QUESTIONS_MAX);
        let crowd = Crowd::default();
        let start = |n: usize| {
            let (store, receiver, crowd) = (store.clone(), receiver.clone(), crowd.clone());
            std::thread::Builder::new().name(format!("reader-{n}")).spawn(move || read(&*store, &receiver, &crowd))
        };
        let threads = (0..READERS).map(start).collect::<std::io::Result<_>>()?;
        Ok(Self { questions: Some(questions), crowd, threads })
    }

    /// Asks the store. Does not block; the answer is `Busy` if the queue is full, or if the question panicked.
    pub fn ask<T, Q>(&self, question: Q) -> Answer<T>
    where
        T: Send + 'static,
        Q: FnOnce(&dyn Store) -> T + Send + 'static,
    {
        self.try_ask(question).unwrap_or_else(|Busy| Answer(oneshot::channel().1))
    }

    /// As `ask`, for a stream: if the queue is full, the waker is called when it is worth asking again.
    pub fn poll_ask<T, Q>(&self, cx: &Context<'_>, question: impl Fn() -> Q) -> Poll<Answer<T>>
    where
        T: Send + 'static,
        Q: FnOnce(&dyn Store) -> T + Send + 'static,
    {
        if let Ok(answer) = self.try_ask(question()) {
            return Poll::Ready(answer);
        }
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner).push_back(cx.waker().clone());
        // Once more: there may have been room before the waker stood there.
        self.try_ask(question()).map_or(Poll::Pending, Poll::Ready)
    }

    fn try_ask<T, Q>(&self, question: Q) -> Result<Answer<T>, Busy>
    where
        T: Send + 'static,
        Q: FnOnce(&dyn Store) -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let question: Question = Box::new(move |store| {
            if !sender.is_closed() {
                // The asker may have gone meanwhile.
                let _ = sender.send(question(store));
            }
        });
        let questions = self.questions.as_ref().ok_or(Busy)?;
        questions.try_send(question).map_err(|_| Busy)?;
        Ok(Answer(receiver))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        let here = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // A reader's panics are caught within.
            let _ = thread.join();
        }
    }
}

fn read(store: &dyn Store, questions: &Receiver<Question>, crowd: &Mutex<VecDeque<Waker>>) {
    for question in questions {
        if catch_unwind(AssertUnwindSafe(|| question(store))).is_err() {
            tracing::error!("a read of the store panicked; who asked is told `busy`");
        }
        let woken: Vec<Waker> = {
            let mut crowd = crowd.lock().unwrap_or_else(PoisonError::into_inner);
            // With an empty queue nobody else would come by to wake the rest.
            let count = if questions.is_empty() { crowd.len() } else { crowd.len().min(1) };
            crowd.drain(..count).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

/// What the store says, once it does.
#[derive(Debug)]
pub struct Answer<T>(oneshot::Receiver<T>);

impl<T> Future for Answer<T> {
    type Output = Result<T, Busy>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|_| Busy)
    }
}
