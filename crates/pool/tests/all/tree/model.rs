//! A dataset with snapshots against maps: entries read, and blocks freed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool::format::{Birth, BlockPtr, Key, Kind, NodeSize, ObjectId, Value};
use pool::tree::memory::MemoryStore;
use pool::tree::{Change, Direction, Freed, Layer, Root, TreeParams, Visit};
use proptest::prelude::*;

use crate::tree::check::check_between;
use crate::tree::params;

const KEYS: u64 = 4000;

#[derive(Debug, Clone)]
enum Op {
    Put(u64),
    PutInline(u64, usize),
    PutRun(u64, u64),
    Delete(u64),
    DeleteRange(u64, u64),
    DeleteRun(u64, u64),
    Freeze,
    Snapshot,
    Checkpoint,
    Destroy(usize),
    Rollback,
    Read(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0..KEYS;
    prop_oneof![
        20 => at.clone().prop_map(Op::Put),
        6 => (at.clone(), 0..=1024_usize).prop_map(|(k, n)| Op::PutInline(k, n)),
        6 => (at.clone(), 1..600_u64).prop_map(|(k, n)| Op::PutRun(k, n)),
        10 => at.clone().prop_map(Op::Delete),
        2 => (at.clone(), 1..300_u64).prop_map(|(k, n)| Op::DeleteRun(k, n)),
        3 => (at.clone(), 0..1500_u64).prop_map(|(k, n)| Op::DeleteRange(k, n)),
        3 => Just(Op::Freeze),
        2 => Just(Op::Snapshot),
        4 => Just(Op::Checkpoint),
        2 => (0..4_usize).prop_map(Op::Destroy),
        1 => Just(Op::Rollback),
        3 => (at, 0..800_u64).prop_map(|(k, n)| Op::Read(k, n)),
    ]
}

/// Node sizes of successive merges. In half of the cases there is one size only.
fn node_sizes() -> impl Strategy<Value = Vec<NodeSize>> {
    let size = (1..=4_u32).prop_map(|n| NodeSize::new(n * 4096).expect("a size of nodes"));
    prop_oneof![
        prop::collection::vec(size.clone(), 1),
        prop::collection::vec(size, 2..8),
    ]
}

/// A key of one of three objects, so that ranges and scans cross objects.
fn key(n: u64) -> Key {
    let object = n * 3 / KEYS;
    Key::new(ObjectId(object), Kind(object as u8), n << 20)
}

type Map = BTreeMap<Key, Value>;

struct Snapshot {
    birth: Birth,
    root: Root,
    map: Map,
    /// Blocks that the snapshot before this one holds and this one does not.
    dead: Vec<Freed>,
}

/// Layers between two snapshots, newest first.
#[derive(Default)]
struct Group {
    layers: Vec<Arc<Layer>>,
    birth: u64,
    /// The state after the layers, if a snapshot was taken.
    snapshot: Option<Map>,
}

#[derive(Default)]
struct World {
    store: MemoryStore,
    epoch: u64,
    map: Map,
    top: Layer,
    /// Layers frozen since the last snapshot, newest first.
    frozen: Vec<Arc<Layer>>,
    /// Groups, oldest first.
    groups: Vec<Group>,
    root: Root,
    snapshots: Vec<Snapshot>,
    /// Blocks that the last snapshot holds and the head does not.
    dead: Vec<Freed>,
    /// Allocated blocks.
    live: BTreeSet<u64>,
}

impl World {
    fn new(node_sizes: &[NodeSize]) -> Self {
        let mut store = MemoryStore::new();
        store.limits = node_sizes.to_vec();
        Self {
            epoch: 1,
            store,
            ..Self::default()
        }
    }

    fn release(&mut self, ptr: &BlockPtr) {
        assert!(self.live.remove(&ptr.offset.0), "freed twice: {ptr:?}");
        self.store.free(ptr);
    }

    fn release_value(&mut self, value: Option<Value>) {
        if let Some(ptr) = value.as_ref().and_then(Value::block) {
            self.release(ptr);
        }
    }

    /// Frees a block if no snapshot up to `since` holds it; otherwise adds it to `keep`.
    fn settle(&mut self, freed: Freed, since: Birth, keep: &mut Vec<Freed>) {
        match freed {
            Freed::Data(ptr) | Freed::Node(ptr) if ptr.birth > since => self.release(&ptr),
            Freed::Subtree(ptr) if ptr.birth > since => {
                let visits = self.store.walk(Some(ptr), since, Key::START).unwrap();
                for visit in visits {
                    let part = match visit {
                        Visit::Node(ptr) => Freed::Node(ptr),
                        Visit::Older(ptr) => Freed::Subtree(ptr),
                        Visit::Entry(_, Value::Block(block)) => Freed::Data(*block.ptr()),
                        Visit::Entry(_, Value::Inline(_)) | Visit::Lost(..) => continue,
                    };
                    self.settle(part, since, keep);
                }
            }
            older => keep.push(older),
        }
    }

