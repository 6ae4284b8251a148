//! Lost nodes that changes touch: the merge gives them up, and each of their keys is new, deleted, or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pool::Error;
use pool::format::{Birth, BlockPtr, Defect, Key, Value};
use pool::tree::memory::MemoryStore;
use pool::tree::{Direction, Freed, Layer, Root, Visit};
use proptest::prelude::*;

use crate::tree::{key, params, put, tree};

const KEYS: u64 = 3000;

/// What a key holds, by a slow model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    Value(Value),
    Lost,
}

#[derive(Debug, Clone)]
enum Op {
    Put(u64),
    PutRun(u64, u64),
    Delete(u64),
    DeleteRange(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0..KEYS;
    prop_oneof![
        6 => at.clone().prop_map(Op::Put),
        1 => (at.clone(), 1..200_u64).prop_map(|(k, n)| Op::PutRun(k, n)),
        3 => at.clone().prop_map(Op::Delete),
        2 => (at, 1..400_u64).prop_map(|(k, n)| Op::DeleteRange(k, n)),
    ]
}

struct World {
    store: MemoryStore,
    root: Root,
    birth: u64,
    held: BTreeMap<u64, Held>,
    /// Absent keys that may read as lost: see [`World::spread`].
    doubted: BTreeSet<u64>,
}

impl World {
    /// A tree with every second key, so that keys between entries are lost and written, too.
    fn new() -> Self {
        let mut store = MemoryStore::new();
        let root = tree(&mut store, params(1), (0..KEYS).step_by(2));
        store.gives_up = true;
        let all = store.scan(&[], root, Key::START..Key::END, Direction::Forward);
        let held = |(at, value): (Key, Value)| (at.offset(), Held::Value(value));
        let held = all.expect("a sound tree").into_iter().map(held).collect();
        Self {
            store,
            root,
            birth: 1,
            held,
            doubted: BTreeSet::new(),
        }
    }

    /// All nodes with their keys.
    fn nodes(&mut self) -> Vec<(BlockPtr, Range<Key>)> {
        let mut found = Vec::new();
        let mut left: Vec<_> = self
            .root
            .map(|ptr| (ptr, Key::START..Key::END))
            .into_iter()
            .collect();
        while let Some((ptr, keys)) = left.pop() {
            let Ok(node) = self.store.load(&ptr) else {
                continue;
            };
            if !node.is_leaf() {
                let starts = (0..node.count()).map(|i| node.key(i));
                let ends = (1..node.count()).map(|i| node.key(i)).chain([keys.end]);
                let children = starts.zip(ends).enumerate();
                left.extend(children.map(|(i, (start, end))| (node.child(i), start..end)));
            }
            if node.lost().is_none() {
                found.push((ptr, keys));
            }
        }
        found
    }

    /// Damages one of the nodes.
    fn lose(&mut self, index: prop::sample::Index) {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return;
        }
        let (ptr, keys) = index.get(&nodes).clone();
        self.store.bytes_mut(&ptr)[20] ^= 1;
        for n in 0..KEYS {
            if keys.contains(&key(n)) {
                self.held.insert(n, Held::Lost);
            }
        }
    }

    fn change(&mut self, ops: &[Op]) {
        self.birth += 1;
        let mut layer = Layer::new();
        for op in ops {
            match op {
                Op::Put(n) => self.put(&mut layer, *n),
                Op::PutRun(from, n) => {
                    (*from..(from + n).min(KEYS)).for_each(|n| self.put(&mut layer, n));
                }
                Op::Delete(n) => {
                    layer.delete(key(*n));
                    self.held.remove(n);
                    self.doubted.remove(n);
                }
                Op::DeleteRange(from, n) => {
                    layer.delete_range(key(*from)..key(from + n), |_| {});
                    self.held.retain(|k, _| !(*from..from + n).contains(k));
                    self.doubted.retain(|k| !(*from..from + n).contains(k));
                }
            }
        }
        let mut freed = Vec::new();
        let layers = [layer.freeze()];
        let merged = self
            .store
            .merge(params(self.birth), self.root, &layers, |f| freed.push(f));
        self.root = merged.expect("merged around lost nodes");
        for freed in freed {
            match freed {
                Freed::Node(ptr) => assert!(self.store.free(&ptr), "freed twice"),
                Freed::Subtree(ptr) => self.free_subtree(ptr),
                Freed::Data(_) => {}
            }
        }
        self.spread();
    }

