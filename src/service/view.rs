//! A job as JSON, as contract 1 has it.
