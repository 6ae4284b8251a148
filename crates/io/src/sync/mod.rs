//! Ways for tasks to meet: within a shard ([`Notify`], [`Semaphore`]) and across ([`oneshot`], [`mailbox`]).

pub mod mailbox;
mod notify;
pub mod oneshot;
mod semaphore;

pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
