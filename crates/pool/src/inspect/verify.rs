//! Everything against everything: checksums on every side, who uses which sector, what snapshots hold.
//!
//! The rule of owners: a block belongs to the first snapshot, or else the volume, that holds it: the one before it did not
//! have it. So of each dataset the blocks born since the snapshot before it are its own, and each sector is marked by one
//! owner once. What is older must have been marked by the snapshots before. A snapshot's list of dead blocks must be what
//! it holds and its successor does not; sums of pointers tell without either being in memory.
//!
//! **Owns** that account. **Called by** `wirepool inspect verify` and simulations. **Invariant**: damage is told, never
//! returned as an error; what cannot be known because of other damage is not told as damage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::contents::{Contents, SeenDataset};
use super::disks::Image;
use super::found::{Finding, FindingKind, Findings};
use super::journal::SeenJournal;
use super::limits::READS_MAX;
use super::lists::Lists;
use super::replayed::Replayed;
use super::space::Sectors;
use super::sums::{Below, Memo, Sums};
use crate::format::{
    Birth, BlockPtr, DatasetClass, KIND_RECORD, Key, Membership, TreeId, VOLUME_OBJECT, VdevId,
};

/// Space of one dataset, bytes in whole sectors but for `referenced`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Its number.
    pub id: TreeId,
    /// Its name.
    pub name: String,
    /// Volume or snapshot.
    pub class: DatasetClass,
    /// Bytes of the records that it holds, as stored.
    pub referenced: u64,
    /// What it was the first to hold: all datasets' together is what trees use.
    pub used: u64,
    /// What destroying it, and nothing else, would free.
    pub unique: u64,
    /// What is on its list of dead blocks.
    pub dead: u64,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of blocks that were come by.
    pub done: u64,
    /// Bytes that are said to be used.
    pub total: u64,
}

/// What a verification found.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    /// Space by dataset.
    pub datasets: Vec<DatasetSpace>,
    /// Bytes of nodes of the pool's own tree.
    pub pool_tree: u64,
    /// Bytes of nodes of the lists of dead blocks.
    pub lists: u64,
    /// Bytes of blocks that only the journal holds.
    pub journal: u64,
    /// Bytes that the saved bitmaps say to be used.
    pub saved: u64,
    /// Bytes that are taken once the journal is replayed: used, or given up by the journal and not yet free.
    pub taken: u64,
    /// Bytes that nothing uses and that are not free.
    pub leaked: u64,
    /// Blocks that were come by.
    pub blocks: u64,
    /// Whether records were read, or only trees.
    pub read_records: bool,
    /// What is wrong.
    pub findings: Findings,
}

/// Whose tree is walked.
struct Who {
    name: String,
    record_blocks: u64,
    blocks: u64,
    /// What is not younger is others' that were walked before.
    since: Birth,
    /// What is not younger is the lineage's origin's.
    floor: Birth,
}

/// A node to come, by what its parent says.
struct Expected {
    ptr: BlockPtr,
    level: Option<u8>,
    keys: Range<Key>,
    old: bool,
}

struct Frame {
    expected: Expected,
    node: std::sync::Arc<crate::format::Node>,
    next: usize,
    below: Below,
}

/// What a walk came by: all of it, and of that what is old.
#[derive(Default, Clone, Copy)]
struct Walked {
    below: Below,
    old: Below,
}

/// A record to be read.
struct Check {
    ptr: BlockPtr,
    dataset: String,
    blocks: Option<Range<u64>>,
    /// Whether every disk that should have it must.
    durable: bool,
}

struct Verifier<'a, P> {
    image: &'a Rc<Image>,
    contents: &'a Contents,
    met: Sectors,
    memo: Memo,
    keep_memo: bool,
    checks: Vec<Check>,
    unread: u64,
    found: Inspected,
    progress: P,
    total: u64,
    done: u64,
}