    fn last_snapshot(&self) -> Birth {
        self.snapshots.last().map_or(Birth(0), |s| s.birth)
    }

    fn put(&mut self, at: u64, value: Value) {
        let replaced = self.top.put(key(at), value.clone());
        self.release_value(replaced);
        self.map.insert(key(at), value);
    }

    fn put_block(&mut self, at: u64) {
        let ptr = self.store.allocate(Birth(self.epoch));
        self.live.insert(ptr.offset.0);
        self.put(at, Value::Block(ptr.into()));
    }

    fn delete(&mut self, at: u64) {
        let replaced = self.top.delete(key(at));
        self.release_value(replaced);
        self.map.remove(&key(at));
    }

    fn delete_range(&mut self, from: u64, to: u64) {
        let keys = key(from)..if to < KEYS { key(to) } else { Key::END };
        let mut replaced = Vec::new();
        self.top
            .delete_range(keys.clone(), |value| replaced.push(value));
        for value in replaced {
            self.release_value(Some(value));
        }
        self.map.retain(|k, _| !keys.contains(k));
    }

    fn freeze(&mut self) {
        let layer = std::mem::take(&mut self.top).freeze();
        self.frozen.insert(0, layer);
    }

    fn close_group(&mut self, snapshot: Option<Map>) {
        self.freeze();
        self.groups.push(Group {
            layers: std::mem::take(&mut self.frozen),
            birth: self.epoch,
            snapshot,
        });
        self.epoch += 1;
    }

    fn checkpoint(&mut self) {
        self.close_group(None);
        for group in std::mem::take(&mut self.groups) {
            let mut freed = Vec::new();
            let (reads, writes, old) = (self.store.reads, self.store.writes, self.root);
            let new = TreeParams {
                node_size: self.store.limits.iter().copied().max().unwrap(),
                ..params(group.birth)
            };
            let merged = self.store.merge(new, old, &group.layers, |f| freed.push(f));
            self.root = merged.unwrap();
            let nodes = freed.iter().filter(|f| matches!(f, Freed::Node(_)));
            let read = self.store.reads - reads;
            assert_eq!(nodes.count() as u64, read, "each node is read once");
            let written = self.store.writes - writes;
            let adopted = self.adopt_new_nodes(group.birth);
            assert_eq!(adopted as u64, written, "no node is written in vain");
            let since = self.last_snapshot();
            let mut keep = Vec::new();
            for item in freed {
                self.settle(item, since, &mut keep);
            }
            self.dead.append(&mut keep);
            if let Some(map) = group.snapshot {
                self.snapshots.push(Snapshot {
                    birth: Birth(group.birth),
                    root: self.root,
                    map,
                    dead: std::mem::take(&mut self.dead),
                });
            }
        }
        self.check_all();
    }

    /// Counts the nodes that the last merge wrote as allocated. Returns their number.
    fn adopt_new_nodes(&mut self, birth: u64) -> usize {
        let since = Birth(birth - 1);
        let visits = self.store.walk(self.root, since, Key::START).unwrap();
        let written = visits.iter().filter_map(|v| match v {
            Visit::Node(ptr) => Some(ptr.offset.0),
            Visit::Entry(..) | Visit::Lost(..) | Visit::Older(_) => None,
        });
        let before = self.live.len();
        self.live.extend(written);
        self.live.len() - before
    }

    fn destroy(&mut self, index: usize) {
        if !self.groups.is_empty() || index >= self.snapshots.len() {
            return;
        }
        let gone = self.snapshots.remove(index);
        let before = index.checked_sub(1).map(|i| self.snapshots[i].birth);
        let since = before.unwrap_or(Birth(0));
        let is_newest = index == self.snapshots.len();
        let next = if is_newest {
            std::mem::take(&mut self.dead)
        } else {
            std::mem::take(&mut self.snapshots[index].dead)
        };
        let mut keep = gone.dead;
        for item in next {
            self.settle(item, since, &mut keep);
        }
        if is_newest {
            self.dead = keep;
        } else {
            self.snapshots[index].dead = keep;
        }
    }

