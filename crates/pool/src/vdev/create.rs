//! Creation of a pool.
//!
//! **Owns** the sizes of a new pool's parts. **Called by** the pool. **Invariants**: a pool gets its uberblock only after
//! every disk has its label, durably. So a pool whose creation was interrupted has none.

use io::BufPool;
use io::disk::{Disk, DiskInfo, DiskKind};

use super::area;
use super::cache_label::check_unlabelled;
use super::error::SetupError;
use super::geometry;
use super::journal_rings::{preferred, takes_area};
use super::layout::{Layout, VdevSpec};
use super::leaf::Leaf;
use super::limits::{DISK_SIZE_MIN, JOURNAL_PART, JOURNAL_SIZE, SCRATCH_BYTES};
use super::member::{Changes, Member, MemberState};
use super::scan::newest_label;
use super::space_below::{SpaceBelow, reserve};
use super::top::TopVdev;
use super::{Opened, Shared, Vdevs};
use crate::format::{
    Birth, FEATURE_BLOCK_SIZES, FEATURE_FOLDED_CHECKSUMS, Features, Host, JournalLayout,
    JournalRings, Label, LabelBranch, LabelEpoch, LabelHistory, MemberGuid, NODE_SIZE_DEFAULT,
    NODE_SIZE_MAX, NODE_SIZE_MIN, NodeSize, PoolGuid, PoolState, UBERBLOCK_SIZE, Uberblock,
    VDEVS_MAX, VdevClass, VdevEntry, VdevGuid, VdevId, check_name, is_of_later_version,
};

/// Range of a new vdev's sector size unless one is requested, as a binary logarithm.
const ASHIFT_DEFAULT: std::ops::RangeInclusive<u8> = 12..=14;
/// Smallest sector, as a binary logarithm.
const ASHIFT_MIN: u8 = 9;
const ASHIFT_MAX: u8 = 16;
/// Size of a journal segment, bytes.
const SEGMENT_SIZE: u32 = 1 << 20;
/// Size of a segment of a journal of [`LARGE_JOURNAL`] or more, bytes.
const SEGMENT_SIZE_LARGE: u32 = 4 << 20;
const LARGE_JOURNAL: u64 = 64 << 20;

/// Parameters of a new pool.
pub struct PoolSpec {
    /// Its name: see [`check_name`].
    pub name: String,
    /// Its vdevs.
    pub vdevs: Vec<VdevSpec>,
    /// The host that creates it.
    pub host: Host,
    /// Sector size of all vdevs, as a binary logarithm; `None` for that of the disks, at least 4 KiB.
    pub ashift: Option<u8>,
    /// Most bytes of a node of the pool's trees; `None` for one that follows from the layout of its vdevs.
    pub node_size: Option<NodeSize>,
    /// Journal segments on each vdev; `None` for a number that follows from the vdevs' size.
    pub journal: Option<JournalLayout>,
    /// Use disks that belong to a pool, which destroys that pool.
    pub force: bool,
}

impl PoolSpec {
    /// Parameters with default values. A list of disks is a mirror.
    #[must_use]
    pub fn new(name: &str, vdevs: Vec<impl Into<VdevSpec>>, host: Host) -> Self {
        Self {
            name: name.to_owned(),
            vdevs: vdevs.into_iter().map(Into::into).collect(),
            host,
            ashift: None,
            node_size: None,
            journal: None,
            force: false,
        }
    }

    fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.vdevs.iter().flat_map(|vdev| &vdev.members)
    }

    async fn check(&self, scratch: &BufPool) -> Result<(), SetupError> {
        if check_name(&self.name).is_err() {
            let name = self.name.clone();
            return Err(SetupError::Name { name });
        }
        let got = self.vdevs.len();
        if got == 0 || got > VDEVS_MAX {
            return Err(SetupError::Shape { got });
        }
        self.vdevs.iter().try_for_each(VdevSpec::check)?;
        let is_normal = |vdev: &VdevSpec| vdev.class == VdevClass::Normal;
        if !self.vdevs.iter().any(is_normal) {
            return Err(SetupError::NoBlocks);
        }
        let most = self
            .ashift
            .map_or(UBERBLOCK_SIZE as u32, |a| 1 << a.clamp(ASHIFT_MIN, 12));
        check_disks(self.disks(), most)?;
        self.check_labels(scratch).await
    }

    async fn check_labels(&self, scratch: &BufPool) -> Result<(), SetupError> {
        for disk in self.disks().filter(|_| !self.force) {
            check_unused(disk, scratch).await?;
        }
        Ok(())
    }

    /// Sector size of all vdevs: one size, so that a block takes the same space on each of them.
    fn ashift(&self) -> u8 {
        let of_disk = |disk: &Disk| {
            let info = disk.info();
            let block = match info.kind {
                // The block size of a file system does not describe the device below.
                DiskKind::File => info.logical_block,
                DiskKind::Block => info.physical_block.max(info.logical_block),
            };
            (block.max(1).ilog2() as u8).clamp(*ASHIFT_DEFAULT.start(), *ASHIFT_DEFAULT.end())
        };
        let of_disks = self.disks().map(of_disk).max();
        let chosen = self.ashift.or(of_disks).unwrap_or(*ASHIFT_DEFAULT.start());
        chosen.clamp(ASHIFT_MIN, ASHIFT_MAX)
    }

    fn entries(&self) -> Vec<VdevEntry> {
        let ashift = self.ashift();
        let entry = |vdev: &VdevSpec| vdev.entry(ashift, true);
        self.vdevs.iter().map(entry).collect()
    }
}

