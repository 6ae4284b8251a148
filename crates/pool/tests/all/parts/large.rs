//! Large pools whose space maps are synthetic: the disks are sparse, and a tool writes the pool's own tree.
//!
//! Each region of the pool is 80 % used, in runs of 256 sectors with holes of 64; one sector of some regions is a record of a volume. A disk
//! needs 10 ms for each operation, and serves one after the other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use pool::format::{
    Address, Birth, BlockPtr, ChecksumKind, Compression, DatasetRoot, Host, KIND_DATASET,
    KIND_RECORD, KIND_ROOT, KIND_SPACE, KIND_SUMMARIZED, KIND_SUMMARY, Key, Node as TreeNode,
    NodeBuilder, NodeSize, ObjectId, PAGE_REGIONS, POOL_TREE, REGION_SECTORS, RegionBits,
    RegionSummary, RowGrid, SummaryPage, TreeId, VOLUME_OBJECT, Value, VdevId, VdevOffset,
    space_key, summary_key,
};
use pool::vdev::{DATA_START, OpenOptions, Opened, PoolSpec, Vdevs, create, open, scan};
use pool::{NewVolume, Options, Pool};

const SECTOR: u64 = 4096;
const REGION: u64 = REGION_SECTORS as u64 * SECTOR;
/// Regions at the start of each vdev that are as the pool itself left them.
const OWN_REGIONS: u32 = 64;
/// Reads of each disk when a journal of 256 MiB is searched.
const JOURNAL_READS: u64 = 256;

#[derive(Clone, Copy)]
struct Shape {
    disks: usize,
    /// Bytes of a disk.
    size: u64,
    node_size: u32,
    /// Records of the volume, each in another region.
    records: u64,
    /// Whether the tree has summaries of its bitmaps, as releases since decision 0162 write them.
    is_summarized: bool,
    options: Options,
}

/// What was measured. Times are those of the simulator.
#[derive(Debug, Default)]
struct Figures {
    /// Reads of the first opening, without those of the journal.
    first_reads: u64,
    /// Of `open`, the time for labels and uberblocks.
    labels: Duration,
    open: Duration,
    open_reads: u64,
    open_memory: u64,
    write: Duration,
    destroy: Duration,
    destroy_reads: u64,
    destroy_memory: u64,
    reopen: Duration,
    verify_memory: u64,
}

fn host() -> Host {
    Host::new([7; 16], "large")
}

async fn disks(shape: Shape) -> Vec<Disk> {
    let mut disks = Vec::new();
    for n in 0..shape.disks {
        let name = format!("d{n}");
        if Node::current().disk(&name).is_none() {
            let config = DiskConfig {
                size: shape.size,
                volatile_cache: false,
                rotational: true,
                is_serial: true,
                short: 0.0,
                ..DiskConfig::default()
            };
            Node::current().create_disk(&name, config);
        }
        let disk = loop {
            match Disk::open(&name, DiskOptions::default()).await {
                Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
                opened => break opened.expect("the disk is there"),
            }
        };
        disks.push(disk);
    }
    disks
}

/// Sets how long the disks need for an operation.
fn slow(shape: Shape, base: Duration) {
    for n in 0..shape.disks {
        let disk = Node::current().disk(format!("d{n}")).expect("a disk");
        disk.slow(Some(Latency {
            base,
            jitter: Duration::ZERO,
            tail_chance: 0.0,
            tail: Duration::ZERO,
        }));
    }
}

async fn devices(shape: Shape) -> Opened {
    let found = scan(disks(shape).await).await.pools.pop();
    let opened = open(found.expect("a pool"), OpenOptions::new(host())).await;
    opened.expect("opened")
}

fn reads(pool: &Pool) -> u64 {
    reads_of(&pool.vdevs())
}

fn reads_of(vdevs: &Vdevs) -> u64 {
    let status = vdevs.status();
    let members = status.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.counters.reads).sum()
}

/// Writes nodes bottom-up, one behind the other in regions that no bitmap has.
struct Tool<'a> {
    disks: &'a [Disk],
    shape: Shape,
    tree: TreeId,
    birth: Birth,
    /// The next byte on each vdev.
    next: Vec<u64>,
    turn: usize,
    bytes: u64,
    /// By level: the node that is being filled.
    levels: Vec<NodeBuilder>,
}

