//! Synchronisation of tasks: within a shard ([`Notify`], [`Semaphore`]) and across shards ([`Bell`], [`oneshot`],
//! [`mailbox`]).

mod bell;
pub mod mailbox;
mod notify;
pub mod oneshot;
mod semaphore;

pub use bell::Bell;
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
