//! A pool with volumes, snapshots and a clone on simulated disks, and functions that damage it.

use std::rc::Rc;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{
    BlockPtr, Checksum, Host, Node as TreeNode, NodeBuilder, Uberblock, Value, VdevOffset,
};
use pool::inspect::{Contents, Finding, FindingKind, Findings, Image, Inspected};
use pool::vdev::{DATA_START, OpenOptions, PoolSpec, create, open, scan};
use pool::{NewVolume, Options, Pool, Volume};

/// Two mirrors of two.
const DISKS: usize = 4;
pub(crate) const RECORD: u32 = 8192;

pub(crate) fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    Sim::new(1, SimConfig::default()).block_on(test)
}

pub(crate) fn machine() -> Node {
    let node = Node::new();
    for n in 0..DISKS {
        let config = DiskConfig {
            size: 64 << 20,
            ..DiskConfig::default()
        };
        node.create_disk(format!("d{n}"), config);
    }
    node
}

pub(crate) fn host() -> Host {
    Host::new([1; 16], "here")
}

async fn disks(read_only: bool) -> Vec<Disk> {
    let mut disks = Vec::new();
    for n in 0..DISKS {
        let options = DiskOptions {
            read_only,
            ..DiskOptions::default()
        };
        disks.push(Disk::open(format!("d{n}"), options).await.expect("a disk"));
    }
    disks
}

pub(crate) async fn make() -> Pool {
    make_with(Options::default()).await
}

pub(crate) async fn make_with(options: Options) -> Pool {
    let mut members = disks(false).await;
    let second = members.split_off(2);
    let opened = create(PoolSpec::new("tank", vec![members, second], host())).await;
    let pool = Pool::open(opened.expect("made"), options).await;
    pool.expect("open")
}

pub(crate) async fn import() -> Pool {
    import_with(Options::default()).await
}

/// Opens the pool at an older uberblock.
pub(crate) async fn rewind(sequence: u64) -> Pool {
    let found = scan(disks(false).await).await.pools.pop();
    let mut options = OpenOptions::new(host());
    options.rewind = Some(sequence);
    let opened = open(found.expect("a pool"), options).await;
    let pool = Pool::open(opened.expect("opened"), Options::default()).await;
    pool.expect("open")
}

pub(crate) async fn import_with(options: Options) -> Pool {
    let found = scan(disks(false).await).await.pools.pop();
    let opened = open(found.expect("a pool"), OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("opened"), options).await;
    pool.expect("open")
}

pub(crate) async fn volume(pool: &Pool, name: &str) -> Volume {
    let new = NewVolume {
        name: name.into(),
        size: 16 << 20,
        block_size: 4096,
        record_size: RECORD,
        sync: pool::format::Sync::Standard,
        compression: pool::format::Packing::Off,
        checksum: pool::format::ChecksumKind::Xxh3,
    };
    pool.create_volume(new).await.expect("a volume")
}

/// Writes records, durably.
pub(crate) async fn write(volume: &Volume, records: impl IntoIterator<Item = u64>, byte: u8) {
    for record in records {
        let mut buf = io::pool().alloc(RECORD as usize).await;
        buf.fill(byte);
        buf[..8].copy_from_slice(&record.to_le_bytes());
        let at = Lba(record * u64::from(RECORD) / 4096);
        volume.write(at, buf).await.expect("written");
    }
    let _proof = volume.flush().await.expect("flushed");
}

/// Creates volumes with snapshots and holes, and a clone with a snapshot of its own, and makes a checkpoint.
pub(crate) async fn furnish(pool: &Pool) {
    let one = volume(pool, "one").await;
    let two = volume(pool, "two").await;
    write(&one, 0..600, 1).await;
    write(&two, 0..300, 2).await;
    pool.create_snapshot("one", "a").await.expect("a snapshot");
    write(&one, (0..600).step_by(7), 3).await;
    pool.create_snapshot("one", "b").await.expect("a snapshot");
    write(&one, (0..300).step_by(3), 4).await;
    pool.checkpoint().await.expect("a checkpoint");
    let clone = pool.clone_snapshot("one", "a", "clone").await;
    let clone = clone.expect("a clone");
    write(&clone, (0..600).step_by(5), 5).await;
    pool.create_snapshot("clone", "c")
        .await
        .expect("a snapshot");
    write(&clone, (100..500).step_by(4), 6).await;
    pool.checkpoint().await.expect("a checkpoint");
}

/// Result of an inspection.
pub(crate) struct View {
    pub(crate) image: Rc<Image>,
    pub(crate) contents: Contents,
    pub(crate) found: Inspected,
}

pub(crate) async fn inspect() -> View {
    let image = Image::open(disks(true).await).await.expect("a pool");
    let uberblock = image.uberblock(None).expect("an uberblock");
    let mut findings = Findings::default();
    image.check_disks(&mut findings);
    let contents = image.contents(uberblock, &mut findings).await;
    let contents = contents.expect("the pool's own tree");
    let journal = image.journal(&uberblock).await;
    let mut found = image.verify(&contents, &journal, true, |_| ()).await;
    findings.damage.append(&mut found.findings.damage);
    findings.notes.append(&mut found.findings.notes);
    found.findings = findings;
    View {
        image,
        contents,
        found,
    }
}

impl View {
    pub(crate) fn of(&self, kind: FindingKind) -> Vec<&Finding> {
        let damage = self.found.findings.damage.iter();
        damage.filter(|finding| finding.kind == kind).collect()
    }