impl Tool<'_> {
    async fn put(&mut self, bytes: &[u8]) -> BlockPtr {
        let vdev = self.turn % self.disks.len();
        self.turn += 1;
        let space = (bytes.len() as u64).next_multiple_of(SECTOR);
        let at = self.next[vdev];
        let at = match at / REGION == (at + space - 1) / REGION {
            true => at,
            false => at.next_multiple_of(REGION),
        };
        self.next[vdev] = at + space;
        self.bytes += space;
        let address = Address {
            vdev: VdevId(vdev as u16),
            offset: VdevOffset(at),
        };
        let mut buf = io::pool().alloc(space as usize).await;
        buf.fill(0);
        buf[..bytes.len()].copy_from_slice(bytes);
        let disk = &self.disks[vdev];
        disk.write(buf, DATA_START + at).await.expect("written");
        let plain = (Compression::Off, bytes.len());
        BlockPtr::to(address, bytes, plain, ChecksumKind::Xxh3, self.birth)
    }

    /// Writes the node of a level, and adds it to the one above.
    async fn end_node(&mut self, level: usize) -> BlockPtr {
        let node = &mut self.levels[level];
        let first = node.first_key().expect("entries");
        let bytes = node.take_node(node.len(), self.tree, self.birth);
        let ptr = self.put(&bytes).await;
        if self.levels.len() == level + 1 {
            self.levels.push(NodeBuilder::new(level as u8 + 1));
        }
        if self.levels[level + 1].size() + 64 > self.shape.node_size as usize {
            Box::pin(self.end_node(level + 1)).await;
        }
        self.levels[level + 1].push_child(first, &ptr);
        ptr
    }

    async fn push(&mut self, key: Key, value: Value) {
        if self.levels.is_empty() {
            self.levels.push(NodeBuilder::new(0));
        }
        if self.levels[0].size() + 1100 > self.shape.node_size as usize {
            self.end_node(0).await;
        }
        self.levels[0].push_value(key, &value);
    }

    async fn end(&mut self) -> BlockPtr {
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            let ptr = self.end_node(level).await;
            if is_top {
                return ptr;
            }
            level += 1;
            if level + 1 == self.levels.len() && self.levels[level].len() == 1 {
                return self.levels[level].only_child().expect("one child");
            }
        }
    }
}

/// The used sectors of a synthetic region.
fn pattern() -> RegionBits {
    let mut bytes = [0xff; REGION_SECTORS as usize / 8];
    for hole in bytes.chunks_mut(40) {
        if let Some(hole) = hole.get_mut(32..) {
            hole.fill(0);
        }
    }
    RegionBits::decode(&bytes).expect("used sectors")
}

