//! The target, seen from the other end of a TCP connection.

mod host;
mod path;
