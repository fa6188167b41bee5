//! What readers of the log are promised.

mod cases;
mod feed;
pub(crate) mod fixture;
mod frames;
mod heads;
mod interleavings;
mod jobs;
mod readers;
mod seam;
mod wakes;
