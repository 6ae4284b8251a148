//! A simulated machine with disks, and blocks with known contents.

use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use io::{IoBuf, pool};
use pool::WriteClass;
use pool::format::{
    Address, Birth, BlockPtr, Checksum, ChecksumKind, Compression, Host, VdevId, VdevOffset,
};
use pool::vdev::{FoundPool, OpenOptions, Opened, PoolSpec, SetupError, Vdevs, create, open, scan};

/// Length of a test's blocks, bytes.
pub(crate) const BLOCK: usize = 4096;
pub(crate) const DISK_SIZE: u64 = 64 << 20;

pub(crate) fn run<T: 'static>(seed: u64, test: impl Future<Output = T> + 'static) -> T {
    let config = SimConfig {
        replay: Some(format!("seed {seed} of this test")),
        ..SimConfig::default()
    };
    Sim::new(seed, config).block_on(test)
}

pub(crate) fn host() -> Host {
    Host::new([1; 16], "here")
}

pub(crate) fn config() -> DiskConfig {
    DiskConfig {
        size: DISK_SIZE,
        atomic_unit: 512,
        ..DiskConfig::default()
    }
}

/// A machine with disks `d0`, `d1`, and so on.
pub(crate) fn machine(disks: usize) -> (Node, Vec<SimDisk>) {
    let node = Node::new();
    let disk = |n: usize| node.create_disk(path(n), config());
    (node, (0..disks).map(disk).collect())
}

pub(crate) fn path(n: usize) -> String {
    format!("d{n}")
}

/// Runs a future on a machine. `None` if the power was cut before its end.
pub(crate) async fn on<T: 'static>(
    node: Node,
    act: impl Future<Output = T> + 'static,
) -> Option<T> {
    node.spawn(act).await
}

pub(crate) async fn disk(n: usize) -> Disk {
    let opened = Disk::open(path(n), DiskOptions::default()).await;
    opened.expect("the disk is there")
}

pub(crate) async fn disks(which: &[usize]) -> Vec<Disk> {
    let mut opened = Vec::new();
    for n in which {
        opened.push(disk(*n).await);
    }
    opened
}

/// Creates the pool `tank`, of vdevs with these disks.
pub(crate) async fn make(vdevs: &[&[usize]]) -> Result<Opened, SetupError> {
    let mut members = Vec::new();
    for vdev in vdevs {
        members.push(disks(vdev).await);
    }
    create(PoolSpec::new("tank", members, host())).await
}

/// Finds the only pool on these disks.
pub(crate) async fn find(which: &[usize]) -> Option<FoundPool> {
    let mut pools = scan(disks(which).await).await.pools;
    assert!(pools.len() <= 1, "one pool at most");
    pools.pop()
}

pub(crate) async fn import(which: &[usize]) -> Result<Opened, SetupError> {
    let found = find(which).await.expect("a pool");
    open(found, OpenOptions::new(host())).await
}

pub(crate) async fn import_forced(which: &[usize]) -> Result<Opened, SetupError> {
    let options = OpenOptions {
        force_missing: true,
        ..OpenOptions::new(host())
    };
    open(find(which).await.expect("a pool"), options).await
}

/// Address of the allocator's block `n` on a vdev.
pub(crate) fn place(vdevs: &Vdevs, vdev: u16, n: u64) -> Address {
    let info = vdevs.table()[usize::from(vdev)];
    Address {
        vdev: VdevId(vdev),
        offset: VdevOffset(info.first_free.0 + n * BLOCK as u64),
    }
}

/// Bytes that encode their place and version.
pub(crate) fn content(at: Address, version: u8) -> Vec<u8> {
    let word = (at.offset.0 << 8) ^ (u64::from(at.vdev.0) << 56) ^ u64::from(version);
    word.to_le_bytes().repeat(BLOCK / 8)
}

pub(crate) fn pointer(at: Address, version: u8) -> BlockPtr {
    let bytes = content(at, version);
    // pools have blocks of both kinds
    let kind = match (at.offset.0 / BLOCK as u64).is_multiple_of(2) {
        true => ChecksumKind::Xxh3,
        false => ChecksumKind::FoldedXxh3,
    };
    BlockPtr {
        vdev: at.vdev,
        offset: at.offset,
        logical_size: BLOCK as u32,
        physical_size: BLOCK as u32,
        compression: Compression::Off,
        checksum_kind: kind,
        is_fragment: false,
        birth: Birth(1),
        placed: Birth(1),
        checksum: Checksum::of(kind, at, &bytes),
    }
}

pub(crate) async fn buffer(bytes: &[u8]) -> IoBuf {
    let mut buf = pool().alloc(bytes.len()).await;
    buf.copy_from_slice(bytes);
    buf
}

pub(crate) async fn put(vdevs: &Vdevs, at: Address, version: u8) -> pool::Result<()> {
    let bytes = buffer(&content(at, version)).await;
    vdevs.write(at, bytes, WriteClass::Data).await
}

pub(crate) async fn put_all(vdevs: &Vdevs, blocks: std::ops::Range<u64>, version: u8) {
    for n in blocks {
        let at = place(vdevs, (n % vdevs.table().len() as u64) as u16, n);
        put(vdevs, at, version).await.expect("a member takes it");
    }
}

pub(crate) async fn get(vdevs: &Vdevs, at: Address, version: u8) -> pool::Result<()> {
    let read = vdevs.read(&pointer(at, version)).await?;
    assert!(read[..] == content(at, version), "wrong bytes at {at}");
    Ok(())
}

pub(crate) async fn get_all(vdevs: &Vdevs, blocks: std::ops::Range<u64>, version: u8) {
    for n in blocks {
        let at = place(vdevs, (n % vdevs.table().len() as u64) as u16, n);
        let read = get(vdevs, at, version).await;
        read.unwrap_or_else(|e| panic!("block {n}: {e}"));
    }
}
