//! Numbers of nodes that trees read and write.

use std::collections::BTreeSet;

use pool::format::{Birth, Key, NodeSize, Value};
use pool::tree::memory::MemoryStore;
use pool::tree::{Direction, Freed, Layer, Root, Visit};

use crate::tree::check::check;
use crate::tree::{key, merge, params, put, tree};

const KEYS: u64 = 100_000;
/// Leaves of 60 entries, branches of 63: three levels.
const HEIGHT: u64 = 3;

/// A permutation of 0 to `KEYS`.
fn shuffled(n: u64) -> u64 {
    n * 7919 % KEYS
}

fn nodes(store: &mut MemoryStore, root: Root, since: u64) -> Vec<pool::format::BlockPtr> {
    let visits = store.walk(root, Birth(since), Key::START).unwrap();
    let nodes = visits.into_iter().filter_map(|v| match v {
        Visit::Node(ptr) => Some(ptr),
        Visit::Entry(..) | Visit::Lost(..) | Visit::Older(_) => None,
    });
    nodes.collect()
}

#[test]
fn one_update_costs_one_path() {
    let mut store = MemoryStore::new();
    let old = tree(&mut store, params(1), 0..KEYS);
    let mut layer = Layer::new();
    put(&mut store, &mut layer, 4321, 2);
    let (reads, writes) = (store.reads, store.writes);
    let new = merge(&mut store, params(2), old, layer);
    assert_eq!(
        (store.reads - reads, store.writes - writes),
        (HEIGHT, HEIGHT)
    );
    // Finding it again reads nothing either.
    let reads = store.reads;
    let changes = store.compare(old, new).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(store.reads - reads, 2 * HEIGHT);
    let reads = store.reads;
    assert_eq!(nodes(&mut store, new, 1).len() as u64, HEIGHT);
    assert_eq!(store.reads - reads, HEIGHT);
    let reads = store.reads;
    assert!(store.lookup(&[], new, key(4321)).unwrap().is_some());
    assert_eq!(store.reads - reads, HEIGHT);
}

#[test]
fn a_full_node_splits_in_two_and_leaves_its_neighbours_alone() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), (0..KEYS).map(|n| 2 * n));
    let mut layer = Layer::new();
    put(&mut store, &mut layer, 4321, 2);
    let (reads, writes) = (store.reads, store.writes);
    let root = merge(&mut store, params(2), root, layer);
    assert_eq!(store.reads - reads, HEIGHT);
    // The leaf's branch is full too.
    assert_eq!(store.writes - writes, HEIGHT + 2);
    check(&mut store, root, params(1).node_size);
}

#[test]
fn random_updates_read_and_write_only_their_paths() {
    let mut store = MemoryStore::new();
    let mut root = tree(&mut store, params(1), 0..KEYS);
    for (epoch, deltas) in [(2, 100), (3, 1000), (4, 20_000)] {
        let touched: BTreeSet<_> = (0..deltas).map(|n| key(shuffled(n + epoch * 31))).collect();
        let all = nodes(&mut store, root, 0);
        let mut starts: Vec<Vec<Key>> = vec![Vec::new(); HEIGHT as usize];
        for ptr in all {
            let node = store.load(&ptr).unwrap();
            starts[usize::from(node.level())].push(node.first_key());
        }
        let mut expected = 0;
        for starts in &mut starts {
            starts.sort();
            let ends = starts.iter().skip(1).copied().chain([Key::END]);
            let touches = |(start, end): (&Key, Key)| touched.range(*start..end).next().is_some();
            expected += starts.iter().zip(ends).filter(|x| touches(*x)).count() as u64;
        }
        let mut layer = Layer::new();
        for key in &touched {
            layer.put(*key, Value::Block(store.allocate(Birth(epoch)).into()));
        }
        let (reads, writes) = (store.reads, store.writes);
        root = merge(&mut store, params(epoch), root, layer);
        assert_eq!(store.reads - reads, expected);
        assert!(store.writes - writes <= expected, "no node is split");
    }
    check(&mut store, root, params(1).node_size);
}

#[test]
fn changes_that_lie_together_share_their_nodes() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..KEYS);
    let mut layer = Layer::new();
    for n in 20_000..30_000 {
        put(&mut store, &mut layer, n, 2);
    }
    let writes = store.writes;
    merge(&mut store, params(2), root, layer);
    // 10,000 entries of 67 bytes are 165 full leaves, plus some at the edges and their branches.
    assert!(store.writes - writes < 175, "{}", store.writes - writes);
}

