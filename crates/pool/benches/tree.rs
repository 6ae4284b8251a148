//! Cost of lookups and merges: time, and nodes and bytes written for each change.
//!
//! `cargo bench -p wirepool-pool`. Everything is in memory and times are processor time, so that other load on the machine
//! has little effect. A node that a merge reads is checksummed and decoded; a node that a lookup reads comes from the cache.

use std::fs;
use std::sync::Arc;

use pool::format::{Birth, Key, Kind, NodeSize, ObjectId, TreeId, Value};
use pool::tree::memory::MemoryStore;
use pool::tree::{Layer, Lookup, LookupStep, NodeCache, Root, TreeParams};

/// Approximate number of changes that one run merges, in as many merges as that takes, up to a limit.
const MERGED_MIN: u64 = 100_000;
const ROUNDS_MAX: u64 = 20;

/// Cost of merging random updates into a tree.
pub(crate) struct MergeCost {
    /// Time of one change in the top layer, nanoseconds.
    pub(crate) put_ns: f64,
    /// Time of one change in the merge, nanoseconds.
    pub(crate) merge_ns: f64,
    /// Nodes read per change.
    pub(crate) reads: f64,
    /// Nodes written per change.
    pub(crate) writes: f64,
    /// Bytes of nodes written per change.
    pub(crate) bytes: f64,
}

fn params(node_kib: u32, birth: u64) -> TreeParams {
    TreeParams {
        node_size: NodeSize::new(node_kib << 10).expect("a size of nodes"),
        tree: TreeId(1),
        birth: Birth(birth),
    }
}

fn key(n: u64) -> Key {
    Key::new(ObjectId(1), Kind(1), n)
}

/// A pseudo-random number below `end`.
fn spread(n: u64, end: u64) -> u64 {
    let mut x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) % end
}

/// Processor time of this process, nanoseconds; 0 if the kernel does not report it.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Returns a tree of `keys` keys, most of which were updated at random since its creation.
pub(crate) fn aged_tree(store: &mut MemoryStore, node_kib: u32, keys: u64) -> Root {
    let mut layer = Layer::new();
    for n in 0..keys {
        let at = spread(n, keys);
        layer.put(key(at), Value::Block(store.allocate(Birth(1)).into()));
    }
    let first = store.merge(params(node_kib, 1), None, &[layer.freeze()], |_| {});
    let mut layer = Layer::new();
    for n in 0..keys {
        layer.put(key(n), Value::Block(store.allocate(Birth(2)).into()));
    }
    let root = store.merge(
        params(node_kib, 2),
        first.expect("a sound tree"),
        &[layer.freeze()],
        |_| {},
    );
    root.expect("a sound tree")
}

/// Returns the time of one lookup of a random key with every node in the cache, in nanoseconds, and the number of levels.
pub(crate) fn lookup(store: &mut MemoryStore, root: Root, keys: u64, count: u64) -> (f64, u64) {
    let mut cache = NodeCache::new(1 << 30);
    let layers = [&Layer::new()];
    let mut run = |seed: u64| {
        let mut visited = 0;
        for n in 0..count {
            let mut lookup = Lookup::new(&layers, root, key(spread(n + seed, keys)));
            while let LookupStep::Need(need) = lookup.step() {
                visited += 1;
                let node = cache.get(&need.ptr).unwrap_or_else(|| {
                    let node = store.load(&need.ptr).expect("a sound node");
                    cache.insert(&need.ptr, Arc::clone(&node));
                    node
                });
                lookup.supply(&node).expect("the node that is needed");
            }
            assert!(matches!(lookup.step(), LookupStep::Done(Some(_))));
        }
        visited / count
    };
    run(0);
    let start = cpu_ns();
    let levels = run(0);
    ((cpu_ns() - start) as f64 / count as f64, levels)
}

/// Merges `deltas` random updates into a tree of `keys` keys, repeatedly into the same old tree.
pub(crate) fn merge(
    store: &mut MemoryStore,
    node_kib: u32,
    root: Root,
    keys: u64,
    deltas: u64,
) -> MergeCost {
    let rounds = (MERGED_MIN / deltas).clamp(1, ROUNDS_MAX);
    let before = (store.reads, store.writes, store.written);
    let mut put = 0;
    let mut layers = Vec::new();
    for round in 0..rounds {
        let values: Vec<_> = (0..deltas).map(|_| store.allocate(Birth(3))).collect();
        let mut layer = Layer::new();
        let start = cpu_ns();
        for (n, value) in values.into_iter().enumerate() {
            let n = round * deltas + n as u64;
            layer.put(key(spread(n + 77, keys)), Value::Block(value.into()));
        }
        put += cpu_ns() - start;
        layers.push([layer.freeze()]);
    }
    let start = cpu_ns();
    for layer in &layers {
        let merged = store.merge(params(node_kib, 3), root, layer, |_| {});
        assert!(merged.expect("a sound tree").is_some());
    }
    let merge = cpu_ns() - start;
    let each = |total: u64| total as f64 / (deltas * rounds) as f64;
    MergeCost {
        put_ns: each(put),
        merge_ns: each(merge),
        reads: each(store.reads - before.0),
        writes: each(store.writes - before.1),
        bytes: each(store.written - before.2),
    }
}

/// Measures trees of these sizes with these numbers of changes, and prints the results.
pub(crate) fn run(sizes: &[u64], deltas: &[u64], lookups: u64) {
    println!(
        "{:>8} {:>9} {:>7} {:>9}",
        "node KiB", "keys", "levels", "lookup ns"
    );
    for keys in sizes {
        let mut store = MemoryStore::new();
        let root = aged_tree(&mut store, 16, *keys);
        let (ns, levels) = lookup(&mut store, root, *keys, lookups);
        println!("{:>8} {keys:>9} {levels:>7} {ns:>9.0}", 16);
    }
    println!(
        "\n{:>8} {:>9} {:>9} {:>7} {:>9} {:>12} {:>13} {:>12}",
        "node KiB",
        "keys",
        "deltas",
        "put ns",
        "merge ns",
        "reads/delta",
        "writes/delta",
        "bytes/delta"
    );
    for (node_kib, keys) in [16, 4]
        .into_iter()
        .flat_map(|kib| sizes.iter().map(move |keys| (kib, *keys)))
    {
        for deltas in deltas {
            let mut store = MemoryStore::new();
            let root = aged_tree(&mut store, node_kib, keys);
            let cost = merge(&mut store, node_kib, root, keys, *deltas);
            println!(
                "{node_kib:>8} {keys:>9} {deltas:>9} {:>7.0} {:>9.0} {:>12.3} {:>13.3} {:>12.0}",
                cost.put_ns, cost.merge_ns, cost.reads, cost.writes, cost.bytes
            );
        }
    }
}

#[allow(dead_code, reason = "the tests call `run` themselves")]
fn main() {
    run(
        &[100_000, 300_000, 1_000_000],
        &[1_000, 10_000, 100_000],
        1_000_000,
    );
}
