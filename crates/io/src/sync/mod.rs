//! Synchronisation of tasks: within a shard ([`Notify`], [`Semaphore`]) and across shards ([`Bell`], [`oneshot`],
//! [`mailbox`]); locks of short critical sections ([`fn@lock`]).

mod bell;
mod lock;
pub mod mailbox;
mod notify;
pub mod oneshot;
mod semaphore;

pub use bell::Bell;
pub use lock::{lock, read, write};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
