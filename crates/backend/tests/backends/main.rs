//! Backends of blocks and of files.

mod blocks;
mod files;
