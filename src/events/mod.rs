//! What is durable and visible: recent frames, published heads, and those who wait for more.
//!
//! In: what the core has committed. Out: slices of frames to readers that hold a cursor. Live and replay are one loop;
//! nothing is queued per reader. Never shows anything that is not synced.

use crate::job::{EventId, JobId};