impl Who {
    fn new(dataset: &SeenDataset, since: Birth, floor: Birth) -> Self {
        let properties = &dataset.dataset;
        let block = u64::from(properties.block_size);
        Self {
            name: dataset.name.clone(),
            record_blocks: u64::from(properties.record_size) / block,
            blocks: properties.size / block,
            since,
            floor,
        }
    }

    /// Logical blocks that keys of records stand for.
    fn blocks(&self, keys: &Range<Key>) -> Option<Range<u64>> {
        let block = |key: Key| {
            let is_record = key.object() == VOLUME_OBJECT && key.kind() == KIND_RECORD;
            is_record.then(|| key.offset().saturating_mul(self.record_blocks))
        };
        let start = block(keys.start).unwrap_or(0);
        let end = block(keys.end).unwrap_or(self.blocks).min(self.blocks);
        (start < end).then_some(start..end)
    }
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    fn add(&mut self, finding: Finding) {
        self.found.findings.add(finding);
    }

    /// Marks a block as somebody's own.
    fn own(&mut self, ptr: &BlockPtr, name: &str, blocks: Option<Range<u64>>) -> u64 {
        let mut told = |kind, text: String| {
            let mut finding = Finding::new(kind, text).at(ptr.address());
            finding.dataset = Some(name.to_owned());
            finding.blocks.clone_from(&blocks);
            self.found.findings.add(finding);
        };
        let space = match self.image.space_of(ptr) {
            Ok(space) => space,
            Err(defect) => {
                told(FindingKind::Node, defect.to_string());
                return 0;
            }
        };
        if !self.met.mark(self.image, ptr.address(), space) {
            let text = format!("{space} bytes, of which something else uses some");
            told(FindingKind::DoubleUse, text);
        }
        self.found.blocks += 1;
        self.done += space;
        (self.progress)(Progress {
            done: self.done,
            total: self.total,
        });
        space
    }

    /// What is old must be a predecessor's.
    fn shared(&mut self, ptr: &BlockPtr, who: &Who, blocks: Option<Range<u64>>) {
        if self.met.has_all(self.image, ptr) || self.unread > 0 {
            return;
        }
        let text = "it should be shared with the snapshot before, which does not hold it";
        let mut finding = Finding::new(FindingKind::DoubleUse, text).at(ptr.address());
        finding.dataset = Some(who.name.clone());
        finding.blocks = blocks;
        self.add(finding);
    }

    /// What one block comes to.
    fn weigh(&self, ptr: &BlockPtr, who: &Who, is_record: bool) -> Below {
        let space = self.image.space_of(ptr).unwrap_or(0);
        let all = Sums::of(ptr, space, is_record);
        let foreign = if ptr.birth <= who.floor {
            all
        } else {
            Sums::default()
        };
        Below { all, foreign }
    }

    /// What is known to hang below an old node, without reading it.
    fn remembered(&self, expected: &Expected, who: &Who) -> Option<Below> {
        let mut below = self.memo.get(&expected.ptr).filter(|_| expected.old)?;
        if expected.ptr.birth <= who.floor {
            // it was another lineage's own
            below.foreign = below.all;
        }
        Some(below)
    }

    async fn node(&mut self, expected: &Expected, who: &Who) -> Option<Frame> {
        let blocks = who.blocks(&expected.keys);
        let findings = &mut self.found.findings;
        let read = self
            .image
            .node(&expected.ptr, &who.name, blocks.clone(), findings);
        let node = read.await?;
        let differs = if node.birth() != expected.ptr.birth {
            "its birth is another"
        } else if node.as_bytes().len() != expected.ptr.logical_size as usize {
            "its size is another"
        } else if expected.level.is_some_and(|level| level != node.level()) {
            "its level is another"
        } else if expected.level.is_some() && node.first_key() != expected.keys.start {
            "its first key is another"
        } else if node.last_key() >= expected.keys.end {
            "its last key is the next node's"
        } else {
            return Some(Frame {
                expected: Expected {
                    keys: expected.keys.clone(),
                    ..*expected
                },
                node,
                next: 0,
                below: Below::default(),
            });
        };
        let text = format!("a sound node in a place that is not its own: {differs}");
        let mut finding = Finding::new(FindingKind::Node, text).at(expected.ptr.address());
        finding.dataset = Some(who.name.clone());
        finding.blocks = blocks;
        self.add(finding);
        None
    }

