//! Check of a pool after a power cut.
//!
//! **Owns** the check. **Called by** replays. **Invariants**: nothing is written to the disks; the owner opens the
//! pool and every block is compared, then the offline reader verifies everything.

use crate::known::Known;
use crate::stamp;
use anyhow::{Context, Result, bail, ensure};
use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use pool::format::Host;
use pool::inspect::{Findings, Image};
use pool::vdev::{OpenOptions, open, scan};
use pool::{Options, Pool};
use std::path::PathBuf;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Maximum number of damages in an error message.
const TOLD_MAX: usize = 5;

/// The expected state.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The volume, without the pool's name.
    pub volume: &'a str,
    /// Requested and promised writes of its blocks.
    pub known: &'a Known,
    /// Moment of the power cut.
    pub moment: u64,
    /// Promised snapshots.
    pub snapshots: &'a [String],
}

async fn disks(paths: &[PathBuf]) -> Result<Vec<Disk>> {
    let mut disks = Vec::with_capacity(paths.len());
    for path in paths {
        let options = DiskOptions {
            read_only: true,
            ..DiskOptions::default()
        };
        disks.push(Disk::open(path, options).await?);
    }
    Ok(disks)
}

/// Checks that the pool opens, and that each block and snapshot is there.
///
/// # Errors
/// Each deviation from the expected state.
pub async fn opens(paths: &[PathBuf], expected: Expected<'_>) -> Result<()> {
    let found = scan(disks(paths).await?).await.pools.pop();
    let found = found.context("no pool is found")?;
    let options = OpenOptions {
        read_only: true,
        force_host: true,
        ..OpenOptions::new(Host::new([1; 16], "elsewhere"))
    };
    let opened = open(found, options).await.context("its disks")?;
    let pool = Pool::open(opened, Options::default()).await;
    let pool = pool.context("it does not open")?;
    let volume = pool.volume(expected.volume);
    let volume = volume.context("the volume is not there")?;
    for block in 0..expected.known.blocks() {
        let at = Extent {
            start: Lba(block),
            blocks: 1,
        };
        let read = volume.read(at).await;
        let read = read.with_context(|| format!("block {block}"))?;
        let mut bytes = vec![0; BLOCK];
        read.copy_to(&mut bytes);
        let may = expected.known.range(block, expected.moment);
        let Some(write) = stamp::which(block, &bytes) else {
            bail!("block {block} is no write of it, where {may:?} may be");
        };
        ensure!(
            may.contains(&write),
            "block {block} has write {write}, not {may:?}"
        );
    }
    for name in expected.snapshots {
        let there = pool.snapshot(expected.volume, name).is_some();
        ensure!(there, "snapshot {name} was promised and is not there");
    }
    pool.close().await.context("it does not close")
}

/// Checks that the offline reader finds no damage.
///
/// # Errors
/// The damage that it finds.
pub async fn is_sound(paths: &[PathBuf]) -> Result<()> {
    let image = Image::open(disks(paths).await?).await?;
    let mut findings = Findings::default();
    image.check_disks(&mut findings);
    let contents = image
        .contents(image.uberblock(None)?, &mut findings)
        .await?;
    let journal = image.journal(&contents.uberblock).await;
    let found = image.verify(&contents, &journal, true, |_| {}).await;
    let mut damage = findings.damage;
    damage.extend(found.findings.damage);
    let told: Vec<String> = damage
        .iter()
        .take(TOLD_MAX)
        .map(|d| format!("{d:?}"))
        .collect();
    ensure!(damage.is_empty(), "damage: {}", told.join("; "));
    Ok(())
}
