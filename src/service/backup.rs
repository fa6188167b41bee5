//! A backup on its way to whoever asked for it: page by page, each read by a reader thread when the last is taken.
//!
//! In: polls. Out: compressed bytes, in order, until there are no more. Holds one page. Dropped at any moment, it lets the
//! store go on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::{Refused, Service};
use crate::core::{Handle, PinRefusal};
use crate::events::{Answer, Published};
use crate::store;
use crate::store::backup::Dump;

/// See the head of this file.
pub struct Backup {
    /// What it shows.
    pub pin: store::Pin,
    dump: Arc<Mutex<Dump>>,
    reading: Option<Answer<Result<Option<Bytes>, store::Error>>>,
    published: Arc<Published>,
    core: Handle,
}

impl Service {
    /// A backup of everything, as of now. Whether the caller may have it is not asked here.
    ///
    /// # Errors
    /// `TooMany` while another is being taken; `Draining`, `Busy`.
    pub async fn backup(&self) -> Result<Backup, Refused> {
        let pin = self.core.pin().await?.map_err(|refusal| match refusal {
            PinRefusal::Taken => Refused::TooMany("the limit of one backup at a time"),
            PinRefusal::Draining => Refused::Draining,
        })?;
        let dump = Arc::new(Mutex::new(Dump::new(pin, self.now())));
        Ok(Backup { pin, dump, reading: None, published: self.published.clone(), core: self.core.clone() })
    }
}

impl Backup {
    /// The next bytes, never none; `None` once there are no more. After an error there is nothing more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, store::Error>>> {
        if self.reading.is_none() {
            let page = || {
                let dump = self.dump.clone();
                // One page at a time: nobody else waits for this lock.
                move |store: &dyn store::Store| dump.lock().unwrap_or_else(PoisonError::into_inner).page(store)
            };
            self.reading = Some(ready!(self.published.readers.poll_ask(cx, page)));
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        match read {
            Ok(page) => Poll::Ready(page.transpose()),
            Err(_) => Poll::Ready(Some(Err(store::Error::Unavailable("a page of a backup was not read".into())))),
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.core.unpin(self.pin);
    }
}
