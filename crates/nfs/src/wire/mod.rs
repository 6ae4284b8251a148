//! Types of NFS 4.1 (RFC 5662) and 4.2 (RFC 7863) and their encoding.
//!
//! | module | owns |
//! |---|---|
//! | [`status`], [`operation`] | status codes, numbers of operations |
//! | [`attribute`] | numbers of attributes |
//! | [`types`] | stateids, sessions, attribute masks, owners |
//! | [`callback`] | calls of the server, and their results |
//! | [`channel`] | arguments of the operations on clients and sessions |
//! | [`files`] | arguments of the operations on files |
//! | [`minor2`] | arguments of the operations of NFS 4.2 |
//! | [`compound`] | a COMPOUND's arguments: its header, and its operations one by one |
//!
//! **Called by** the server, clients and fuzz targets. **Invariants**: arguments borrow from the request; decoding allocates
//! only lists whose length was checked against the remaining bytes.

pub mod attribute;
pub mod callback;
pub mod channel;
pub mod compound;
pub mod files;
pub mod minor2;
pub mod operation;
pub mod status;
#[cfg(test)]
mod tests;
pub mod types;

pub use compound::{Header, Op};
pub use minor2::Minor2;
pub use status::Status;
pub use types::{Attrs, Bitmap, Owner, SessionId, Stateid, Verifier};

/// Number of the program NFS.
pub const PROGRAM: u32 = 100_003;
/// Its version.
pub const VERSION: u32 = 4;
/// The minor versions that are served.
pub const MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
/// Procedure NULL.
pub const PROC_NULL: u32 = 0;
/// Procedure COMPOUND.
pub const PROC_COMPOUND: u32 = 1;
