//! The offline reader as a judge: inspects the disks of a pool that is not open.
//!
//! **Owns** the steps of an inspection. **Called by** all scenarios with a pool but `members`, before they open it.
//! **Invariant**: it reads everything, and writes nothing.

use crate::model::Violation;
use io::disk::Disk;
use pool::Pool;
use pool::inspect::{Finding, Findings, Image};
use pool::vdev::scan;

/// The result of an inspection.
pub(crate) struct Inspected {
    /// All damage.
    pub(crate) damage: Vec<Finding>,
    /// Used bytes of the pool after replay of its journal.
    pub(crate) taken: u64,
}

/// Compares the used bytes of all blocks, freed or not, with those of the pool that was just opened.
pub(crate) fn compare(taken: u64, pool: &Pool) -> Result<(), Violation> {
    let (space, special) = (pool.space(), pool.special_class());
    let of_special = special.as_ref().map(|class| class.space);
    let of_special = of_special.map_or(0, |space| space.used + space.freeing);
    match space.used + space.freeing + of_special == taken {
        true => Ok(()),
        false => Err(Violation(format!(
            "the offline reader has {taken} bytes taken, the pool {space:?} and {special:?}"
        ))),
    }
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
