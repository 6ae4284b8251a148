//! Free space given back to the disks.
//!
//! **Owns** its course: region by region through all that is free, in parts that may be hours apart; and from time to time
//! what was freed, if the pool is set to. **Called by** [`Pool`]'s users and the owner's clock. **Invariants**: what is being
//! trimmed is given to nobody before the disks have answered, also if nobody waits for that any more; what a checkpoint
//! before the newest holds is spared as [`crate::space::KEPT`] says.

use std::rc::Rc;
use std::time::Duration;

use super::{Owner, Pool, State};
use crate::format::{PoolProperty, VdevId, encode_on, property_key};
use crate::space::{KEPT, Which};
use crate::{Error, Result};

/// Regions of which what was freed is trimmed at one tick of the clock.
const REGIONS_MAX: usize = 64;
/// How often is looked whether a trim has ended.
const POLL: Duration = Duration::from_millis(1);
/// Bytes of an encoded [`TrimPosition`].
const POSITION_SIZE: usize = 6;

/// Where trimming goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimPosition {
    vdev: VdevId,
    region: u32,
}

impl TrimPosition {
    /// Bytes to keep it as; they are no part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&self.vdev.0.to_le_bytes()[..], &self.region.to_le_bytes()].concat()
    }

    /// What was encoded; none if these bytes are something else.
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

/// What a part of a trim did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Regions that it came by, of as many as there are.
    pub regions: u64,
    /// Bytes that were trimmed.
    pub bytes: u64,
}

impl State {
    /// The region that a position names, or the first one behind it.
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
    /// Trims what may be trimmed of a region. Returns the bytes.
    async fn trim_region(self: Rc<Self>, vdev: VdevId, region: u32, which: Which) -> u64 {
        let begun = self
            .state
            .borrow_mut()
            .allocator
            .begin_trim(vdev, region, which);
        let Some(trimming) = begun else { return 0 };
        for (at, len) in &trimming.runs {
            self.shared.vdevs.trim(*at, *len).await;
        }
        let bytes = trimming.bytes();
        let mut state = self.state.borrow_mut();
        state.allocator.end_trim(trimming);
        state.tell_room();
        bytes
    }

    /// The time has come to trim what was freed, if the pool is set to.
    pub(super) fn trim_freed(self: &Rc<Self>) {
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
    /// How many regions the pool's vdevs have: a trim comes by each.
    #[must_use]
    pub fn regions(&self) -> u64 {
        let state = self.owner.state.borrow();
        let vdevs = (0..).map_while(|n| state.allocator.space().regions(VdevId(n)));
        vdevs.map(u64::from).sum()
    }

    /// Begins to trim all that is free, with checkpoints: so that what was freed before is not needed by those to which the
    /// pool may go back.
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

    /// Trims the next region. What that came to, and where to go on unless it was the last.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Device`] once the pool has failed. A disk that cannot be trimmed is none.
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
        // to its end, also if nobody waits for it
        let bytes = io::spawn(trim).await.ok_or(Error::Device)?;
        let region = at.region + 1;
        let next = self
            .owner
            .state
            .borrow()
            .reach(TrimPosition { region, ..at });
        Ok((Trimmed { regions: 1, bytes }, next))
    }

    /// What was freed is trimmed no more, and nothing is on its way to the disks.
    pub(super) async fn end_trims(&self) {
        self.owner.state.borrow_mut().allocator.set_autotrim(false);
        while self.owner.state.borrow().allocator.is_trimming() {
            io::time::sleep(POLL).await;
        }
    }

    /// Whether something is on.
    #[must_use]
    pub fn is_on(&self, property: PoolProperty) -> bool {
        self.owner.state.borrow().pool_tree.is_on(property)
    }

    /// Sets something on or off; durable when this returns.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::JournalFull`] until the checkpoint that is due now.
    pub async fn set_property(&self, property: PoolProperty, on: bool) -> Result<()> {
        let ticket = {
            let mut state = self.owner.state.borrow_mut();
            let value = on.then(encode_on);
            let ticket = state.change(Vec::new(), vec![(property_key(property), value)])?;
            let autotrim = state.pool_tree.is_on(PoolProperty::Autotrim);
            state.allocator.set_autotrim(autotrim);
            ticket
        };
        self.owner.durable(ticket).await
    }
}
