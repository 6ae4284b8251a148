//! Reads of parts of long records.
//!
//! **Owns** the reads of parts, for requests that `part_choice` gave parts. **Called by** reading. **Invariants**: a part from
//! a device is verified by the checksum beside the record's pointer, or with its whole record; a part says nothing about the
//! other bytes of its record. `docs/decisions/0177`.

use std::ops::Range;
use std::sync::Arc;

use io::{BufPool, IoBuf};

use super::OpenDataset;
use crate::block_reads::Caching;
use crate::format::Block;
use crate::{Error, Result};

/// A read of parts of one record.
pub(super) struct PartRead<'a> {
    block: Block,
    /// The bytes of these parts in the record.
    bytes: Range<usize>,
    /// First byte of the record for each output.
    outs: Vec<(usize, &'a mut [u8])>,
}

impl<'a> PartRead<'a> {
    /// Adds an output to the read of this record's parts, which is the last one if there is any.
    pub(super) fn add(
        reads: &mut Vec<Self>,
        (block, bytes): (&Block, &Range<usize>),
        skip: usize,
        out: &'a mut [u8],
    ) {
        match reads.last_mut() {
            Some(last) if last.block.ptr() == block.ptr() => last.outs.push((skip, out)),
            _ => reads.push(Self {
                block: block.clone(),
                bytes: bytes.clone(),
                outs: vec![(skip, out)],
            }),
        }
    }
}

impl OpenDataset {
    /// Reads parts of a record, from the cache, or from the devices into a buffer of the cache or of `buffers`. They go
    /// to the caches that `caching` names.
    pub(super) async fn read_parts(
        &self,
        block: &Block,
        bytes: &Range<usize>,
        caching: Caching,
        buffers: &BufPool,
    ) -> Result<Arc<IoBuf>> {
        let records = &self.shared.records;
        let ptr = block.ptr();
        let starts = || bytes.clone().step_by(block.part_size());
        let is_one = bytes.len() <= block.part_size();
        if caching.in_memory
            && let Some(found) = records.get_parts(ptr, starts())
        {
            if let [only] = &found[..] {
                return Ok(only.clone());
            }
            let mut all = buffers.alloc(bytes.len()).await;
            for (part, out) in found.iter().zip(all.chunks_mut(block.part_size())) {
                out.copy_from_slice(part);
            }
            return Ok(Arc::new(all));
        }
        let of_cache = (caching.in_memory && is_one).then(|| records.reserve(bytes.len()));
        let buf = match of_cache.flatten() {
            Some(buf) => buf,
            None => buffers.alloc(bytes.len()).await,
        };
        let read = self.shared.read_parts(block, bytes.start, buf, caching);
        let read = read.await?;
        if caching.in_memory && is_one {
            return Ok(records.insert_read_part(ptr, bytes.start, read));
        }
        if caching.in_memory {
            for (start, part) in starts().zip(read.chunks(block.part_size())) {
                records.insert_part(ptr, start, part);
            }
        }
        Ok(Arc::new(read))
    }

    /// Reads parts and fills their outputs. Returns the errors.
    pub(super) async fn fill_parts(&self, read: PartRead<'_>, caching: Caching) -> Vec<Error> {
        let PartRead { block, bytes, outs } = read;
        let buffers = &self.shared.read_buffers;
        let found = match self.read_parts(&block, &bytes, caching, buffers).await {
            Ok(found) => found,
            Err(error) => return vec![error],
        };
        for (skip, out) in outs {
            let start = skip - bytes.start;
            out.copy_from_slice(&found[start..start + out.len()]);
        }
        Vec::new()
    }
}