    pub(crate) fn assert_sound(&self) {
        let lines = self.found.findings.damage.iter().map(ToString::to_string);
        let lines: Vec<String> = lines.collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }

    /// Pointer to a dataset's root.
    pub(crate) fn root(&self, name: &str) -> BlockPtr {
        let mut datasets = self.contents.datasets.values();
        let found = datasets.find(|d| d.name == name).expect("the dataset");
        found.root.root.expect("it holds something")
    }

    /// Pointer to the first record of a dataset.
    pub(crate) async fn first_record(&self, name: &str) -> BlockPtr {
        let mut ptr = self.root(name);
        loop {
            let node = self.node(&ptr).await;
            if node.is_leaf() {
                break match node.value(0).to_value() {
                    Value::Block(block) => *block.ptr(),
                    Value::Inline(_) => panic!("a record is a block"),
                };
            }
            ptr = node.child(0);
        }
    }

    pub(crate) async fn node(&self, ptr: &BlockPtr) -> TreeNode {
        let copied = self.image.read(ptr, false).await.expect("a place");
        let bytes = copied.good.expect("a disk has it");
        TreeNode::decode(bytes[..ptr.physical_size as usize].to_vec()).expect("a node")
    }

    /// Changes values of the pool's own tree, whose root is a leaf. Lengths do not change, and all checksums up to the
    /// uberblock are corrected.
    pub(crate) async fn forge(self, change: impl Fn(pool::format::Key, &mut [u8])) {
        let uberblock = self.image.uberblocks[0];
        let root = uberblock.root.expect("a root");
        let node = self.node(&root).await;
        assert!(node.is_leaf(), "the pool's own tree is small");
        let mut builder = NodeBuilder::new(0);
        for index in 0..node.count() {
            let Value::Inline(mut bytes) = node.value(index).to_value() else {
                panic!("the pool's own tree has no blocks");
            };
            change(node.key(index), &mut bytes);
            builder.push_value(node.key(index), &Value::Inline(bytes));
        }
        let bytes = builder.take_node(node.count(), node.tree(), node.birth());
        assert_eq!(bytes.len(), root.physical_size as usize);
        let root = BlockPtr {
            checksum: Checksum::of(root.checksum_kind, root.address(), &bytes),
            ..root
        };
        let uberblock = Uberblock {
            root: Some(root),
            ..uberblock
        };
        let slots: Vec<_> = self.image.seen[0].slots.clone();
        drop(self);
        let disks = disks(false).await;
        let first = usize::from(root.vdev.0) * 2;
        for disk in &disks[first..first + 2] {
            put(disk, DATA_START + root.offset.0, &bytes).await;
        }
        for disk in &disks {
            for slot in &slots {
                if slot
                    .uberblock
                    .is_ok_and(|u| u.sequence == uberblock.sequence)
                {
                    let bytes = uberblock.encode(VdevOffset(slot.offset));
                    put(disk, slot.offset, &bytes).await;
                }
            }
            let _flushed = disk.flush().await.expect("flushed");
        }
    }

    /// Changes the only leaf of a dataset. All checksums up to the uberblock are corrected.
    pub(crate) async fn forge_leaf(self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let leaf = self.root(name);
        let copied = self.image.read(&leaf, false).await.expect("a place");
        let mut bytes = copied.good.expect("a disk has it")[..leaf.physical_size as usize].to_vec();
        assert!(TreeNode::decode(bytes.clone()).expect("a node").is_leaf());
        change(&mut bytes);
        let Checksum(old) = leaf.checksum;
        let Checksum(new) = Checksum::of(leaf.checksum_kind, leaf.address(), &bytes);
        self.forge(|_, value| {
            let at = value.windows(old.len()).position(|part| part == old);
            if let Some(at) = at {
                value[at..at + new.len()].copy_from_slice(&new);
            }
        })
        .await;
        let first = usize::from(leaf.vdev.0) * 2;
        for disk in &disks(false).await[first..first + 2] {
            put(disk, DATA_START + leaf.offset.0, &bytes).await;
        }
    }
}

/// Flips a bit of each byte of a block on some members of its vdev.
pub(crate) async fn flip(ptr: &BlockPtr, members: &[usize]) {
    let disks = disks(false).await;
    for member in members {
        let disk = &disks[usize::from(ptr.vdev.0) * 2 + member];
        damage(disk, DATA_START + ptr.offset.0).await;
    }
}

/// Flips bits of 4 KiB of a disk.
pub(crate) async fn flip_at(disk: usize, offset: u64) {
    damage(&disks(false).await[disk], offset).await;
}

/// Makes 4 KiB of a disk blank, as if they were never written.
pub(crate) async fn blank_at(disk: usize, offset: u64) {
    put(&disks(false).await[disk], offset, &[0; 4096]).await;
}

async fn damage(disk: &Disk, offset: u64) {
    let buf = io::pool().alloc(4096).await;
    let (read, mut buf) = disk.read(buf, offset).await;
    read.expect("read");
    buf.iter_mut().for_each(|byte| *byte ^= 0x10);
    let written = disk.write(buf, offset).await;
    written.expect("written");
}

async fn put(disk: &Disk, offset: u64, bytes: &[u8]) {
    let len = bytes.len().next_multiple_of(4096);
    let mut buf = io::pool().alloc(len).await;
    buf.fill(0);
    buf[..bytes.len()].copy_from_slice(bytes);
    let written = disk.write(buf, offset).await;
    written.expect("written");
}