    fn put(&mut self, layer: &mut Layer, n: u64) {
        let ptr = put(&mut self.store, layer, n, self.birth);
        self.held.insert(n, Held::Value(Value::Block(ptr.into())));
        self.doubted.remove(&n);
    }

    fn free_subtree(&mut self, ptr: BlockPtr) {
        let Ok(visits) = self.store.walk(Some(ptr), Birth(0), Key::START) else {
            return; // the nodes below a lost one are not known
        };
        for visit in visits {
            if let Visit::Node(ptr) = visit {
                assert!(self.store.free(&ptr), "freed twice");
            }
        }
    }

    /// Nobody knows where a lost node ends that no change touched: absent keys behind it may read as lost, too.
    fn spread(&mut self) {
        let mut is_behind = false;
        for n in 0..KEYS {
            match self.held.get(&n) {
                Some(held) => is_behind = *held == Held::Lost,
                None if is_behind => drop(self.doubted.insert(n)),
                None => is_behind = self.doubted.contains(&n),
            }
        }
    }

    /// Compares every key, and scans, with the model.
    fn compare(&mut self) {
        for n in 0..KEYS {
            let found = self.store.lookup(&[], self.root, key(n));
            match self.held.get(&n) {
                Some(Held::Lost) => assert_lost(n, found),
                Some(Held::Value(value)) => assert_eq!(found, Ok(Some(value.clone())), "key {n}"),
                None if found.is_err() && self.doubted.contains(&n) => assert_lost(n, found),
                None => assert_eq!(found, Ok(None), "key {n}"),
            }
        }
        for from in (0..KEYS).step_by(37) {
            let keys = from..(from + 37).min(KEYS);
            let held: Vec<_> = self.held.range(keys.clone()).collect();
            let range = key(keys.start)..key(keys.end);
            let scanned = self.store.scan(&[], self.root, range, Direction::Forward);
            let is_lost = held.iter().any(|(_, h)| **h == Held::Lost);
            let is_doubted = self.doubted.range(keys).next().is_some();
            if is_lost || (scanned.is_err() && is_doubted) {
                assert_lost(from, scanned);
                continue;
            }
            let found: BTreeSet<u64> = scanned
                .expect("nothing is lost there")
                .iter()
                .map(|(k, _)| k.offset())
                .collect();
            let wanted: BTreeSet<u64> = held.iter().map(|(k, _)| **k).collect();
            assert_eq!(found, wanted);
        }
    }
}

fn assert_lost<T: std::fmt::Debug>(n: u64, found: Result<T, Error>) {
    let Err(Error::Corrupt { defect, .. }) = found else {
        panic!("key {n} is lost, and read as {found:?}");
    };
    assert!(
        matches!(defect, Defect::Checksum | Defect::Lost),
        "{defect}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A change in the keys of a lost node ended all changes of the pool: the checkpoint could not read the node, and failed for ever.
    #[test]
    fn changes_go_on_beside_lost_keys(
        steps in prop::collection::vec((prop::collection::vec(op(), 0..30), any::<Option<prop::sample::Index>>()), 1..6),
    ) {
        let mut world = World::new();
        for (ops, lose) in steps {
            if let Some(index) = lose {
                world.lose(index);
            }
            world.change(&ops);
            world.compare();
        }
        // new values for all keys leave nothing lost
        let all: Vec<Op> = vec![Op::DeleteRange(0, KEYS), Op::PutRun(0, KEYS)];
        world.change(&all);
        world.compare();
    }
}
