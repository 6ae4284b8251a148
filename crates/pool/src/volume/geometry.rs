//! The geometry of a volume.
//!
//! **Owns** what protocols tell clients about size, units and caches. **Called by** the volume's requests. **Invariant**: no
//! write that the geometry calls atomic is torn by a power cut.

use backend::Geometry;

use crate::dataset::Settings;
use crate::format::Sync;

/// The geometry that protocols report.
pub(super) fn geometry(settings: &Settings, is_pool_read_only: bool) -> Geometry {
    let per_record = settings.record_size / settings.block_size;
    Geometry {
        block_size: settings.block_size,
        blocks: settings.size() / u64::from(settings.block_size),
        physical_block: settings.record_size.min(65_536),
        // each record is in a batch of its own choice
        atomic_write_blocks: per_record,
        atomic_boundary_blocks: per_record,
        deallocate_blocks: per_record,
        optimal_blocks: per_record,
        // with `sync=disabled` a power cut loses as much as with a volatile cache
        volatile_cache: settings.sync() != Sync::Always,
        read_only: settings.is_snapshot() || is_pool_read_only,
        thin: true,
    }
}
