//! Writes of new tree nodes.
//!
//! **Owns** the extents of a checkpoint's nodes, which lie one behind the other. **Called by** checkpoints.
//! **Invariants**: a node has its pointer before it is written; no task reads it before [`NodeWriter::finish`]
//! returned; a row of a raidz has one node, so that it is free as soon as the node is. `docs/decisions/0157`.

use std::ops::Range;
use std::rc::Rc;

use io::IoBuf;
use io::runtime::JoinHandle;

use crate::format::{
    Address, BlockPtr, ChecksumKind, Compression, NODE_SIZE_MIN, NodeSize, VdevOffset,
};
use crate::owner::{Owner, POLL};
use crate::space::BlockKind;
use crate::tree::{NewNode, TreeParams};
use crate::written::WriteClass;
use crate::{Error, Result};

/// Bytes of an extent for nodes.
const CHUNK: u32 = 256 << 10;

struct Chunk {
    at: Address,
    buf: IoBuf,
    used: usize,
    /// Whether it is on a normal vdev because special ones have no room.
    is_spilled: bool,
    /// Bytes in which the vdev gives out extents: a node begins with such a unit.
    unit: usize,
    /// The ends of units that have a node, relative to the extent.
    padding: Vec<Range<usize>>,
}

impl Chunk {
    fn left(&self) -> usize {
        self.buf.len() - self.used
    }
}

pub(super) struct NodeWriter {
    owner: Rc<Owner>,
    kind: BlockKind,
    params: TreeParams,
    /// Bytes that a node of the smallest size takes.
    least: u32,
    /// Whether only nodes of the smallest size found space; larger ones are not tried again.
    small: bool,
    chunk: Option<Chunk>,
    /// Bytes of nodes that are on normal vdevs because special ones have no room.
    spilled: u64,
    writes: Vec<JoinHandle<Result<()>>>,
}

impl NodeWriter {
    pub(in crate::owner) fn new(owner: Rc<Owner>, kind: BlockKind, params: TreeParams) -> Self {
        let least = owner.shared.vdevs.block_space().of(NODE_SIZE_MIN);
        Self {
            owner,
            kind,
            params,
            least,
            small: false,
            chunk: None,
            spilled: 0,
            writes: Vec::new(),
        }
    }

    /// The most bytes of the next node. Where free space lies in small runs, nodes are as small: a pool whose free
    /// space is as large as its nodes can always be checkpointed.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(in crate::owner) async fn room(&mut self) -> Result<NodeSize> {
        let size = self.params.node_size;
        let full = size.get().next_multiple_of(self.least);
        if !self.small && self.left() < full as usize {
            match self.allocate(full).await {
                Some(found) => self.begin(found).await,
                None => self.small = true,
            }
        }
        if self.left() < self.least as usize {
            let found = self.allocate(self.least).await.ok_or(Error::NoSpace)?;
            self.begin(found).await;
        }
        let fits = self.left() as u32 / NODE_SIZE_MIN * NODE_SIZE_MIN;
        Ok(NodeSize::new(fits.min(size.get())).expect("room for the smallest"))
    }

    fn left(&self) -> usize {
        self.chunk.as_ref().map_or(0, Chunk::left)
    }

    /// Adds a node to the current extent. Returns its pointer.
    ///
    /// # Panics
    /// If it is larger than [`NodeWriter::room`] said.
    pub(in crate::owner) fn write(&mut self, node: &NewNode) -> BlockPtr {
        let size = node.bytes.len();
        let space = self.owner.shared.vdevs.block_space();
        let padded = space.of(size as u32) as usize;
        let chunk = self.chunk.as_mut().expect("room was made");
        let at = Address {
            offset: VdevOffset(chunk.at.offset.0 + chunk.used as u64),
            ..chunk.at
        };
        if chunk.is_spilled {
            self.spilled += padded as u64;
        }
        let place = &mut chunk.buf[chunk.used..chunk.used + padded];
        place[..size].copy_from_slice(&node.bytes);
        place[size..].fill(0);
        let end = chunk.used + padded;
        chunk.used = end.next_multiple_of(chunk.unit).min(chunk.buf.len());
        if end < chunk.used {
            chunk.buf[end..chunk.used].fill(0);
            chunk.padding.push(end..chunk.used);
        }
        let plain = (Compression::Off, size);
        BlockPtr::to(
            at,
            &node.bytes,
            plain,
            ChecksumKind::Xxh3,
            self.params.birth,
        )
    }

    /// An extent with a run of `least` bytes, on special vdevs if they have one. Loads regions that may have one, and waits for space that is being trimmed: a
    /// trim takes all free runs of a region out of use, which may be the only free space.
    async fn allocate(&self, least: u32) -> Option<(Address, u32)> {
        loop {
            let is_short = {
                let mut state = self.owner.state.borrow_mut();
                let allocator = &mut state.allocator;
                let special = allocator.allocate_special_nodes(CHUNK, least, self.kind);
                if special.is_some() {
                    return special;
                }
                if !allocator.space().is_special_short() {
                    let found = allocator.allocate_nodes(CHUNK, least, self.kind);
                    let space = allocator.space();
                    if found.is_some() || !space.is_short() && !space.is_trimming() {
                        return found;
                    }
                }
                allocator.space().is_short()
            };
            match is_short {
                true => self.owner.load_more().await,
                false => io::time::sleep(POLL).await,
            }
        }
    }

    async fn begin(&mut self, (at, bytes): (Address, u32)) {
        self.submit();
        let is_spilled = {
            let state = self.owner.state.borrow();
            state.allocator.space().spills_to(at.vdev)
        };
        let mut buf = self.owner.shared.buffers.alloc(CHUNK as usize).await;
        buf.set_len(bytes as usize);
        self.chunk = Some(Chunk {
            at,
            buf,
            used: 0,
            is_spilled,
            unit: self.owner.shared.vdevs.extent_unit(at) as usize,
            padding: Vec::new(),
        });
    }

    /// Writes the current extent. Its unused end is free again at once, as nothing was written there: checkpoints of many small
    /// trees would need an extent for each otherwise.
    fn submit(&mut self) {
        let Some(chunk) = self.chunk.take() else {
            return;
        };
        let (left, at, used) = (chunk.left(), chunk.at, chunk.used);
        let mut buf = chunk.buf;
        let behind = |from: usize| Address {
            offset: VdevOffset(at.offset.0 + from as u64),
            ..at
        };
        let mut state = self.owner.state.borrow_mut();
        for padding in chunk.padding {
            // the node keeps the rest of its row from being given out
            let bytes = padding.len() as u32;
            state.allocator.give_back(&[(behind(padding.start), bytes)]);
        }
        state.allocator.give_back(&[(behind(used), left as u32)]);
        drop(state);
        if used > 0 {
            buf.set_len(used);
            let vdevs = self.owner.shared.vdevs.clone();
            self.writes.push(io::spawn(async move {
                vdevs.write(at, buf, WriteClass::Nodes).await
            }));
        }
    }

    /// Waits until all nodes are written. Returns the bytes of nodes on normal vdevs that special ones had no room for.
    pub(super) async fn finish(mut self) -> Result<u64> {
        self.submit();
        for write in self.writes {
            write.await.unwrap_or(Err(Error::Device))?;
        }
        Ok(self.spilled)
    }
}
