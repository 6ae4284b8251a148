//! Datasets: their indexes, names, settings, creation and destruction.

pub(super) mod filesystems;
pub(super) mod hierarchy;
pub(super) mod index;
pub(super) mod inherit;
pub(super) mod settings;
pub(super) mod volumes;
