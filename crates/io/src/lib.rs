//! Disks, sockets, time and randomness for everything above.
//!
//! **Owns** the thread-per-core executor ([`runtime`]), the buffers that I/O happens in ([`buf`]), and the
//! only two implementations of the outside world: [`linux`] (io_uring) and [`sim`] (seeded, fault-injecting).
//! **Called by** every other crate; nothing above it may touch the operating system on the data path.
//! **Invariants**: all `unsafe` of the project lives here. A buffer handed to an operation belongs to that
//! operation until it completes, also when the future that waits for it is dropped. The same task code runs
//! on both drivers.

pub mod buf;
pub mod disk;
mod error;
pub mod limits;
pub mod linux;
pub mod net;
pub mod printable;
pub mod ram;
mod record;
pub mod rng;
pub mod runtime;
pub mod sim;
pub mod sync;
pub mod time;

pub use buf::{BufPool, IoBuf, Payload, RecvBuf, SendBatch, SharedBuf};
pub use error::{Error, Result};
pub use runtime::{JoinHandle, Runtime, RuntimeConfig, blocking, pool, spawn, timeout, yield_now};
