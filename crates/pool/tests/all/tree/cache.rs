//! The node cache: its limit, and the nodes that it prefers.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::format::{Birth, BlockPtr, Node};
use pool::tree::NodeCache;
use pool::tree::memory::MemoryStore;
use proptest::prelude::*;

use crate::tree::{params, tree};

/// Creates `count` nodes of approximately one size. Returns them, and the size.
fn nodes(count: usize) -> (Vec<(BlockPtr, Arc<Node>)>, usize) {
    let mut store = MemoryStore::new();
    let made = (0..count).map(|n| {
        let root = tree(&mut store, params(1), n as u64..n as u64 + 50).unwrap();
        (root, store.load(&root).unwrap())
    });
    let made: Vec<_> = made.collect();
    let mut one = NodeCache::new(1 << 20);
    one.insert(&made[0].0, Arc::clone(&made[0].1));
    let size = one.stats().memory;
    (made, size)
}

fn read(cache: &mut NodeCache, (ptr, node): &(BlockPtr, Arc<Node>)) -> bool {
    let found = cache.get(ptr);
    let hit = found.is_some();
    assert!(found.is_none_or(|found| Arc::ptr_eq(&found, node)));
    if !hit {
        cache.insert(ptr, Arc::clone(node));
    }
    hit
}

#[test]
fn scans_do_not_evict_nodes_in_use() {
    let (nodes, size) = nodes(2100);
    let mut cache = NodeCache::new(100 * size);
    let (hot, cold) = nodes.split_at(50);
    let mut hits = 0;
    for (i, scanned) in cold.iter().enumerate() {
        // Reading a leaf entry by entry is one use.
        for _ in 0..20 {
            read(&mut cache, scanned);
        }
        hits += u32::from(read(&mut cache, &hot[i * 7 % 50]));
    }
    assert!(
        hits > 1900,
        "{hits} of 2050; the least recently used would have gone each time"
    );
}

#[test]
fn ghost_hits_show_whether_more_memory_would_help() {
    let (nodes, size) = nodes(1000);
    let ghost_share = |used: usize| {
        let mut cache = NodeCache::new(100 * size);
        for _ in 0..20 {
            for node in &nodes[..used] {
                read(&mut cache, node);
            }
        }
        let stats = cache.stats();
        stats.ghost_hits as f64 / stats.misses as f64
    };
    assert!(ghost_share(150) > 0.4, "{}", ghost_share(150));
    assert!(ghost_share(1000) < 0.05, "{}", ghost_share(1000));
}

#[test]
fn a_reused_address_does_not_give_the_old_node() {
    let (nodes, size) = nodes(1);
    let mut cache = NodeCache::new(10 * size);
    let (old, node) = &nodes[0];
    cache.insert(old, Arc::clone(node));
    let mut new = *old;
    new.birth = Birth(2);
    new.placed = Birth(2);
    assert!(cache.get(&new).is_none());
    assert!(cache.get(old).is_some());
    cache.insert(&new, Arc::clone(node));
    assert!(cache.get(old).is_none());
    cache.remove(new.address());
    assert!(cache.get(&new).is_none());
    assert_eq!((cache.stats().nodes, cache.stats().memory), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn inserted_nodes_are_cached_up_to_the_limit(
        limit in 0..12_usize,
        ops in prop::collection::vec((0..30_usize, 0..8_u8), 1..600),
    ) {
        let (nodes, size) = nodes(30);
        let mut cache = NodeCache::new(limit * size + size / 2);
        let mut held = BTreeMap::new();
        for (at, op) in ops {
            let (ptr, node) = &nodes[at];
            match op {
                0 => {
                    cache.remove(ptr.address());
                    held.remove(&at);
                    prop_assert!(cache.get(ptr).is_none());
                }
                1..=3 => {
                    cache.insert(ptr, Arc::clone(node));
                    held.insert(at, ());
                }
                _ => {
                    let found = cache.get(ptr);
                    prop_assert!(found.as_ref().is_none_or(|n| Arc::ptr_eq(n, node)));
                    prop_assert!(found.is_none() || held.contains_key(&at));
                }
            }
            let stats = cache.stats();
            prop_assert!(stats.memory <= limit * size + size / 2);
            prop_assert!(stats.nodes <= limit && stats.nodes <= held.len());
        }
    }
}