    /// Walks a dataset's tree. Nodes and records that are its own are marked, and the records read later.
    async fn walk(&mut self, root: Option<BlockPtr>, who: &Who) -> Walked {
        let mut walked = Walked::default();
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = root.map(|ptr| Expected {
            ptr,
            level: None,
            keys: Key::START..Key::END,
            old: ptr.birth <= who.since,
        });
        loop {
            if let Some(expected) = next.take() {
                let inside_old = frames.last().is_some_and(|f| f.expected.old);
                if expected.old && !inside_old {
                    self.shared(&expected.ptr, who, who.blocks(&expected.keys));
                }
                if let Some(below) = self.remembered(&expected, who) {
                    add(&mut frames, &mut walked, below, expected.old);
                    continue;
                }
                if !expected.old {
                    let blocks = who.blocks(&expected.keys);
                    self.own(&expected.ptr, &who.name, blocks);
                }
                match self.node(&expected, who).await {
                    Some(frame) => frames.push(frame),
                    None => {
                        self.unread += 1;
                        let mut below = self.weigh(&expected.ptr, who, false);
                        below.all += Sums::unread();
                        add(&mut frames, &mut walked, below, expected.old);
                    }
                }
                continue;
            }
            let Some(frame) = frames.last_mut() else {
                return walked;
            };
            let index = frame.next;
            if index == frame.node.count() {
                let Frame {
                    expected,
                    mut below,
                    ..
                } = frames.pop().expect("it was there");
                below += self.weigh(&expected.ptr, who, false);
                if self.keep_memo {
                    self.memo.put(&expected.ptr, below);
                }
                add(&mut frames, &mut walked, below, expected.old);
                continue;
            }
            frame.next += 1;
            if frame.node.is_leaf() {
                let (key, value) = (frame.node.key(index), frame.node.value(index).to_value());
                let inside_old = frame.expected.old;
                if let Some((below, old)) = self.record(key, value.block(), inside_old, who).await {
                    let frame = frames.last_mut().expect("its leaf");
                    frame.below += below;
                    if old && !inside_old {
                        walked.old += below;
                    }
                }
            } else {
                next = Some(child(frame, index, who));
            }
        }
    }

    /// An entry of a leaf: what it comes to, and whether it is old.
    async fn record(
        &mut self,
        key: Key,
        ptr: Option<&BlockPtr>,
        inside_old: bool,
        who: &Who,
    ) -> Option<(Below, bool)> {
        let blocks = who.blocks(&(key..key.next()));
        let Some(ptr) = ptr else {
            let mut finding = Finding::new(FindingKind::Record, "a value that is no record");
            finding.dataset = Some(who.name.clone());
            self.add(finding);
            return None;
        };
        let old = inside_old || ptr.birth <= who.since;
        if old && !inside_old {
            self.shared(ptr, who, blocks);
        } else if !old && self.own(ptr, &who.name, blocks.clone()) > 0 {
            let check = Check {
                ptr: *ptr,
                dataset: who.name.clone(),
                blocks,
                durable: true,
            };
            self.check(check).await;
        }
        Some((self.weigh(ptr, who, true), old))
    }

    /// Has a record read, together with others.
    async fn check(&mut self, check: Check) {
        if !self.found.read_records {
            return;
        }
        self.checks.push(check);
        if self.checks.len() >= READS_MAX {
            self.finish_checks().await;
        }
    }

