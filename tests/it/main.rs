//! Promises of the whole product, kept by the real binary on real sockets.

#![allow(clippy::unwrap_used, missing_docs)]

mod support;
