//! Buffers for I/O.
//!
//! **Owns** aligned buffers from a bounded pool ([`IoBuf`], [`BufPool`]), buffers with several owners ([`SharedBuf`]), the
//! payload of a read ([`Payload`]), the staging area of a socket ([`RecvBuf`]) and the gather list of one send
//! ([`SendBatch`]).
//! **Invariants**: every byte of a buffer is initialised; a pool never has more bytes than its limit.

mod mapping;
mod payload;
mod pool;
mod recv;
mod send;
mod shared;
mod slab;

pub(crate) use mapping::Mapping;
pub use payload::Payload;
pub use pool::{Alloc, BufPool, IoBuf, PoolStats, capacity_of};
pub use recv::RecvBuf;
pub use send::SendBatch;
pub use shared::SharedBuf;