    async fn finish_checks(&mut self) {
        let start = |check: Check| {
            let image = self.image.clone();
            io::spawn(async move {
                let copied = image.check(&check.ptr).await;
                (check, copied)
            })
        };
        let running: Vec<_> = std::mem::take(&mut self.checks)
            .into_iter()
            .map(start)
            .collect();
        for task in running {
            let Some((check, copied)) = task.await else {
                continue;
            };
            let told = |text: String| {
                let mut finding = Finding::new(FindingKind::Record, text).at(check.ptr.address());
                finding.dataset = Some(check.dataset.clone());
                finding.blocks.clone_from(&check.blocks);
                finding
            };
            match copied {
                Err(defect) => self.add(told(defect.to_string())),
                Ok((false, lacking)) => {
                    let why = lacking.first().map(|(_, flaw)| flaw.to_string());
                    let why = why.unwrap_or_else(|| "no disk that should have it is there".into());
                    self.add(told(format!("{why}, on every disk")));
                }
                Ok((true, lacking)) if !check.durable => {
                    for (disk, _) in lacking {
                        let (disk, at) = (disk.display(), check.ptr.address());
                        let note = format!(
                            "{disk} lacks the block at {at} of the journal's end: a power cut may leave that"
                        );
                        self.found.findings.note(note);
                    }
                }
                Ok((true, lacking)) => {
                    for (disk, flaw) in lacking {
                        self.add(told(flaw.to_string()).only_on(disk));
                    }
                }
            }
        }
    }

    /// A volume and its snapshots.
    async fn lineage(&mut self, volume: &SeenDataset, lists: &Lists) {
        let floor = self.contents.floor(volume);
        let mut since = floor;
        let mut before: Option<(TreeId, String, Walked)> = None;
        let contents = self.contents;
        let chain = contents.snapshots(volume.id).into_iter().chain([volume]);
        for dataset in chain {
            let who = Who::new(dataset, since, floor);
            let walked = self.walk(dataset.root.root, &who).await;
            let all = walked.below.all;
            if all.unread == 0 && all.records != dataset.root.referenced {
                let (said, is) = (dataset.root.referenced, all.records);
                let text = format!("it is said to hold {said} bytes of records and holds {is}");
                let mut finding = Finding::new(FindingKind::Referenced, text);
                finding.dataset = Some(dataset.name.clone());
                self.add(finding);
            }
            if let Some((id, name, older)) = &before {
                let dead = older.below.own() - walked.old.own();
                let list = lists.lists.get(id).copied().unwrap_or_default();
                let known = dead.unread == 0 && lists.whole;
                if known && !dead.are(&list.sums) {
                    let text = format!(
                        "{} blocks of {} bytes are on its list of dead blocks; what it holds and {} does not are {} of {}",
                        list.sums.blocks, list.sums.space, dataset.name, dead.blocks, dead.space
                    );
                    let mut finding = Finding::new(FindingKind::DeadList, text);
                    finding.dataset = Some(name.clone());
                    self.add(finding);
                }
            }
            let own = walked.below.all - walked.old.all;
            let list = lists.lists.get(&dataset.id).copied().unwrap_or_default();
            let is_volume = dataset.dataset.class == DatasetClass::Volume;
            self.found.datasets.push(DatasetSpace {
                id: dataset.id,
                name: dataset.name.clone(),
                class: dataset.dataset.class,
                referenced: all.records,
                used: own.space,
                unique: if is_volume { own.space } else { list.unique },
                dead: list.sums.space,
            });
            since = since.max(dataset.dataset.birth);
            before = Some((dataset.id, dataset.name.clone(), walked));
        }
    }

