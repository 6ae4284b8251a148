//! Power-cut tests of a real server: recording, replay and the check of the pool.
//!
//! **Owns** blocks that identify their write ([`stamp`]), the record of a client's requests and promises ([`known`]),
//! files that stand for disks under power cuts ([`medium`]), the kernel's log of a device's writes ([`log`]), and the
//! check of the pool after a cut ([`verdict`]). **Called by** the binary `wirepool-cuts`, which writes in a guest and
//! replays its log, and by the tests of the server. **Invariants**: no product code; the pool is opened read-only; a
//! seed repeats a cut.

#![forbid(unsafe_code)]

pub mod known;
pub mod log;
pub mod medium;
pub mod stamp;
pub mod verdict;
