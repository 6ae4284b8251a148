//! Movers: records are written again as they are. The row mover frees sparse rows of a raidz; the order mover puts records that
//! lie apart one behind the other.

mod choice;
pub(super) mod order;
pub(super) mod state;
mod walk;
pub(super) mod work;
