//! I/O: executor, buffers, disks, sockets, time and randomness, on io_uring or simulated.
//!
//! **Owns** the thread-per-core executor ([`runtime`]), the buffers for I/O ([`buf`]), and the two drivers: [`linux`]
//! (io_uring) and `sim` (seeded, fault-injecting; only with the cargo feature `sim`, which tests enable).
//! **Called by** every other crate; no other crate uses the operating system on the data path.
//! **Invariants**: all `unsafe` code of the project is here. A buffer of an operation belongs to that operation until it
//! completes, even if the future that waits for it is dropped. The same task code runs on both drivers.

pub mod buf;
mod clock;
pub mod disk;
mod error;
pub mod histogram;
pub mod limits;
pub mod linux;
pub mod net;
pub mod printable;
pub mod ram;
pub mod rdma;
mod record;
pub mod rehearsal;
pub mod rng;
pub mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(not(feature = "sim"))]
#[path = "sim/absent.rs"]
mod sim;
pub mod stage;
pub mod sync;
pub mod time;

pub use buf::{BufPool, IoBuf, Payload, RecvBuf, SendBatch, SharedBuf};
pub use error::{Error, Result};
pub use runtime::{JoinHandle, Runtime, RuntimeConfig, blocking, pool, spawn, yield_now};
pub use time::timeout;
