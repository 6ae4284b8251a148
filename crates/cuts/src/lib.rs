//! What a pool must be after a power cut or a kill, and disks on their way there again.
//!
//! **Owns** blocks that tell which write they are ([`stamp`]), what a client was promised and when ([`known`]), files that
//! stand for disks whose power goes ([`medium`]), the kernel's log of a device's writes ([`log`]), and the verdict on the pool
//! that a cut left ([`verdict`]). **Called by** the binary `wirepool-cuts`, which writes in a guest and replays its log, and by
//! the tests of the server. **Invariants**: no product code; the pool is opened for reading only; a seed repeats a cut.

#![forbid(unsafe_code)]

pub mod known;
pub mod log;
pub mod medium;
pub mod stamp;
pub mod verdict;
