//! Jobs whose lives are told by hand, for a store in memory.
