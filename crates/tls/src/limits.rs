//! The named limits of this crate.

use std::time::Duration;

/// Encrypted bytes that are received at a time.
pub const WIRE_LEN: usize = 64 << 10;
/// Bytes that are encrypted and sent at a time.
pub const CHUNK_LEN: usize = 128 << 10;
/// Most certificates in a file.
pub const CERTIFICATES_MAX: usize = 1024;
/// Longest name of a peer that is kept, bytes.
pub const NAME_LEN_MAX: usize = 255;
/// How long the message at the end of a connection may take.
pub const CLOSE_MAX: Duration = Duration::from_secs(1);
