//! The offline reader as a judge: inspects the disks of a pool that is not open.
//!
//! **Owns** the steps of an inspection. **Called by** the scenarios of volumes and of filesystems, before they open a pool.
//! **Invariant**: it reads everything, and writes nothing.

use crate::model::Violation;
use io::disk::Disk;
use pool::inspect::{Finding, Findings, Image};
use pool::vdev::scan;

/// The result of an inspection.
pub(crate) struct Inspected {
    /// All damage.
    pub(crate) damage: Vec<Finding>,
    /// Used bytes of the pool after replay of its journal.
    pub(crate) taken: u64,
}

/// A violation for damage that the offline reader found.
pub(crate) fn wrong(e: &dyn std::fmt::Display) -> Violation {
    Violation(format!("the offline reader: {e}"))
}

/// The disks with a label, not the disks that were detached, replaced or never attached.
pub(crate) async fn labelled(disks: Vec<Disk>) -> Vec<Disk> {
    let mut labelled = Vec::new();
    for disk in disks {
        let found = scan(vec![disk.clone()]).await;
        if !found.pools.is_empty() {
            labelled.push(disk);
        }
    }
    labelled
}

/// Inspects a pool. `None` if its disks have no uberblock.
pub(crate) async fn inspect(disks: Vec<Disk>) -> Result<Option<Inspected>, Violation> {
    let image = match Image::open(disks).await {
        Ok(image) if !image.uberblocks.is_empty() => image,
        _ => return Ok(None),
    };
    let mut findings = Findings::default();
    image.check_disks(&mut findings);
    let newest = image.uberblock(None).map_err(|e| wrong(&e))?;
    let contents = image.contents(newest, &mut findings).await;
    let contents = contents.map_err(|e| wrong(&e))?;
    let journal = image.journal(&newest).await;
    let found = image.verify(&contents, &journal, true, |_| ()).await;
    let mut damage = findings.damage;
    damage.extend(found.findings.damage);
    Ok(Some(Inspected {
        damage,
        taken: found.taken,
    }))
}