    /// What is used against what is said to be used.
    fn compare(&mut self, replayed: &Replayed, is_newest: bool) {
        let image = self.image;
        let mut pool = Sectors::default();
        for ptr in &self.contents.nodes {
            let Ok(space) = image.space_of(ptr) else {
                continue;
            };
            let fresh = pool.mark(image, ptr.address(), space);
            if !fresh || self.met.has_any(image, ptr.address(), space) {
                let text = "a node of the pool's own tree, of which something else uses some";
                let finding = Finding::new(FindingKind::DoubleUse, text);
                self.add(finding.at(ptr.address()));
            }
            if self.contents.saved.has_any(image, ptr.address(), space) {
                let text = "a saved bitmap claims a node of the pool's own tree";
                self.add(Finding::new(FindingKind::DoubleUse, text).at(ptr.address()));
            }
        }
        let (mut journal, mut all) = (Sectors::default(), Sectors::default());
        for put in replayed.held() {
            let at = put.ptr.address();
            let space = match image.space_of(&put.ptr) {
                Ok(space) => space,
                Err(defect) => {
                    self.add(Finding::new(FindingKind::Journal, defect.to_string()).at(at));
                    continue;
                }
            };
            let fresh = journal.mark(image, at, space);
            all.mark(image, at, space);
            if !fresh || self.met.has_any(image, at, space) || pool.has_any(image, at, space) {
                let text = "a block that the journal put, of which something else uses some";
                let mut finding = Finding::new(FindingKind::DoubleUse, text).at(at);
                finding.dataset = Some(self.name_of(put.tree));
                self.add(finding);
            }
        }
        for ptr in &replayed.given_up {
            if let Ok(space) = image.space_of(ptr) {
                all.mark(image, ptr.address(), space);
            }
        }
        let saved = &self.contents.saved;
        let beside: u64 = all.without(image, &[saved]).iter().map(|run| run.1).sum();
        self.found.pool_tree = pool.bytes(image);
        self.found.journal = journal.bytes(image);
        self.found.saved = saved.bytes(image);
        self.found.taken = self.found.saved + beside + self.found.pool_tree;
        for (at, bytes) in self.met.without(image, &[saved]) {
            let text = format!("{bytes} bytes are used and said to be free");
            self.add(Finding::new(FindingKind::NotMarked, text).at(at));
        }
        let leaks = saved.without(image, &[&self.met, &all, &pool]);
        if !leaks.is_empty() && (self.unread > 0 || !self.contents.whole || !is_newest) {
            let why = if is_newest {
                "nodes that could not be read"
            } else {
                "a journal that is not this uberblock's any more"
            };
            let bytes: u64 = leaks.iter().map(|run| run.1).sum();
            let note =
                format!("{bytes} bytes are used by nothing that was met: {why} may hold them");
            self.found.findings.note(note);
            return;
        }
        for (at, bytes) in leaks {
            self.found.leaked += bytes;
            let text = format!("{bytes} bytes are said to be used, and nothing uses them");
            self.add(Finding::new(FindingKind::Leak, text).at(at));
        }
    }

    fn name_of(&self, tree: TreeId) -> String {
        let known = self.contents.datasets.get(&tree);
        known.map_or_else(|| format!("dataset {}", tree.0), |d| d.name.clone())
    }
}

/// Child `index` of a frame's node.
fn child(frame: &Frame, index: usize, who: &Who) -> Expected {
    let node = &frame.node;
    let ptr = node.child(index);
    let end = if index + 1 < node.count() {
        node.key(index + 1)
    } else {
        frame.expected.keys.end
    };
    Expected {
        ptr,
        level: Some(node.level() - 1),
        keys: node.key(index)..end,
        old: frame.expected.old || ptr.birth <= who.since,
    }
}

/// A subtree ended: it belongs to the node above, and to what is old if it begins there.
fn add(frames: &mut [Frame], walked: &mut Walked, below: Below, old: bool) {
    let inside_old = frames.last().is_some_and(|f| f.expected.old);
    if old && !inside_old {
        walked.old += below;
    }
    match frames.last_mut() {
        Some(frame) => frame.below += below,
        None => walked.below += below,
    }
}

