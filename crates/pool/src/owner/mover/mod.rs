//! Row mover: frees rows of a raidz by writing the records in sparse rows again, together.

mod choice;
pub(super) mod state;
mod walk;
pub(super) mod work;
