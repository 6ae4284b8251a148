//! Damaged and forged nodes.

use pool::Error;
use pool::format::{Birth, BlockPtr, Defect, Key, NodeBuilder, TreeId};
use pool::tree::memory::MemoryStore;
use pool::tree::{Direction, Layer, Root};

use crate::tree::{key, params, put, tree};

/// Runs each algorithm on the tree at `root`. Returns its error.
fn complaints(store: &mut MemoryStore, root: Root, at: u64) -> Vec<Option<Error>> {
    let mut layer = Layer::new();
    put(store, &mut layer, at, 100);
    let all = Key::START..Key::END;
    let whole = |d| (all.clone(), d);
    let scans = [whole(Direction::Forward), whole(Direction::Reverse)];
    let mut found = vec![
        store.lookup(&[], root, key(at)).err(),
        store.walk(root, Birth(0), Key::START).err(),
        store.compare(root, None).err(),
        store.compare(None, root).err(),
        store
            .merge(params(100), root, &[layer.freeze()], |_| {})
            .err(),
    ];
    found.extend(scans.map(|(keys, direction)| store.scan(&[], root, keys, direction).err()));
    found
}

fn assert_refused(store: &mut MemoryStore, root: Root, at: u64, ptr: &BlockPtr, want: Defect) {
    for complaint in complaints(store, root, at) {
        let Some(Error::Corrupt { at, defect }) = complaint else {
            panic!("taken for sound: {want}");
        };
        assert_eq!((at, defect), (ptr.address(), want));
    }
}

/// Returns the pointers of a tree of two levels: the root, and its leaves.
fn leaves(store: &mut MemoryStore, root: Root) -> Vec<BlockPtr> {
    let node = store.load(&root.unwrap()).unwrap();
    assert_eq!(node.level(), 1);
    (0..node.count()).map(|i| node.child(i)).collect()
}

#[test]
fn rot_is_refused_at_every_byte() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..600);
    let leaf = leaves(&mut store, root)[3];
    for ptr in [root.unwrap(), leaf] {
        for at in (0..ptr.physical_size as usize).step_by(13) {
            for bit in [0, 7] {
                store.bytes_mut(&ptr)[at] ^= 1 << bit;
                assert_refused(&mut store, root, 200, &ptr, Defect::Checksum);
                store.bytes_mut(&ptr)[at] ^= 1 << bit;
            }
        }
    }
    assert!(
        complaints(&mut store, root, 200)
            .iter()
            .all(Option::is_none)
    );
}

#[test]
fn a_block_of_another_place_is_refused() {
    // The same bytes at two addresses, as after a misdirected write: the checksum depends on the address.
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..50);
    let bytes = store.bytes_mut(&root.unwrap()).clone();
    let elsewhere = store.write(bytes, Birth(1));
    let mut forged = elsewhere;
    forged.checksum = root.unwrap().checksum;
    assert_refused(&mut store, Some(forged), 7, &forged, Defect::Checksum);
    assert!(store.load(&elsewhere).is_ok());
}

#[test]
fn a_torn_block_is_refused() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..50);
    let ptr = root.unwrap();
    let want = ptr.physical_size as usize;
    store.bytes_mut(&ptr).truncate(want - 512);
    let got = want - 512;
    let what = "block";
    assert_refused(
        &mut store,
        root,
        7,
        &ptr,
        Defect::Length { what, got, want },
    );
}

/// Creates a root of `level` over children, each with a claimed first key.
fn forge(store: &mut MemoryStore, level: u8, birth: u64, children: &[(Key, BlockPtr)]) -> Root {
    let mut builder = NodeBuilder::new(level);
    for (key, ptr) in children {
        builder.push_child(*key, ptr);
    }
    let bytes = builder.take_node(children.len(), TreeId(7), Birth(birth));
    Some(store.write(bytes, Birth(birth)))
}

#[test]
fn a_sound_node_in_the_wrong_place_is_refused() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(1), 0..600);
    let leaves = leaves(&mut store, root);
    let (first, second) = (leaves[0], leaves[1]);
    let start = store.load(&second).unwrap().first_key();
    let other = |what| Defect::OtherNode { what };

    let good = forge(&mut store, 1, 1, &[(key(0), first), (start, second)]);
    assert!(complaints(&mut store, good, 1).iter().all(Option::is_none));

    let root = forge(&mut store, 1, 1, &[(key(0), second)]);
    assert_refused(&mut store, root, 1, &second, other("its first key"));

    // The next sibling claims to start at a key that this leaf still covers.
    let root = forge(&mut store, 1, 1, &[(key(0), first), (key(30), second)]);
    let complaint = store.lookup(&[], root, key(1)).unwrap_err();
    assert_eq!(
        complaint.to_string(),
        format!("damaged at {}: another node: its last key", first.address())
    );

    let root = forge(&mut store, 2, 1, &[(key(0), first)]);
    assert_refused(&mut store, root, 1, &first, other("its level"));

    let mut younger = first;
    younger.birth = Birth(2);
    younger.placed = Birth(2);
    let root = forge(&mut store, 1, 2, &[(key(0), younger)]);
    assert_refused(&mut store, root, 1, &younger, other("its birth"));
}

#[test]
fn a_root_of_the_future_is_not_merged_into() {
    let mut store = MemoryStore::new();
    let root = tree(&mut store, params(9), 0..10);
    let mut layer = Layer::new();
    put(&mut store, &mut layer, 1, 1);
    let merged = store.merge(params(8), root, &[layer.freeze()], |_| {});
    assert!(matches!(merged, Err(Error::Corrupt { .. })), "{merged:?}");
}
