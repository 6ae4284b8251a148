//! Trim: tells the disks which space is free.
//!
//! **Owns** the order of a trim: region by region through all free space, in parts between which hours may pass; and
//! with autotrim, freed space from time to time. **Called by** [`Pool`]'s users and the owner's tick. **Invariants**:
//! space that is being trimmed is not allocated before the disks have answered, even if the caller no longer waits;
//! blocks of the checkpoints before the newest are spared as [`crate::space::KEPT`] says. `docs/decisions/0112`.

use std::rc::Rc;

use crate::format::{PoolProperty, VdevId, encode_on, property_key};
use crate::owner::{Owner, POLL, Pool, State};
use crate::space::{KEPT, Which};
use crate::{Error, Result};

/// Regions whose freed space is trimmed in one tick.
const REGIONS_MAX: usize = 64;
/// Bytes of an encoded [`TrimPosition`].
const POSITION_SIZE: usize = 6;

/// The position of a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimPosition {
    vdev: VdevId,
    region: u32,
}

impl TrimPosition {
    /// Encodes the position, for the caller to keep. The encoding is no part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&self.vdev.0.to_le_bytes()[..], &self.region.to_le_bytes()].concat()
    }

    /// Decodes a position. None if the bytes are not an encoded position.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; POSITION_SIZE] = bytes.try_into().ok()?;
        let (vdev, region) = bytes.split_first_chunk()?;
        Some(Self {
            vdev: VdevId(u16::from_le_bytes(*vdev)),
            region: u32::from_le_bytes(region.try_into().ok()?),
        })
    }
}

/// The result of a part of a trim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Regions that were visited, of [`Pool::regions`].
    pub regions: u64,
    /// Trimmed bytes.
    pub bytes: u64,
}

impl State {
    /// The region at a position, or the first one behind it.
    fn reach(&self, at: TrimPosition) -> Option<TrimPosition> {
        let regions = self.allocator.space().regions(at.vdev)?;
        match at.region < regions {
            true => Some(at),
            false => self.reach(TrimPosition {
                vdev: VdevId(at.vdev.0 + 1),
                region: 0,
            }),
        }
    }
}

impl Owner {
    /// Trims free space of a region. Returns the bytes.
    async fn trim_region(self: Rc<Self>, vdev: VdevId, region: u32, which: Which) -> u64 {
        let loaded = self.load_regions(&[(vdev, region)]).await;
        let begun = self
            .state
            .borrow_mut()
            .allocator
            .begin_trim(vdev, region, which);
        drop(loaded);
        let Some(trimming) = begun else { return 0 };
        for (at, len) in &trimming.runs {
            self.shared.vdevs.trim(*at, *len).await;
        }
        let bytes = trimming.bytes();
        let mut state = self.state.borrow_mut();
        state.allocator.end_trim(trimming);
        state.supply_budget();
        bytes
    }

    /// Trims freed space in the background, if autotrim is on.
    pub(in crate::owner) fn trim_freed(self: &Rc<Self>) {
        if self.shared.has_failed() || !self.state.borrow_mut().allocator.begin_trimming() {
            return;
        }
        let this = self.clone();
        drop(io::spawn(async move {
            for _ in 0..REGIONS_MAX {
                let due = this.state.borrow().allocator.space().due();
                let Some((vdev, region)) = due else { break };
                this.clone().trim_region(vdev, region, Which::Freed).await;
            }
            this.state.borrow_mut().allocator.end_trimming();
        }));
    }
}

impl Pool {
    /// The number of regions of all vdevs. A trim visits each.
    #[must_use]
    pub fn regions(&self) -> u64 {
        let state = self.owner.state.borrow();
        let vdevs = (0..).map_while(|n| state.allocator.space().regions(VdevId(n)));
        vdevs.map(u64::from).sum()
    }

    /// Begins a trim of all free space. It writes checkpoints first, so that no checkpoint that the pool may be
    /// rewound to needs space that was freed earlier.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::ReadOnly`].
    pub async fn begin_trim(&self) -> Result<TrimPosition> {
        for _ in 0..KEPT {
            self.checkpoint().await?;
        }
        let (vdev, region) = (VdevId(0), 0);
        Ok(TrimPosition { vdev, region })
    }

    /// Trims the next region. Returns the result, and the next position unless it was the last region.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Device`] once the pool has failed. A disk that cannot be trimmed is no error.
    pub async fn trim_part(&self, at: TrimPosition) -> Result<(Trimmed, Option<TrimPosition>)> {
        if self.vdevs().is_read_only() {
            return Err(Error::ReadOnly);
        }
        if self.owner.shared.has_failed() {
            return Err(Error::Device);
        }
        let Some(at) = self.owner.state.borrow().reach(at) else {
            return Ok((Trimmed::default(), None));
        };
        let trim = self
            .owner
            .clone()
            .trim_region(at.vdev, at.region, Which::All);
        // the trim runs to its end even if the caller is dropped
        let bytes = io::spawn(trim).await.ok_or(Error::Device)?;
        let region = at.region + 1;
        let next = self
            .owner
            .state
            .borrow()
            .reach(TrimPosition { region, ..at });
        Ok((Trimmed { regions: 1, bytes }, next))
    }

    /// Turns autotrim off, and waits until no trim is in flight.
    pub(in crate::owner) async fn end_trims(&self) {
        self.owner.state.borrow_mut().allocator.set_autotrim(false);
        while self.owner.state.borrow().allocator.is_trimming() {
            io::time::sleep(POLL).await;
        }
    }

    /// Whether a property of the pool is on.
    #[must_use]
    pub fn is_on(&self, property: PoolProperty) -> bool {
        self.owner.state.borrow().pool_tree.is_on(property)
    }

    /// Sets a property on or off. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn set_property(&self, property: PoolProperty, on: bool) -> Result<()> {
        let set = |state: &mut State| {
            let value = on.then(encode_on);
            let ticket = state.change(Vec::new(), vec![(property_key(property), value)])?;
            let autotrim = state.pool_tree.is_on(PoolProperty::Autotrim);
            state.allocator.set_autotrim(autotrim);
            Ok(((), ticket))
        };
        self.owner.change_durably(set).await
    }
}
