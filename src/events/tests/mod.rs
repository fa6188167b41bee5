//! What readers of the log are promised.

pub(crate) mod fixture;