impl VdevSpec {
    /// Refuses a number of members that the layout cannot have.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        let got = self.members.len();
        match self.class {
            VdevClass::Log if self.layout != Layout::Mirror => return Err(SetupError::LogLayout),
            VdevClass::Special if self.layout != Layout::Mirror => {
                return Err(SetupError::SpecialLayout);
            }
            _ => {}
        }
        match self.layout.kind(got).sizes().contains(&got) {
            true => Ok(()),
            false => Err(SetupError::Shape { got }),
        }
    }

    /// The entry of the new vdev in labels.
    pub(super) fn entry(&self, ashift: u8, has_journal: bool) -> VdevEntry {
        let sizes = self.members.iter().map(|disk| disk.info().size);
        VdevEntry {
            guid: VdevGuid(guid()),
            kind: self.layout.kind(self.members.len()),
            ashift,
            members: self.members.len() as u16,
            first_members: 0,
            expansion: None,
            has_journal,
            data_size: sizes.map(geometry::data_size).min().unwrap_or(0),
            is_removed: false,
            class: self.class,
        }
    }
}

impl VdevEntry {
    /// A new vdev of a pool with this layout of the journal: one for the journal has nothing else, and one for nodes and small records has
    /// an area for it unless that is a large part of it. Errors: [`SetupError::LogTooSmall`].
    pub(super) fn fitted(self, journal: JournalLayout) -> Result<Self, SetupError> {
        let (room, needed) = (self.data_size, journal.size());
        match self.class {
            VdevClass::Normal => Ok(self),
            VdevClass::Special => Ok(Self {
                has_journal: takes_area(journal, &self),
                ..self
            }),
            VdevClass::Log if needed > room => Err(SetupError::LogTooSmall { room, needed }),
            VdevClass::Log => Ok(Self {
                has_journal: true,
                data_size: needed,
                ..self
            }),
        }
    }
}

/// Refuses disks that cannot be members, or whose blocks exceed `most` bytes.
pub(super) fn check_disks<'a>(
    disks: impl Iterator<Item = &'a Disk>,
    most: u32,
) -> Result<(), SetupError> {
    let infos: Vec<&DiskInfo> = disks.map(Disk::info).collect();
    for (index, info) in infos.iter().enumerate() {
        let path = || info.path.clone();
        if let Some(same) = infos[..index].iter().find(|i| i.path == info.path) {
            let (first, second) = (same.path.clone(), path());
            return Err(SetupError::SameDisk { first, second });
        }
        if info.read_only {
            return Err(SetupError::ReadOnlyDisk { path: path() });
        }
        if info.logical_block > most {
            let block = info.logical_block;
            let path = path();
            return Err(SetupError::BlockSize { path, block, most });
        }
    }
    let smallest = infos.iter().min_by_key(|info| info.size);
    if let Some(info) = smallest.filter(|info| info.size < DISK_SIZE_MIN) {
        let (path, size) = (info.path.clone(), info.size);
        return Err(SetupError::TooSmall { path, size });
    }
    Ok(())
}

/// Refuses a disk that belongs to a pool, as a member, a spare or a cache device.
pub(super) async fn check_unused(disk: &Disk, scratch: &BufPool) -> Result<(), SetupError> {
    match label_of(disk, scratch).await? {
        Some(label) => Err(SetupError::InUse {
            path: disk.info().path.clone(),
            name: label.name,
        }),
        None => check_unlabelled(disk, scratch).await,
    }
}

/// The newest label on a disk; `None` if it has none. Errors: [`SetupError::LaterVersion`].
pub(super) async fn label_of(disk: &Disk, scratch: &BufPool) -> Result<Option<Label>, SetupError> {
    match newest_label(disk, scratch).await {
        Ok(label) => Ok(Some(label)),
        Err(defects) if defects.iter().any(is_of_later_version) => Err(SetupError::LaterVersion {
            path: disk.info().path.clone(),
        }),
        Err(_) => Ok(None),
    }
}

/// Returns a random identifier.
pub(super) fn guid() -> u64 {
    io::rng::u64().max(1)
}