    /// Resets the head to the newest snapshot.
    fn rollback(&mut self) {
        self.checkpoint();
        let Some(snapshot) = self.snapshots.last() else {
            return;
        };
        let (root, map, since) = (snapshot.root, snapshot.map.clone(), snapshot.birth);
        let mut keep = Vec::new();
        if let Some(head) = self.root.filter(|_| self.root != root) {
            self.settle(Freed::Subtree(head), since, &mut keep);
        }
        // The rest of the head's tree belongs to the snapshot, and the blocks on the snapshot's deadlist are in use again.
        self.dead.clear();
        (self.root, self.map) = (root, map);
        self.check_all();
    }

    /// Checks that every tree is sound and equals its map, and that exactly the blocks in use are allocated.
    fn check_all(&mut self) {
        let mut held = BTreeSet::new();
        let sizes = self.store.limits.iter().copied();
        let (least, most) = (sizes.clone().min(), sizes.max());
        let points = self.top.points().filter_map(|(_, delta)| delta.value());
        held.extend(points.filter_map(Value::block).map(|ptr| ptr.offset.0));
        let head = (self.root, &self.map);
        let snapshots = self.snapshots.iter().map(|s| (s.root, &s.map));
        for (root, map) in snapshots.chain([head]) {
            held.append(
                &mut check_between(&mut self.store, root, least.unwrap(), most.unwrap()).blocks,
            );
            let all = Key::START..Key::END;
            let entries = self.store.scan(&[], root, all, Direction::Forward);
            assert!(entries.unwrap().into_iter().eq(map.clone()));
        }
        assert_eq!(self.live, held, "allocated, and held");
        for pair in self.snapshots.windows(2) {
            compare(&mut self.store, &pair[0], &pair[1]);
        }
    }

    fn read(&mut self, from: u64, count: u64) {
        let groups = self.groups.iter().rev().flat_map(|g| &g.layers);
        let frozen: Vec<_> = self.frozen.iter().chain(groups).cloned().collect();
        let mut layers = vec![&self.top];
        layers.extend(frozen.iter().map(|layer| &**layer));
        for at in [from, (from * 7919) % KEYS] {
            let found = self.store.lookup(&layers, self.root, key(at)).unwrap();
            assert_eq!(found.as_ref(), self.map.get(&key(at)));
        }
        let keys = key(from)..key((from + count).min(KEYS - 1)).max(key(from));
        let want: Vec<_> = self
            .map
            .range(keys.clone())
            .map(|(k, v)| (*k, v.clone()))
            .collect();
        let mut scan = |direction| {
            let found = self.store.scan(&layers, self.root, keys.clone(), direction);
            found.unwrap()
        };
        assert_eq!(scan(Direction::Forward), want);
        let mut reverse = scan(Direction::Reverse);
        reverse.reverse();
        assert_eq!(reverse, want);
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Put(at) => self.put_block(at),
            Op::PutInline(at, size) => self.put(at, Value::Inline(vec![at as u8; size].into())),
            Op::PutRun(at, count) => (at..KEYS.min(at + count)).for_each(|k| self.put_block(k)),
            Op::Delete(at) => self.delete(at),
            Op::DeleteRun(at, count) => (at..KEYS.min(at + count)).for_each(|k| self.delete(k)),
            Op::DeleteRange(at, count) => self.delete_range(at, at + count),
            Op::Freeze => self.freeze(),
            Op::Snapshot => {
                let map = self.map.clone();
                self.close_group(Some(map));
            }
            Op::Checkpoint => self.checkpoint(),
            Op::Destroy(index) => self.destroy(index),
            Op::Rollback => self.rollback(),
            Op::Read(at, count) => self.read(at, count),
        }
    }
}

fn compare(store: &mut MemoryStore, old: &Snapshot, new: &Snapshot) {
    let changes = store.compare(old.root, new.root).unwrap();
    let keys: BTreeSet<_> = old.map.keys().chain(new.map.keys()).collect();
    let want = keys.into_iter().filter_map(|key| {
        let (old, new) = (old.map.get(key).cloned(), new.map.get(key).cloned());
        let key = *key;
        (old != new).then_some(Change { key, old, new })
    });
    assert!(changes.into_iter().eq(want));
}

proptest! {
    // PROPTEST_CASES may be larger than 256, the default: each case here is worth many.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 16,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_dataset_equals_its_map(
        sizes in node_sizes(),
        ops in prop::collection::vec(op(), 100..800),
    ) {
        let mut world = World::new(&sizes);
        for op in &ops {
            world.run(op);
        }
        world.checkpoint();
        for _ in 0..world.snapshots.len() {
            world.destroy(0);
        }
        world.check_all();
        world.delete_range(0, KEYS);
        world.checkpoint();
        prop_assert!(world.root.is_none() && world.live.is_empty());
    }
}