/// A pool with a volume, and the pool's own tree as entries.
async fn small(shape: Shape) -> (Opened, TreeId, BTreeMap<Key, Value>) {
    let mut spec = PoolSpec::new("tank", Vec::<Vec<Disk>>::new(), host());
    spec.vdevs = disks(shape)
        .await
        .into_iter()
        .map(|d| vec![d].into())
        .collect();
    spec.node_size = NodeSize::new(shape.node_size);
    let pool = Pool::open(create(spec).await.expect("created"), shape.options).await;
    let pool = pool.expect("open");
    let new = NewVolume {
        name: "v".into(),
        size: shape.records.max(1024) * SECTOR,
        block_size: 4096,
        record_size: 4096,
        sync: pool::format::Sync::Standard,
        compression: pool::format::Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    let mut buf = io::pool().alloc(4096).await;
    buf.fill(1);
    volume.write(Lba(0), buf).await.expect("written");
    drop(volume);
    pool.close().await.expect("closed");
    let opened = devices(shape).await;
    let root = opened.uberblock.root.expect("a tree");
    let bytes = opened.vdevs.read(&root).await.expect("a root");
    let root = TreeNode::decode(bytes[..root.physical_size as usize].to_vec());
    let root = root.expect("a node");
    assert!(root.is_leaf(), "a small tree");
    let entries = (0..root.count()).map(|n| (root.key(n), root.value(n).to_value()));
    let entries: BTreeMap<Key, Value> = entries.collect();
    let mut keys = entries.keys();
    let dataset = keys.find(|key| key.kind() == KIND_DATASET);
    let id = TreeId(dataset.expect("the volume").object().0);
    (opened, id, entries)
}

/// Writes the entries of the vdevs: bitmaps, their summaries, and what the pool has between them.
async fn put_maps(tool: &mut Tool<'_>, entries: &BTreeMap<Key, Value>, regions: Range<u32>) {
    let shape = tool.shape;
    let bits = pattern();
    let full = RegionBits::decode(&[0xff; REGION_SECTORS as usize / 8]).expect("used");
    let grid = RowGrid::new(1, 0, 0);
    let summaries = [&bits, &full].map(|bits| RegionSummary::of(bits, grid));
    for vdev in 0..shape.disks as u16 {
        let mut pages: BTreeMap<u32, SummaryPage> = BTreeMap::new();
        let mut bitmaps = BTreeMap::new();
        for (key, value) in entries {
            let Value::Inline(bytes) = value else {
                continue;
            };
            if key.object().0 == u64::from(vdev) && key.kind() == KIND_SPACE {
                bitmaps.insert(key.offset() as u32, bytes.clone());
            } else if key.object().0 == u64::from(vdev) && key.kind() == KIND_SUMMARY {
                let page = SummaryPage::decode(bytes).expect("sound");
                pages.insert(key.offset() as u32, page);
            }
        }
        for region in bitmaps.keys().copied().chain(OWN_REGIONS - 1..regions.end) {
            let (bytes, summary) = match region {
                _ if region >= OWN_REGIONS => (bits.encode().into(), Some(summaries[0])),
                _ if region == OWN_REGIONS - 1 => (full.encode().into(), Some(summaries[1])),
                _ => (bitmaps[&region].clone(), None),
            };
            tool.push(space_key(VdevId(vdev), region), Value::Inline(bytes))
                .await;
            if let Some(summary) = summary {
                let page = pages.entry(region / PAGE_REGIONS).or_default();
                page.0[(region % PAGE_REGIONS) as usize] = summary;
            }
        }
        let mut others = entries.clone();
        others.retain(|key, _| {
            key.object().0 == u64::from(vdev)
                && ![KIND_SPACE, KIND_SUMMARY].contains(&key.kind())
                && (shape.is_summarized || key.kind() != KIND_SUMMARIZED)
        });
        for (page, summaries) in pages.into_iter().filter(|_| shape.is_summarized) {
            let bytes = summaries.encode().expect("used sectors");
            let key = summary_key(VdevId(vdev), page);
            others.insert(key, Value::Inline(bytes.into()));
        }
        for (key, value) in others {
            tool.push(key, value).await;
        }
    }
}

/// Writes the synthetic maps and the volume's tree. Returns the devices of the pool, which has them.
async fn prepare(shape: Shape) -> Opened {
    let (opened, volume, mut entries) = small(shape).await;
    let uberblock = opened.uberblock;
    let birth = uberblock.epoch;
    let last = opened.vdevs.table()[0].size / REGION;
    drop(opened);
    // the nodes have about 1.2 KiB for each region
    let for_nodes = (last / 20_000 + 3) as u32;
    let regions = OWN_REGIONS..last as u32 - for_nodes;
    let raw = disks(shape).await;
    let mut tool = Tool {
        disks: &raw,
        shape,
        tree: volume,
        birth,
        next: vec![u64::from(OWN_REGIONS - 1) * REGION; shape.disks],
        turn: 0,
        bytes: 0,
        levels: Vec::new(),
    };
    // the volume's nodes are in a region of each vdev that is all used, its records in all regions by turns
    let all = shape.disks as u64 * u64::from(regions.len() as u32);
    for record in 0..shape.records {
        let place = record * all / shape.records;
        let region = u64::from(regions.start) + place / shape.disks as u64;
        let at = Address {
            vdev: VdevId((place % shape.disks as u64) as u16),
            offset: VdevOffset(region * REGION),
        };
        let zeroes = [0; SECTOR as usize];
        let plain = (Compression::Off, zeroes.len());
        let ptr = BlockPtr::to(at, &zeroes, plain, ChecksumKind::Xxh3, birth);
        let key = Key::new(VOLUME_OBJECT, KIND_RECORD, record);
        tool.push(key, Value::Block(ptr.into())).await;
    }
    let root = DatasetRoot {
        root: Some(tool.end().await),
        referenced: shape.records * SECTOR,
        logical: shape.records * SECTOR,
        allocated: shape.records * SECTOR + tool.bytes,
        sizes: None,
    };
    assert!(
        tool.next
            .iter()
            .all(|at| *at <= u64::from(OWN_REGIONS) * REGION)
    );
    for (key, value) in &mut entries {
        if key.kind() == KIND_ROOT && key.object().0 == volume.0 {
            *value = Value::Inline(root.encode());
        }
    }
    let mut tool = Tool {
        disks: &raw,
        shape,
        tree: POOL_TREE,
        birth,
        next: vec![u64::from(regions.end) * REGION; shape.disks],
        turn: 0,
        bytes: 0,
        levels: Vec::new(),
    };
    put_maps(&mut tool, &entries, regions.clone()).await;
    let behind = Key::new(ObjectId(shape.disks as u64), KIND_SPACE, 0);
    for (key, value) in entries.range(behind..) {
        tool.push(*key, value.clone()).await;
    }
    let root = tool.end().await;
    assert!(tool.next.iter().all(|at| *at < (last - 1) * REGION));
    drop(raw);
    let mut opened = devices(shape).await;
    opened.uberblock.root = Some(root);
    opened
}

/// Opens the pool with the tool's tree. Closing it writes the uberblock that has this tree.
async fn first_checkpoint(shape: Shape) -> Figures {
    drop(disks(shape).await);
    slow(shape, Duration::from_micros(1));
    let opened = prepare(shape).await;
    let before = reads_of(&opened.vdevs);
    let pool = Pool::open(opened, shape.options).await;
    let pool = pool.expect("open");
    let figures = Figures {
        first_reads: reads(&pool) - before - JOURNAL_READS * shape.disks as u64,
        ..Figures::default()
    };
    pool.checkpoint().await.expect("a checkpoint");
    pool.close().await.expect("closed");
    figures
}

async fn measure(shape: Shape) -> Figures {
    let mut figures = first_checkpoint(shape).await;
    slow(shape, Duration::from_millis(10));
    let start = io::time::now();
    let opened = devices(shape).await;
    figures.labels = io::time::now().since(start);
    let before = reads_of(&opened.vdevs);
    let pool = Pool::open(opened, shape.options).await.expect("open");
    figures.open = io::time::now().since(start);
    figures.open_reads = reads(&pool) - before - JOURNAL_READS * shape.disks as u64;
    figures.open_memory = pool.space_maps().bytes;

    let start = io::time::now();
    let volume = pool.volume("v").expect("the volume");
    for lba in 0..256 {
        let mut buf = io::pool().alloc(4096).await;
        buf.fill((lba % 251) as u8 + 1);
        volume.write(Lba(lba), buf).await.expect("written");
    }
    let _proof = volume.flush().await.expect("flushed");
    figures.write = io::time::now().since(start);
    drop(volume);

    let (start, before) = (io::time::now(), reads(&pool));
    pool.destroy_volume("v").await.expect("destroyed");
    while pool.is_freeing() {
        pool.checkpoint().await.expect("a checkpoint");
        figures.destroy_memory = figures.destroy_memory.max(pool.space_maps().bytes);
    }
    pool.checkpoint().await.expect("a checkpoint");
    figures.destroy = io::time::now().since(start);
    figures.destroy_reads = reads(&pool) - before;
    figures.destroy_memory = figures.destroy_memory.max(pool.space_maps().bytes);
    let used = pool.space().used;
    pool.close().await.expect("closed");

    let start = io::time::now();
    let pool = Pool::open(devices(shape).await, shape.options)
        .await
        .expect("open");
    figures.reopen = io::time::now().since(start);
    assert!(
        pool.space().used.abs_diff(used) < 4 << 20,
        "{used}: {:?}",
        pool.space()
    );
    // the tool's sectors have no owner; nothing else is wrong
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    assert!(
        found.problems[0].contains("bytes are used"),
        "{:?}",
        found.problems
    );
    figures.verify_memory = pool.space_maps().bytes;
    pool.close().await.expect("closed");
    figures
}

fn run(shape: Shape) -> Figures {
    let sim = Sim::new(1, SimConfig::default());
    sim.block_on(async move {
        let node = Node::new();
        let done = node.spawn(measure(shape)).await;
        done.expect("it ran to its end")
    })
}

/// 1 TiB. With `WIREPOOL_LARGE` in the environment, 100 TiB on ten disks with the default memory, which takes 6 GiB and minutes:
/// `WIREPOOL_LARGE=1 cargo nextest run -p wirepool-pool a_large_pool --no-capture`.
#[test]
fn a_large_pool_opens_with_few_reads_and_little_memory() {
    let is_large = std::env::var_os("WIREPOOL_LARGE").is_some();
    let mut shape = Shape {
        disks: 4,
        size: 256 << 30,
        node_size: 16 << 10,
        records: 3000,
        is_summarized: true,
        options: Options {
            space_bytes: 2 << 20,
            ..Options::default()
        },
    };
    if is_large {
        (shape.disks, shape.size, shape.records) = (10, 10 << 40, 130_000);
        shape.options = Options::default();
    }
    let figures = run(shape);
    println!("{figures:?}");
    // 32,000 bitmaps are in 2,200 leaves, which were all read
    let reads = if is_large { 3000 } else { 60 };
    assert!(figures.open_reads < reads, "{figures:?}");
    assert!(figures.open <= Duration::from_secs(10), "{figures:?}");
    let most = figures
        .open_memory
        .max(figures.destroy_memory)
        .max(figures.verify_memory);
    let limit = if is_large { 256 << 20 } else { 2560 << 10 };
    assert!(most < limit, "{figures:?}");
}

/// A pool of an earlier release: its bitmaps are read once.
#[test]
fn a_pool_without_summaries_gets_them_with_its_first_checkpoint() {
    let figures = run(Shape {
        disks: 2,
        size: 64 << 30,
        node_size: 16 << 10,
        records: 300,
        is_summarized: false,
        options: Options {
            space_bytes: 1 << 20,
            ..Options::default()
        },
    });
    println!("{figures:?}");
    assert!(
        figures.first_reads > 250 && figures.open_reads < 20,
        "{figures:?}"
    );
}
