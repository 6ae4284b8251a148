//! Filesystems: their on-disk format, and their semantics on a store in memory.

pub(crate) mod bed;
mod cases;
mod changes;
mod charges;
mod contents;
mod crash;
mod cuts;
mod damage;
mod diff;
mod format;
mod full;
mod journaled;
mod lost;
mod orphans;
pub(crate) mod pooled;
mod properties;
mod record_sizes;
mod recursive;
mod snapshots;
mod suite;
