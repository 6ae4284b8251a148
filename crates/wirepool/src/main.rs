//! The wirepool binary.
fn main() {}
