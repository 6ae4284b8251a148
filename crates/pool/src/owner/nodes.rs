//! New tree nodes on their way to the devices.
//!
//! **Owns** the extents that a checkpoint's nodes lie in, one behind the other. **Called by** checkpoints.
//! **Invariants**: a node's pointer is given before it is written; nobody reads it before [`NodeWriter::finish`]
//! returned.

use std::rc::Rc;

use io::IoBuf;
use io::runtime::JoinHandle;

use super::Owner;
use crate::format::{Address, Birth, BlockPtr, Checksum, ChecksumKind, Compression, VdevOffset};
use crate::space::Class;
use crate::tree::NewNode;
use crate::{Error, Result};

/// Bytes of an extent for nodes.
const CHUNK: u32 = 256 << 10;

struct Chunk {
    at: Address,
    buf: IoBuf,
    used: usize,
}

pub(super) struct NodeWriter {
    owner: Rc<Owner>,
    class: Class,
    birth: Birth,
    sector: u32,
    chunk: Option<Chunk>,
    writes: Vec<JoinHandle<Result<()>>>,
}

impl NodeWriter {
    pub(super) fn new(owner: Rc<Owner>, class: Class, birth: Birth) -> Self {
        let sector = owner.shared.vdevs.sector();
        Self {
            owner,
            class,
            birth,
            sector,
            chunk: None,
            writes: Vec::new(),
        }
    }

    /// Gives a node its place.
    pub(super) async fn write(&mut self, node: &NewNode) -> Result<BlockPtr> {
        let size = node.bytes.len();
        let padded = size.next_multiple_of(self.sector as usize);
        let room = self.chunk.as_ref().map_or(0, |c| c.buf.len() - c.used);
        if room < padded {
            self.submit();
            self.begin(padded as u32).await?;
        }
        let chunk = self.chunk.as_mut().expect("begun");
        let at = Address {
            offset: VdevOffset(chunk.at.offset.0 + chunk.used as u64),
            ..chunk.at
        };
        let place = &mut chunk.buf[chunk.used..chunk.used + padded];
        place[..size].copy_from_slice(&node.bytes);
        place[size..].fill(0);
        chunk.used += padded;
        Ok(BlockPtr {
            vdev: at.vdev,
            offset: at.offset,
            logical_size: size as u32,
            physical_size: size as u32,
            compression: Compression::Off,
            checksum_kind: ChecksumKind::Xxh3,
            birth: self.birth,
            checksum: Checksum::of(ChecksumKind::Xxh3, at, &node.bytes),
        })
    }

    async fn begin(&mut self, least: u32) -> Result<()> {
        let mut buf = self.owner.shared.buffers.alloc(CHUNK as usize).await;
        let mut state = self.owner.state.borrow_mut();
        let found = state.space.allocate(CHUNK, least, self.class);
        let (at, got) = found.ok_or(Error::NoSpace)?;
        buf.set_len(got as usize);
        self.chunk = Some(Chunk { at, buf, used: 0 });
        Ok(())
    }

    /// Sends what the extent holds; what is left of it goes back.
    fn submit(&mut self) {
        let Some(Chunk { at, mut buf, used }) = self.chunk.take() else {
            return;
        };
        let left = buf.len() - used;
        if left > 0 {
            let offset = VdevOffset(at.offset.0 + used as u64);
            let mut state = self.owner.state.borrow_mut();
            state.free_extent(Address { offset, ..at }, left as u32);
        }
        if used > 0 {
            buf.set_len(used);
            let vdevs = self.owner.shared.vdevs.clone();
            self.writes
                .push(io::spawn(async move { vdevs.write(at, buf).await }));
        }
    }

    /// Waits until all are written.
    pub(super) async fn finish(mut self) -> Result<()> {
        self.submit();
        for write in self.writes {
            write.await.unwrap_or(Err(Error::Device))?;
        }
        Ok(())
    }
}
