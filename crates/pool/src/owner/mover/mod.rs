//! Movers: records are written again as they are. The row mover frees sparse rows of a raidz; the order mover puts records that
//! lie apart one behind the other; the balance mover fills vdevs evenly; the class mover brings nodes and small records to special vdevs;
//! the region mover makes long free runs. The last two move also blocks whose pointers cannot change.

pub(super) mod balance;
mod choice;
mod class;
mod held;
pub(super) mod order;
mod pace;
mod parts;
pub(super) mod regions;
pub(super) mod state;
mod walk;
pub(super) mod walks;
pub(super) mod work;
