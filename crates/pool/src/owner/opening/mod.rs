//! The opening of a pool, also at an older checkpoint.

pub(super) mod choices;
pub(super) mod directory;
pub(super) mod open;
pub(super) mod rewind;
