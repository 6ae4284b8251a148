//! Opening of configured pools, and recovery of a pool that does not open.
//!
//! **Owns** the trial of a pool's checkpoints, and the advice that follows from it. **Called by** import and by the
//! opening of configured pools. **Invariants**: a trial writes nothing; advice names the choice with the smallest
//! loss.

use super::notes::Notes;
use super::open::{choose, find, open_devices};
use super::search::{Labelled, paths_of};
use super::witness::EpochFile;
use crate::config::PoolConfig;
use crate::server::Server;
use pool::vdev::{self, FoundMember, FoundPool, OpenOptions, Opened, Presence, SetupError};
use pool::{Choice, Pool};
use std::path::PathBuf;

/// Maximum number of checkpoints that are tried.
pub(super) const CHECKPOINTS_MAX: usize = 32;

/// Tries the checkpoints of a pool. The devices are open read-only, at the requested checkpoint or the newest.
/// Errors: why none can be tried.
pub(super) async fn survey(
    found: FoundPool,
    mut options: OpenOptions,
) -> Result<(Opened, Vec<Choice>), SetupError> {
    options.read_only = true;
    if options.rewind.is_none() && found.uberblocks.is_empty() {
        // members that missed writes may have some
        options.rewind = found.checkpoints().first().map(|u| u.sequence);
    }
    let opened = vdev::open(found, options).await?;
    let choices = Pool::choices(&opened, CHECKPOINTS_MAX).await;
    Ok((opened, choices))
}

/// The recovery with the smallest loss; none if the newest checkpoint opens without loss.
pub(super) fn advice(name: &str, choices: &[Choice]) -> Option<String> {
    let Some(best) = choices.iter().find(|c| c.error.is_none()) else {
        return Some(
            "no checkpoint on these disks can be read: attach the members that are missing, or restore the pool from a \
             backup; `wirepool inspect verify` names the damaged blocks"
                .into(),
        );
    };
    if best.loses_nothing() {
        return None;
    }
    let sequence = best.uberblock.sequence;
    let loss = match best.lost_checkpoints {
        0 => format!(
            "with {} batches of its journal, and loses the {} durable batches from the damaged one on",
            best.batches, best.lost_batches
        ),
        1 => "and loses later writes".into(),
        newer => format!("and loses later writes, including {newer} newer checkpoints"),
    };
    Some(format!(
        "`wirepool pool import {name} --rewind {sequence} -d DISK...` opens it at checkpoint {sequence} {loss}; with -n in \
         place of --rewind {sequence} it lists all choices"
    ))
}

/// Opens a pool of the configuration, also from disks that are not at their configured paths. Errors: the reason, for people.
pub(super) async fn open_configured(server: &Server, config: &PoolConfig) -> Result<Pool, String> {
    let state_dir = server.state_dir();
    let (host, state_dir) = (&server.host, state_dir.as_deref());
    let (found, reasons) = find_whole(server, config).await;
    let found = choose(found, &reasons, |p| p.name == config.name)?;
    let with_reasons = |e: String| reasons.iter().fold(e, |text, r| text + "; " + r);
    let mut options = OpenOptions::new(host.clone());
    options.read_only = config.read_only;
    if let Some(witness) = EpochFile::of(state_dir, found.guid).await {
        options.witness = Some(witness);
    }
    let guid = found.guid;
    let opened = match vdev::open(found, options.clone()).await {
        Ok(opened) => opened,
        Err(e) => {
            let kept = Notes::load(state_dir, guid).await.kept();
            return Err(with_reasons(kept.with_paths(&e.to_string())));
        }
    };
    open_or_advise(opened, config, options).await
}

/// The pools that the labels of a pool's disks name. If the pool is not among them, or lacks members, its disks are looked for elsewhere.
async fn find_whole(server: &Server, config: &PoolConfig) -> (Vec<FoundPool>, Vec<String>) {
    let (found, mut reasons) = find(&config.disks, true).await;
    let own = found.iter().find(|p| p.name == config.name);
    let present = |p: &FoundPool| {
        let members = p.vdevs.iter().flat_map(|v| v.members.clone());
        let is_there =
            |s: &FoundMember| !matches!(s.presence, Presence::Missing | Presence::MissingStale);
        members.filter(is_there).map(|s| s.guid).collect::<Vec<_>>()
    };
    let is_whole = |p: &FoundPool| {
        let mut members = p.vdevs.iter().map(|v| v.members.len());
        members.all(|count| count > 0) && present(p).len() == members_of(p)
    };
    if own.is_some_and(is_whole) {
        return (found, reasons);
    }
    let (guid, here) = (own.map(|p| p.guid), own.map(present).unwrap_or_default());
    let elsewhere = server.search(config).await;
    let is_ours = |l: &&Labelled| {
        let is_pool = guid.map_or(l.name == config.name, |guid| l.pool == guid);
        is_pool && !here.contains(&l.member)
    };
    let more: Vec<PathBuf> = elsewhere
        .iter()
        .filter(is_ours)
        .map(|l| l.path.clone())
        .collect();
    if more.is_empty() {
        return (found, reasons);
    }
    let wrong = found.iter().filter(|p| p.name != config.name);
    let wrong = wrong.flat_map(|p| p.vdevs.iter().flat_map(|v| &v.members));
    let wrong: Vec<PathBuf> = wrong.filter_map(|s| s.path.clone()).collect();
    let own = config.disks.iter().filter(|p| !wrong.contains(p));
    let paths: Vec<PathBuf> = own.cloned().chain(more).collect();
    // Closes the disks, which are opened again with the others.
    drop(found);
    let (found, again) = find(&paths, true).await;
    reasons = again;
    (found, reasons)
}

/// Number of members of a pool that was found, present or not.
fn members_of(pool: &FoundPool) -> usize {
    pool.vdevs.iter().map(|v| v.members.len()).sum()
}

/// Opens a pool whose devices are open. Errors: the reason, and the recovery with the smallest loss, for people.
pub(super) async fn open_or_advise(
    opened: Opened,
    config: &PoolConfig,
    options: OpenOptions,
) -> Result<Pool, String> {
    let guid = opened.vdevs.pool();
    // The places at which its disks were found, which may differ from the configuration's.
    let paths = paths_of(&opened.vdevs.status());
    let error = match open_devices(opened, config).await {
        Ok(pool) => return Ok(pool),
        Err(error) => error,
    };
    let is_it = |pool: &FoundPool| pool.guid == guid;
    match advise(&paths, is_it, &config.name, options).await {
        Some(advice) => Err(format!("{error}; {advice}")),
        None => Err(error),
    }
}

async fn advise(
    disks: &[PathBuf],
    is_it: impl Fn(&FoundPool) -> bool,
    name: &str,
    mut options: OpenOptions,
) -> Option<String> {
    options.rewind = None;
    let (found, _reasons) = find(disks, true).await;
    let found = found.into_iter().find(is_it)?;
    let (_devices, choices) = survey(found, options).await.ok()?;
    advice(name, &choices)
}
