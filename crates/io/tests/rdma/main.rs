//! Queue pairs: on the simulated verbs device, and the same on a real one.

mod common;
mod device;
mod semantics;
