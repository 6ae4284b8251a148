//! The tests of the initiator: one program, since each would compile most of it again.

mod initiator;
mod pair;
