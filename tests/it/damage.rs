//! Damaged directories: for each damage it is written down what the real binary makes of it.
//!
//! Never a panic, a loop, an empty start or wrong data: it serves all that was acknowledged and `verify` accepts the store, or
//! it says once what is wrong and what to do, and ends with the exit code of the contract.

mod bodies;
mod bytes;
mod copies;
mod files;
mod golden;
mod served;
mod starts;
mod told;
