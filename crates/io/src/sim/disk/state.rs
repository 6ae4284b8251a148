//! One simulated disk: its size, its medium and its faults.

use super::config::DiskConfig;
use super::faults::{Faults, overlaps, subtract};
use super::medium::{Medium, Source};
use crate::disk::DiskKind;
use crate::runtime::NodeId;
use crate::sim::core::Core;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// See the module header.
pub(super) struct DiskState {
    pub(super) node: NodeId,
    pub(super) path: PathBuf,
    pub(super) config: DiskConfig,
    pub(super) size: u64,
    pub(super) medium: Medium,
    pub(super) faults: Faults,
    pub(super) gone: bool,
    /// Bytes of writes that succeeded, or are going to.
    pub(super) written: u64,
}

/// One operation on a disk.
pub(super) enum Work {
    Read {
        offset: u64,
        len: usize,
    },
    Write {
        first: u64,
        source: Source,
        blocks: u64,
        through: bool,
    },
    Flush {
        upto: u64,
        in_flight: BTreeSet<u64>,
    },
}

impl DiskState {
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        self.medium.truncate(size);
    }

    fn aligned(&self, offset: u64, len: u64) -> Result<(), i32> {
        let block = u64::from(self.config.logical_block);
        if offset.is_multiple_of(block) && len.is_multiple_of(block) {
            Ok(())
        } else {
            Err(libc::EINVAL)
        }
    }

    /// Returns how many of `len` bytes at `offset` are below the end. Fails with EINVAL if the range is not aligned.
    pub(super) fn readable(&self, offset: u64, len: usize) -> Result<usize, i32> {
        self.aligned(offset, len as u64)?;
        Ok(usize::try_from(self.size.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(len))
    }

    /// Returns a write of `source` at byte `offset`, with its faults decided. `takes_space` is false for zeroing.
    pub(super) fn write(
        &mut self,
        core: &mut Core,
        offset: u64,
        source: Source,
        through: bool,
        takes_space: bool,
    ) -> Result<(Work, i32), i32> {
        let block = u64::from(self.config.logical_block);
        let mut blocks = source.blocks();
        self.aligned(offset, 0)?;
        if matches!(source, Source::Ragged) {
            return Err(libc::EINVAL);
        }
        if offset >= self.size && blocks > 0 {
            return Err(if self.config.kind == DiskKind::Block {
                libc::ENOSPC
            } else {
                libc::EFBIG
            });
        }
        blocks = blocks.min((self.size - offset) / block);
        if takes_space && let Some(space) = self.faults.space {
            blocks = self.medium.fitting(offset / block, blocks, space / block);
            if blocks == 0 {
                return Err(libc::ENOSPC);
            }
        }
        if takes_space && blocks > 1 && core.rng.chance(self.config.short) {
            blocks = 1 + core.upto(blocks - 2);
        }
        let len = blocks * block;
        let fails = overlaps(&self.faults.bad_writes, offset, len)
            || core.rng.chance(self.config.write_error);
        let result = if fails {
            -libc::EIO
        } else {
            i32::try_from(len).unwrap_or(i32::MAX)
        };
        if !fails {
            self.written += if takes_space { len } else { 0 };
            subtract(&mut self.faults.bad_reads, offset, len);
        }
        let first = match self.faults.misdirect_next.take() {
            Some(elsewhere) if takes_space => elsewhere / block,
            _ => offset / block,
        };
        let lost = (takes_space && std::mem::take(&mut self.faults.drop_next))
            || (fails && core.rng.chance(0.5));
        if lost {
            blocks = 0;
        }
        Ok((
            Work::Write {
                first,
                source,
                blocks,
                through,
            },
            result,
        ))
    }
}

impl Work {
    /// The name in the trace.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Work::Read { .. } => "read",
            Work::Write {
                source: Source::Zeroes(_) | Source::Garbage(_),
                ..
            } => "zero",
            Work::Write { through: true, .. } => "write fua",
            Work::Write { .. } => "write",
            Work::Flush { .. } => "flush",
        }
    }

    /// The number in the trace: an offset, a block or a version.
    pub(super) fn first(&self) -> u64 {
        match self {
            Work::Read { offset, .. } => *offset,
            Work::Write { first, .. } => *first,
            Work::Flush { upto, .. } => *upto,
        }
    }
}