#[test]
fn keys_that_grow_leave_full_nodes_behind() {
    for step in [7, 37, 61, 500] {
        let mut store = MemoryStore::new();
        let mut root = None;
        for epoch in 1..=200 {
            let mut layer = Layer::new();
            for n in (epoch - 1) * step..epoch * step {
                put(&mut store, &mut layer, n, epoch);
            }
            root = merge(&mut store, params(epoch), root, layer);
        }
        let parts = check(&mut store, root, params(1).node_size);
        let full = params(1).node_size.capacity() * (parts.nodes[0] - 1);
        assert!(parts.leaf_bytes * 10 >= full * 9, "by {step}");
    }
}

#[test]
fn a_deleted_range_is_dropped_unread() {
    let mut store = MemoryStore::new();
    let old = tree(&mut store, params(1), 0..KEYS);
    let before = check(&mut store, old, params(1).node_size);
    let mut layer = Layer::new();
    layer.delete_range(key(1000)..key(99_000), |_| {});
    layer.put(key(50_000), Value::Inline((*b"new").into()));
    // A scan does not read it either.
    let reads = store.reads;
    let found = store.scan(&[&layer], old, key(990)..key(99_010), Direction::Forward);
    assert_eq!(found.unwrap().len(), 10 + 1 + 10);
    assert!(store.reads - reads <= 2 * HEIGHT);

    let (reads, writes) = (store.reads, store.writes);
    let mut freed = Vec::new();
    let merged = store.merge(params(2), old, &[layer.freeze()], |f| freed.push(f));
    let new = merged.unwrap();
    assert!(
        store.reads - reads <= 2 * HEIGHT + 2,
        "{}",
        store.reads - reads
    );
    assert!(store.writes - writes <= 2 * HEIGHT + 2);
    let after = check(&mut store, new, params(1).node_size);
    assert_eq!(after.entries, 1000 + 1 + 1000);
    // Exactly the blocks that the new tree lacks are freed.
    let mut gone = BTreeSet::new();
    for item in freed {
        match item {
            Freed::Data(ptr) | Freed::Node(ptr) => assert!(gone.insert(ptr.offset.0)),
            Freed::Subtree(ptr) => {
                for visit in store.walk(Some(ptr), Birth(0), Key::START).unwrap() {
                    match visit {
                        Visit::Node(ptr) => assert!(gone.insert(ptr.offset.0)),
                        Visit::Entry(_, Value::Block(block)) => {
                            assert!(gone.insert(block.ptr().offset.0));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
    let want: BTreeSet<_> = before.blocks.difference(&after.blocks).copied().collect();
    assert_eq!(gone, want);
}

#[test]
fn deletes_join_nodes() {
    let mut store = MemoryStore::new();
    let mut root = tree(&mut store, params(1), 0..KEYS);
    // Nine of ten keys, in random order, some at a time; check() tests the fill of nodes.
    for epoch in 2..12 {
        let mut layer = Layer::new();
        for n in (epoch - 2) * 9000..(epoch - 1) * 9000 {
            layer.delete(key(shuffled(n)));
        }
        root = merge(&mut store, params(epoch), root, layer);
        check(&mut store, root, params(1).node_size);
    }
    let parts = check(&mut store, root, params(1).node_size);
    assert_eq!(parts.entries, 10_000);
    assert!(
        parts.nodes[0] < 500 && parts.nodes.len() == 3,
        "{:?}",
        parts.nodes
    );
}

#[test]
fn a_merge_that_touches_nothing_reads_nothing() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..KEYS);
    let (reads, writes) = (store.reads, store.writes);
    assert_eq!(merge(&mut store, params(2), root, Layer::new()), root);
    assert_eq!((store.reads, store.writes), (reads, writes));
}

#[test]
fn a_walk_goes_on_where_it_stopped() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..KEYS);
    let reads = store.reads;
    let visits = store.walk(root, Birth(0), key(99_950)).unwrap();
    let entries = visits.iter().filter(|v| matches!(v, Visit::Entry(..)));
    assert_eq!(entries.count(), 50);
    assert!(store.reads - reads <= HEIGHT + 1);
}

#[test]
fn every_size_of_nodes_works() {
    for size in [4, 8, 20, 64] {
        let mut params = params(1);
        params.node_size = NodeSize::new(size << 10).unwrap();
        let mut store = MemoryStore::new();
        let mut layer = Layer::new();
        for n in 0..5000 {
            let bytes = vec![n as u8; (n % 1025) as usize];
            layer.put(key(n), Value::Inline(bytes.into()));
        }
        let root = merge(&mut store, params, None, layer);
        assert_eq!(check(&mut store, root, params.node_size).entries, 5000);
    }
}
