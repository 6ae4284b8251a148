//! Removal of a vdev.
pub(in crate::owner) mod state;

mod copier;
mod pool_nodes;
mod stop;
mod work;
