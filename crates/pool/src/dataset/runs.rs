//! The reads from the devices that a request needs.
//!
//! **Owns** the blocks of one request, joined to runs of adjacent ones. **Called by** reading. **Invariants**: a block of which a
//! request wants several parts is read once; a run is at most [`RUN_MAX`] bytes, or one block.

use crate::compress::unpack;
use crate::format::{Address, BlockPtr, Compression};
use crate::{Error, Result};

/// The most bytes of one read from a device.
pub(super) const RUN_MAX: usize = 1 << 20;

/// A part of a request that a block fills.
struct Part<'a> {
    /// Index of the block in its run.
    block: usize,
    /// First byte of the block's contents that belongs to the part.
    skip: usize,
    out: &'a mut [u8],
}

/// Adjacent blocks, which one read gets.
pub(super) struct Run<'a> {
    blocks: Vec<BlockPtr>,
    /// At least one for each block.
    parts: Vec<Part<'a>>,
}

impl Run<'_> {
    pub(super) fn blocks(&self) -> &[BlockPtr] {
        &self.blocks
    }

    /// Fills the parts from the `bytes` of the blocks, each of which takes `space` of them. `keep` gets the contents of each
    /// block. Returns an error for each block that cannot be decompressed.
    pub(super) fn unpack(
        mut self,
        bytes: &[u8],
        space: impl Fn(&BlockPtr) -> Option<usize>,
        mut keep: impl FnMut(&BlockPtr, &[u8]),
    ) -> Vec<Error> {
        let (mut failed, mut from) = (Vec::new(), 0);
        self.parts.sort_by_key(|part| part.block);
        let parts = self.parts.chunk_by_mut(|a, b| a.block == b.block);
        for (ptr, parts) in self.blocks.iter().zip(parts) {
            let stored = &bytes[from..from + ptr.physical_size as usize];
            from += space(ptr).unwrap_or(stored.len());
            if let Err(error) = fill(ptr, stored, parts, &mut keep) {
                failed.push(error);
            }
        }
        failed
    }
}

/// Fills the parts that a request wants of one block.
fn fill(
    ptr: &BlockPtr,
    stored: &[u8],
    parts: &mut [Part<'_>],
    keep: &mut impl FnMut(&BlockPtr, &[u8]),
) -> Result<()> {
    let size = ptr.logical_size as usize;
    let corrupt = |defect| Error::Corrupt {
        at: ptr.address(),
        defect,
    };
    let mut whole = Vec::new();
    let contents = match parts {
        _ if ptr.compression == Compression::Off => stored,
        [part] if part.out.len() == size => {
            unpack(ptr.compression, stored, part.out).map_err(corrupt)?;
            keep(ptr, part.out);
            return Ok(());
        }
        _ => {
            whole.resize(size, 0);
            unpack(ptr.compression, stored, &mut whole).map_err(corrupt)?;
            &whole
        }
    };
    for part in parts {
        let end = part.skip + part.out.len();
        part.out.copy_from_slice(&contents[part.skip..end]);
    }
    keep(ptr, contents);
    Ok(())
}

/// All reads of a request.
#[derive(Default)]
pub(super) struct Runs<'a> {
    runs: Vec<Run<'a>>,
    /// Bytes of the last run, and the address behind it.
    bytes: usize,
    end: Option<Address>,
    /// Blocks of which a part was not wanted so far: run, and index in it.
    partial: Vec<(usize, usize)>,
}

impl<'a> Runs<'a> {
    /// Adds a part of a block, from byte `skip` of its contents on. The block takes `space` bytes; None if its vdev does not
    /// exist, which its read reports.
    pub(super) fn add(
        &mut self,
        ptr: &BlockPtr,
        space: Option<usize>,
        skip: usize,
        out: &'a mut [u8],
    ) {
        let same = |(run, block): &&(usize, usize)| self.runs[*run].blocks[*block] == *ptr;
        if let Some(&(run, block)) = self.partial.iter().rev().find(same) {
            self.runs[run].parts.push(Part { block, skip, out });
            return;
        }
        let size = space.unwrap_or(0);
        if self.end != Some(ptr.address()) || self.bytes + size > RUN_MAX {
            self.runs.push(Run {
                blocks: Vec::new(),
                parts: Vec::new(),
            });
            self.bytes = 0;
        }
        self.bytes += size;
        self.end = space.map(|space| ptr.address().behind(space));
        let index = self.runs.len() - 1;
        let run = &mut self.runs[index];
        let block = run.blocks.len();
        if out.len() < ptr.logical_size as usize {
            self.partial.push((index, block));
        }
        run.blocks.push(*ptr);
        run.parts.push(Part { block, skip, out });
    }

    /// The runs, in the order of the request.
    pub(super) fn into_inner(self) -> Vec<Run<'a>> {
        self.runs
    }
}
