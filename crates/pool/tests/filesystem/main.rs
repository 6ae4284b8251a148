//! Filesystems: their on-disk format and their semantics.

#[path = "../golden/hex.rs"]
mod hex;

mod format;
