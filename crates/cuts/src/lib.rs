//! Power-cut tests of a real server: recording, replay and the check of the pool.
//!
//! **Owns** blocks that identify their write ([`stamp`]), the record of a client's requests and promises ([`known`]),
//! files that stand for disks under power cuts ([`medium`]), the replay of a
//! server's recording onto them ([`recording`]), the kernel's log of a device's writes ([`log`]), and the
//! check of the pool after a cut ([`verdict`]). **Called by** the binary `wirepool-cuts`, which writes in a guest and
//! replays its log, by the tests of the server, and by the drill of power cuts. **Invariants**: the pool is opened read-only; a
//! seed repeats a cut.

#![forbid(unsafe_code)]

pub mod known;
pub mod log;
pub mod medium;
pub mod recording;
pub mod stamp;
pub mod verdict;
