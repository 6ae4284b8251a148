//! The drill `lost-disk`: members of vdevs go offline and come back, in turn.
//!
//! **Called by** drills. **Invariants**: a member goes offline only while the pool is ONLINE; of a pool of the running server only
//! members that the user named, and only if two members of their vdev may fail, so that the pool keeps its redundancy;
//! a member that went offline is brought online again, and the drill waits until it is resilvered.

use super::request::request;
use crate::client::Client;
use anyhow::{Context, Result, ensure};
use drill::{Error, Layer, Timeline};
use server::api::{DiskState, Health, ListPools, Member, OfflineMember, OnlineMember, Pool};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A loss for each stretch of this length, and the part of it for which the member stays away.
const EVERY: Duration = Duration::from_secs(10);
const LOSSES: std::ops::RangeInclusive<u32> = 2..=1000;
/// Failures that the vdev of a lost member must survive, in a pool of the running server: the loss, and another one.
const FAILURES_MIN: usize = 2;
/// Longest wait for a resilver.
const RESILVER_MAX: Duration = Duration::from_secs(3600);
const RESILVER_POLL: Duration = Duration::from_millis(50);

/// Time of each of `least` losses or more in a drill of this length.
pub(super) fn default_times(time: Duration, least: u32) -> Vec<Duration> {
    let losses = (time.as_millis() / EVERY.as_millis()) as u32;
    let losses = losses.max(least).clamp(*LOSSES.start(), *LOSSES.end());
    vec![time / (2 * losses); losses as usize]
}

/// Checks that a pool of the running server may lose these members, one at a time. Returns their names.
///
/// # Errors
/// No member is named, one is unknown, or redundancy would not hold.
pub(super) fn check(client: &Client, pool: &str, members: &[PathBuf]) -> Result<Vec<String>> {
    ensure!(
        !members.is_empty(),
        "name the members of the pool {pool} that may go offline for the drill: --member DISK"
    );
    let pools: Vec<Pool> = client.ask(&ListPools {})?;
    let found = pools.iter().find(|p| p.name == pool);
    let found = found.with_context(|| format!("no such pool {pool:?}"))?;
    ensure!(
        found.state == DiskState::Online && found.health == Some(Health::Online),
        "the pool {pool} is not ONLINE: a drill takes no member from a pool that lacks one, see `wirepool pool status {pool}`"
    );
    for member in members {
        let member = std::path::absolute(member)?;
        let is_it = |m: &Member| m.path.as_ref() == Some(&member);
        let vdev = found.vdevs.iter().find(|v| v.members.iter().any(is_it));
        let vdev =
            vdev.with_context(|| format!("the pool {pool} has no disk {}", member.display()))?;
        // Of an ONLINE pool every member is in.
        ensure!(
            vdev.layout.failures(vdev.members.len()) >= FAILURES_MIN,
            "{} of {pool} would not be redundant without {}: a drill takes a member only if another one may fail meanwhile",
            vdev.name,
            member.display()
        );
    }
    let absolute = members.iter().map(std::path::absolute);
    let absolute: std::io::Result<Vec<PathBuf>> = absolute.collect();
    Ok(absolute?
        .into_iter()
        .map(|m| m.display().to_string())
        .collect())
}

/// A member that is away for a while.
pub(super) struct MemberLoss {
    pub(super) client: Arc<Client>,
    pub(super) pool: String,
    pub(super) member: String,
    pub(super) time: Duration,
    pub(super) timeline: Arc<Timeline>,
}

impl MemberLoss {
    async fn is_whole(&self) -> drill::Result<bool> {
        let pools: Vec<Pool> = request(&self.client, ListPools {}).await?;
        let pool = pools.iter().find(|p| p.name == self.pool);
        Ok(pool.is_some_and(is_whole))
    }
}

/// Whether a pool is ONLINE.
pub(super) fn is_whole(pool: &Pool) -> bool {
    pool.health == Some(Health::Online)
}

impl MemberLoss {
    /// Its name, for people.
    pub(super) fn name(&self) -> String {
        let name = self.member.rsplit('/').next().unwrap_or_default();
        format!("{name} offline")
    }

    /// Takes the member offline. Errors: the pool is not ONLINE, or the server refuses.
    pub(super) async fn begin(&self) -> drill::Result<()> {
        if !self.is_whole().await? {
            let text = format!("the pool {} is not ONLINE any more", self.pool);
            return Err(Error::Disturbance(text));
        }
        let call = OfflineMember {
            pool: self.pool.clone(),
            disk: self.member.clone(),
        };
        request(&self.client, call).await?;
        self.timeline
            .note(Layer::Device, format!("{} is offline", self.member));
        Ok(())
    }

    /// Brings the member back, and waits until it is resilvered. Errors: the server refuses, or the resilver does not end.
    pub(super) async fn end(&self) -> drill::Result<()> {
        let call = OnlineMember {
            pool: self.pool.clone(),
            disk: self.member.clone(),
            path: None,
            expand: false,
        };
        request(&self.client, call).await?;
        let from = self.timeline.now();
        self.timeline
            .note(Layer::Device, format!("{} is back", self.member));
        while !self.is_whole().await? {
            if self.timeline.now() - from > RESILVER_MAX {
                let text = format!("{} is not resilvered after an hour", self.member);
                return Err(Error::Disturbance(text));
            }
            io::time::sleep(RESILVER_POLL).await;
        }
        let took = (self.timeline.now() - from).as_secs_f64();
        self.timeline.note(
            Layer::Device,
            format!("{} is resilvered after {took:.2} s", self.member),
        );
        Ok(())
    }
}
