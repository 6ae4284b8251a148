//! The tests of the server: one program, since each would compile most of the server again.

mod config;
mod grouped;
mod simulated;