fn journal_layout(entries: &[VdevEntry]) -> JournalLayout {
    let least = |class: VdevClass| {
        let of_class = entries.iter().filter(|entry| entry.class == class);
        of_class.map(|entry| entry.data_size).min()
    };
    let part = least(VdevClass::Normal).unwrap_or(0) / JOURNAL_PART;
    let most = least(VdevClass::Log).unwrap_or(u64::MAX);
    let size = part.clamp(*JOURNAL_SIZE.start(), *JOURNAL_SIZE.end());
    let size = size.min(most);
    let segment_size = match size {
        ..LARGE_JOURNAL => SEGMENT_SIZE,
        _ => SEGMENT_SIZE_LARGE,
    };
    JournalLayout {
        segment_size,
        segments: (size / u64::from(segment_size)) as u32,
    }
}

/// The size of nodes that follows from the layout: a node takes whole rows of a raidz, so that nodes are as large as the
/// largest row, if that is allowed. `docs/decisions/0157`.
fn node_size_of(tops: &[TopVdev]) -> NodeSize {
    let raidz = tops.iter().filter(|top| top.rows().is_some());
    let row = raidz.map(TopVdev::extent_unit).max().unwrap_or(0);
    let size = row.next_multiple_of(NODE_SIZE_MIN);
    NodeSize::new(size.clamp(NODE_SIZE_DEFAULT, NODE_SIZE_MAX)).expect("it is in the range")
}

/// Creates an empty pool, durably. It is open and active, and has one uberblock.
///
/// # Errors
/// Every reason to refuse, with nothing written, [`SetupError::FileSystemFull`] among them. [`SetupError::Io`] and
/// [`SetupError::Device`] if writing failed: then the pool cannot be used, and the previous contents of forced disks are
/// lost.
pub async fn create(spec: PoolSpec) -> Result<Opened, SetupError> {
    let scratch = BufPool::new(SCRATCH_BYTES);
    spec.check(&scratch).await?;
    let entries = spec.entries();
    let journal = spec.journal.unwrap_or_else(|| journal_layout(&entries));
    let fitted = entries.into_iter().map(|entry| entry.fitted(journal));
    let entries = fitted.collect::<Result<Vec<_>, _>>()?;
    for disk in spec.disks() {
        reserve(disk, disk.info().size, journal.size()).await?;
    }
    for disk in spec.disks() {
        let wiped = area::wipe_labels(disk, disk.info().size, &scratch).await;
        wiped.map_err(|error| SetupError::Io {
            path: disk.info().path.clone(),
            error,
        })?;
    }
    let (changes, below) = (Changes::default(), SpaceBelow::default());
    // an opening would require them, and write all labels again
    let mut features = Features::default();
    features.require(FEATURE_FOLDED_CHECKSUMS);
    features.require(FEATURE_BLOCK_SIZES);
    let shared = Shared {
        name: spec.name,
        state: PoolState::Active,
        host: spec.host,
        epoch: LabelEpoch(0),
        durable: LabelEpoch(0),
        features,
        rings: JournalRings::new(preferred((0..).map(VdevId).zip(entries.iter().copied()))),
        histories: vec![LabelHistory::new(LabelBranch(guid()))],
    };
    let mut tops = Vec::with_capacity(entries.len());
    for (index, (entry, vdev)) in entries.into_iter().zip(spec.vdevs).enumerate() {
        let leaf = |disk| Leaf::new(MemberGuid(guid()), disk);
        let member = |disk| Member::new(leaf(disk), MemberState::Online, Birth(0));
        let members = vdev.members.into_iter().map(member).collect();
        let id = VdevId(index as u16);
        tops.push(TopVdev::new(
            id,
            entry,
            journal,
            members,
            changes.clone(),
            below.clone(),
        ));
    }
    let pool = PoolGuid(guid());
    let node_size = spec.node_size.unwrap_or_else(|| node_size_of(&tops));
    let vdevs = Vdevs::new(pool, shared, node_size, journal, tops, changes, false);
    vdevs.relabel().await.map_err(SetupError::failed)?;
    let uberblock = Uberblock {
        pool,
        epoch: Birth(1),
        sequence: 1,
        time: io::time::wall_clock_ms() * 1_000_000,
        label_epoch: LabelEpoch(1),
        node_size,
        root: None,
        journal: vdevs.ring().start(),
    };
    let write = vdevs.write_uberblock(&uberblock).await;
    write.map_err(SetupError::failed)?;
    let _stable = vdevs.flush().await.map_err(SetupError::failed)?;
    let members = vdevs.status().into_iter().flat_map(|vdev| vdev.members);
    if members
        .map(|member| member.state)
        .any(|state| state != MemberState::Online)
    {
        return Err(SetupError::Device);
    }
    Ok(Opened {
        vdevs,
        uberblock,
        newest: uberblock.sequence,
        checkpoints: vec![uberblock],
        is_chosen: false,
        lacks_journal: false,
    })
}
