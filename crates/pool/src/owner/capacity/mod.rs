//! Space and bytes: allocation, added disks, trim, accounts.

pub(super) mod allocator;
pub(super) mod disks;
pub(super) mod maps;
pub(super) mod space_maps;
pub(super) mod special;
pub(super) mod trim;
pub(super) mod usage;
pub(super) mod writes;
