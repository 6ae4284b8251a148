//! Openings of a pool during a run.
//!
//! **Owns** the steps of an opening: the offline reader inspects the disks, then the pool is opened, with all members or
//! without the one that is away; the power may be cut meanwhile. **Called by** scenarios `pool`, `full` and `aimed`.
//! **Invariants** that it checks: the offline reader finds no damage and counts the same used bytes as the pool; no opening
//! returns to an older checkpoint than an earlier opening made durable.

use super::aimed::Aim;
use super::plan::{Fault, Plan};
use super::removals::revive;
use crate::classes::{Classes, caches, set_threshold};
use crate::model::Violation;
use crate::{offline, workers};
use io::disk::{self, Disk};
use io::rng::Prng;
use io::sim::{Node, SimDisk};
use io::time::sleep;
use pool::Pool;
use pool::format::Host;
use pool::inspect::{Finding, FindingKind};
use pool::vdev::{
    FoundPool, OpenOptions, Opened, PoolSpec, Scan, SetupError, VdevSpec, create, open, scan,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Approximately the most disk steps of an opening.
const OPENING_STEPS: u64 = 160;
/// Approximate disk steps in which an opening writes labels and makes the newest uberblock of one disk durable.
const SETTLING_STEPS: Range<u64> = 8..40;

/// Probability that the second vdev of a pool is special.
const SPECIALS: f64 = 0.6;

impl Plan {
    /// Makes the second vdev of some pools special.
    pub(super) fn choose_classes(&mut self, rng: &mut Prng) {
        let has_second = self.disks > self.members && self.parity == 0;
        self.has_special = has_second && self.crowd.is_none() && rng.chance(SPECIALS);
    }

    /// The classes that a scenario can have: none where it changes or breaks all vdevs by itself, and no changes where others replace members.
    pub(super) fn fitting(&self, drawn: Classes) -> Classes {
        let changes_vdevs = matches!(self.aim, Some(Aim::Removal | Aim::Expansion));
        match changes_vdevs || self.hot || self.lapses() || self.spares > 0 {
            true => drawn.without_vdevs(),
            false if self.crowd.is_some() => drawn.without_changes(),
            false => drawn,
        }
    }

    /// Creates all disks. Returns those of normal vdevs, and further ones that may join them.
    pub(super) fn create_disks(&self, node: Node) -> Vec<SimDisk> {
        self.classes.create_disks(node, &self.disk);
        let names = self.names().into_iter();
        let create = |name: String| node.create_disk(name, self.disk.clone());
        names.map(create).collect()
    }

    /// Begins an incarnation of a pool whose cache device is open: sets thresholds.
    pub(super) async fn begin_classes(&self, pool: &Pool, seed: u64) -> Result<(), Violation> {
        if self.has_special {
            set_threshold(pool, &mut Prng::new(seed ^ 0x5bec)).await?;
        }
        self.classes.without_cache().begin(pool, seed).await
    }

    /// For each opening that loses power: the disk steps after which it does.
    pub(super) fn cut_openings(&self, rng: &mut Prng) -> Vec<u64> {
        let cuts = match self.cuts_max {
            _ if rng.chance(0.5) => 0,
            most => 1 + rng.below(most),
        };
        let steps = match self.aim {
            Some(_) if rng.chance(0.7) => SETTLING_STEPS,
            _ => 0..OPENING_STEPS,
        };
        let step = |_| steps.start + rng.below(steps.end - steps.start);
        (0..cuts).map(step).collect()
    }

    /// Opens the pool and drops it. The power is cut after `steps` disk steps.
    pub(super) async fn open_cut(self, steps: u64) -> Result<(), Violation> {
        self.cut_opening.set(Some(steps));
        self.open().await.map(drop)
    }

    /// The disks of the pool; with `all`, all disks that may have become members.
    async fn disks(&self, all: bool) -> Vec<Disk> {
        let mut names = self.names();
        names.truncate(if all { names.len() } else { self.disks });
        let mut disks = Vec::new();
        for name in names {
            loop {
                match Disk::open(&name, disk::OpenOptions::default()).await {
                    Ok(disk) => break disks.push(disk),
                    // Requests of a killed process still hold the disk.
                    Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
                    Err(e) => panic!("a disk that is there opens: {e}"),
                }
            }
        }
        if all {
            disks.extend(self.classes.disks().await);
        }
        disks
    }

    /// Opens the pool; creates it if there is none.
    pub(super) async fn open(&self) -> Result<Pool, Violation> {
        self.open_at(None).await
    }

    /// Opens the pool, and its cache device if it has one.
    pub(super) async fn open_cached(&self) -> Result<Pool, Violation> {
        let pool = self.open().await?;
        if self.is_cached {
            caches::open(&pool).await;
        }
        Ok(pool)
    }

    /// Opens the pool, at an older uberblock if `rewind` has its sequence.
    pub(super) async fn open_at(&self, rewind: Option<u64>) -> Result<Pool, Violation> {
        let host = Host {
            id: [7; 16],
            name: "sim".into(),
        };
        let cut = self.cut_opening.take();
        if self.aim == Some(Aim::Removal) {
            revive(self.names());
        }
        let inspected = match cut {
            None => self.inspect().await?,
            // The next opening without a power cut inspects the disks.
            Some(_) => None,
        };
        let options = OpenOptions {
            rewind,
            witness: Some(Arc::new(self.last_labels.clone())),
            ..OpenOptions::new(host)
        };
        let opened = match self.away.is_one() {
            true => {
                let disks = self.disks(true).await;
                lose_power_after(cut);
                self.away.open(disks, options.clone()).await
            }
            false => None,
        };
        let opened = match opened {
            Some(opened) => Ok(opened),
            None => self.open_all(options, cut).await,
        };
        let opened = opened.map_err(|e| Violation(format!("the devices do not open: {e}")))?;
        let pool = Pool::open(opened, self.options).await;
        let pool = pool.map_err(|e| Violation(format!("the pool does not open: {e}")))?;
        workers::give(&pool, &self.options);
        let (sequence, reached) = (pool.sequence(), self.reached.get());
        if sequence < reached {
            return Err(Violation(format!(
                "the pool came back at checkpoint {sequence}, although {reached} was durable"
            )));
        }
        self.reached.set(sequence);
        // A batch that only the absent member has is no longer part of the pool.
        let is_whole = rewind.is_none() && !self.away.is_one();
        if let Some(taken) = inspected.filter(|_| is_whole) {
            offline::compare(taken, &pool)?;
        }
        Ok(pool)
    }

    /// Opens the pool with all disks; creates it if there is none. The power is cut `cut` disk steps after the disks were
    /// found.
    async fn open_all(&self, options: OpenOptions, cut: Option<u64>) -> Result<Opened, SetupError> {
        let Scan {
            mut pools,
            mut unread,
            ..
        } = scan(self.disks(true).await).await;
        let mut found = pools.pop();
        let problem = found.as_ref().and_then(|found| found.problem());
        if self.fault == Fault::Errors && matches!(problem, Some(SetupError::UberblocksLost { .. }))
        {
            // A member that fails at random did not return its ring, so the pool may be used or unfinished.
            drop((found.take(), std::mem::take(&mut unread)));
            found = self.heal_and_scan().await;
        }
        lose_power_after(cut);
        match found {
            Some(found) if !matches!(found.problem(), Some(SetupError::Unfinished { .. })) => {
                match open(found, options.clone()).await {
                    // A member that fails at random did not return any copy of the label.
                    Err(SetupError::MemberMissing { .. }) if self.fault == Fault::Errors => {
                        let found = self.heal_and_scan().await;
                        open(found.expect("a pool"), options).await
                    }
                    other => other,
                }
            }
            // The creation was cut short.
            other => {
                drop((other, unread));
                // A pool is never created on failing disks.
                self.heal();
                self.last_labels.clear();
                let mut disks = self.disks(false).await;
                let mut vdevs: Vec<VdevSpec> = Vec::new();
                while !disks.is_empty() {
                    let members = disks.drain(..self.members.min(disks.len())).collect();
                    vdevs.push(match self.has_special && !vdevs.is_empty() {
                        true => VdevSpec::special(members),
                        false => VdevSpec::new(self.layout(), members),
                    });
                }
                vdevs.extend(self.classes.vdevs().await);
                let mut spec = PoolSpec::new("tank", vdevs, options.host);
                spec.journal = Some(self.journal);
                spec.ashift = self.ashift;
                spec.force = true;
                let opened = create(spec).await?;
                let witness = Arc::new(self.last_labels.clone());
                let is_set = opened.vdevs.set_witness(witness).await;
                is_set.map_err(|_| SetupError::Device)?;
                Ok(opened)
            }
        }
    }

    /// Ends the faults of all disks. Returns the pool on them.
    async fn heal_and_scan(&self) -> Option<FoundPool> {
        self.heal();
        scan(self.disks(true).await).await.pools.pop()
    }

    /// The disks for the offline reader: without disks that were detached or never attached.
    async fn labelled(&self) -> Vec<Disk> {
        let disks = self.disks(true).await;
        if self.spares == 0 && !self.classes.has_vdevs() {
            return disks;
        }
        offline::labelled(disks).await
    }

    /// Judges the rows of a raidz after a scrub: each block is right on all members, and so is the parity of its rows.
    pub(super) async fn judge_rows(&self) -> Result<(), Violation> {
        let found = offline::inspect(self.labelled().await).await?;
        let found = found.ok_or_else(|| Violation("the offline reader: no uberblock".into()))?;
        let is_of_row = |f: &&Finding| matches!(f.kind, FindingKind::Node | FindingKind::Record);
        match found.damage.iter().find(is_of_row) {
            Some(finding) => Err(Violation(format!("a scrub left a wrong row: {finding}"))),
            None => Ok(()),
        }
    }

    /// Inspects the disks as the last incarnation left them. Returns the used bytes. Damage is a violation, except on a
    /// member that is made to fail; `None` if nothing can be said.
    async fn inspect(&self) -> Result<Option<u64>, Violation> {
        let faulty = matches!(self.fault, Fault::Rot | Fault::Errors) || self.lapses();
        let Some(found) = offline::inspect(self.labelled().await).await? else {
            return Ok(None);
        };
        // With random read errors, an unreadable block is not lost.
        let by_chance = matches!(self.fault, Fault::Errors);
        let mut damage = found.damage.iter();
        match damage.find(|finding| !faulty || finding.lost && !by_chance) {
            Some(finding) => Err(offline::wrong(finding)),
            // A failing member may drop out before the pool reports its used bytes.
            None => Ok((!faulty).then_some(found.taken)),
        }
    }
}

/// Cuts the power after this many disk steps, if any.
fn lose_power_after(steps: Option<u64>) {
    if let Some(steps) = steps {
        Node::current().power_cut_after(steps);
    }
}