impl Image {
    /// Compares everything with everything, as of an uberblock and the journal that follows it. Records are read from
    /// every disk that should have them, unless only space is asked for. `progress` is called for each block.
    pub async fn verify(
        self: &Rc<Self>,
        contents: &Contents,
        journal: &SeenJournal,
        read_records: bool,
        progress: impl FnMut(Progress),
    ) -> Inspected {
        let newest = self.uberblocks.first().map(|u| u.sequence);
        let is_newest = newest == Some(contents.uberblock.sequence);
        let mut verifier = Verifier {
            image: self,
            contents,
            met: Sectors::default(),
            memo: Memo::default(),
            keep_memo: contents.datasets.values().any(|d| d.dataset.of.is_some()),
            checks: Vec::new(),
            unread: 0,
            found: Inspected {
                read_records,
                ..Inspected::default()
            },
            progress,
            total: contents.saved.bytes(self),
            done: 0,
        };
        let replayed = if is_newest {
            journal.check(&mut verifier.found.findings);
            Replayed::read(self, journal).await
        } else {
            Replayed::default()
        };
        let mut since = BTreeMap::new();
        for volume in contents.datasets.values() {
            let mut before = contents.floor(volume);
            for snapshot in contents.snapshots(volume.id) {
                since.insert(snapshot.id, before);
                before = before.max(snapshot.dataset.birth);
            }
        }
        let findings = &mut verifier.found.findings;
        let lists = Lists::read(self, contents.dead, &since, findings).await;
        for ptr in &lists.nodes {
            verifier.found.lists += verifier.own(ptr, "the lists of dead blocks", None);
        }
        if !lists.whole {
            verifier.unread += 1;
        }
        for volume in contents.datasets.values() {
            if volume.dataset.class == DatasetClass::Volume {
                verifier.lineage(volume, &lists).await;
            }
        }
        verifier.compare(&replayed, is_newest);
        for put in replayed.held() {
            let dataset = contents.datasets.get(&put.tree);
            let who = dataset.map(|d| Who::new(d, Birth(0), Birth(0)));
            let blocks = who.and_then(|who| who.blocks(&(put.key..put.key.next())));
            let check = Check {
                ptr: put.ptr,
                dataset: verifier.name_of(put.tree),
                blocks,
                durable: put.durable,
            };
            verifier.check(check).await;
        }
        verifier.finish_checks().await;
        verifier.found
    }

    /// What is wrong with labels and uberblocks, and which disks are missing.
    pub fn check_disks(&self, findings: &mut Findings) {
        for (index, vdev) in self.vdevs.iter().enumerate() {
            if vdev.sides.is_empty() {
                let text = format!("vdev {index}: none of its disks is there");
                findings.add(Finding::new(FindingKind::Missing, text));
            }
            for side in &vdev.sides {
                let text = match (side.membership, side.disk) {
                    (Membership::In, None) => format!("disk {:016x} is not there", side.guid.0),
                    (Membership::In, Some(disk)) if !vdev.fits(&self.seen[disk]) => {
                        format!("{} is too short", self.path(disk).display())
                    }
                    (Membership::In, Some(disk)) => {
                        self.seen[disk].check(self, findings);
                        continue;
                    }
                    (Membership::Stale | Membership::Offline, _) => {
                        findings.note(format!(
                            "vdev {index}: disk {:016x} missed writes and is not looked at",
                            side.guid.0
                        ));
                        continue;
                    }
                };
                let mut finding =
                    Finding::new(FindingKind::Missing, format!("vdev {index}: {text}"));
                finding.lost = self.sides_in(VdevId(index as u16)).next().is_none();
                findings.add(finding);
            }
        }
        for disk in self.seen.iter().filter(|disk| disk.label().is_none()) {
            let text = "no copy of its label can be read: it is not known which disk it is";
            let mut finding = Finding::new(FindingKind::Label, text);
            finding.disk = Some(disk.path.clone());
            findings.add(finding);
        }
    }
}
