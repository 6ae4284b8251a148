//! Tests of trees: slow models, counts of reads and writes, forged nodes.

mod cache;
mod check;
mod cost;
mod lies;
mod lost;
mod model;

use pool::format::{Birth, BlockPtr, Key, Kind, NodeSize, ObjectId, TreeId, Value};
use pool::tree::memory::MemoryStore;
use pool::tree::{Layer, Root, TreeParams};

/// Small nodes, so that small trees have several levels.
fn params(birth: u64) -> TreeParams {
    TreeParams {
        node_size: NodeSize::new(4096).expect("a size of nodes"),
        tree: TreeId(7),
        birth: Birth(birth),
    }
}

fn key(offset: u64) -> Key {
    Key::new(ObjectId(1), Kind(1), offset)
}

/// Creates a tree of blocks at these offsets.
fn tree(store: &mut MemoryStore, params: TreeParams, offsets: impl Iterator<Item = u64>) -> Root {
    let mut layer = Layer::new();
    for offset in offsets {
        layer.put(
            key(offset),
            Value::Block(store.allocate(params.birth).into()),
        );
    }
    merge(store, params, None, layer)
}

/// Merges one layer, and ignores the freed blocks.
fn merge(store: &mut MemoryStore, params: TreeParams, root: Root, layer: Layer) -> Root {
    let merged = store.merge(params, root, &[layer.freeze()], |_| {});
    merged.expect("a sound tree")
}

fn put(store: &mut MemoryStore, layer: &mut Layer, offset: u64, birth: u64) -> BlockPtr {
    let ptr = store.allocate(Birth(birth));
    layer.put(key(offset), Value::Block(ptr.into()));
    ptr
}
