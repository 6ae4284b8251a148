//! The lab's parts together: the engine against targets that a test scripts, and every validity rule.

mod engine;
mod fake;
mod rdma;
mod validity;
mod verify;
