//! The drill `lost-disk`, device classes: the disk of a log, or a cache device, fails every operation, and is added to the pool again afterwards.
//!
//! **Called by** drills. **Invariants**: only disks of a server that the drill started are lost; a disk that was lost answers again before it is added, and the
//! drill waits until it is used.

use super::kill::failed;
use super::lost_disk::{self, MemberLoss};
use super::own::{CACHE, DISKS, LOG, OwnServer, POOL, SPECIAL};
use super::request::request;
use crate::cli::drill::LostClass;
use crate::client::Client;
use crate::rehearsal;
use drill::{Disturbance, Error, Layer, Timeline};
use server::api::{AddVdevs, ListPools, Pool, RemoveDevice, VdevClass, VdevSpec};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a change of the pool.
const CHANGE_MAX: Duration = Duration::from_secs(60);
const CHANGE_POLL: Duration = Duration::from_millis(50);

/// Classes that a drill on a pool of its own takes disks of, if none is named.
const ALL: [LostClass; 4] = [
    LostClass::Data,
    LostClass::Log,
    LostClass::Special,
    LostClass::Cache,
];

/// The class and disk of each loss, in turn without end. Without classes: all of them.
pub(super) fn in_turn(
    classes: &[LostClass],
) -> impl Iterator<Item = (LostClass, &'static str)> + use<> {
    let classes = match classes {
        [] => ALL.to_vec(),
        named => named.to_vec(),
    };
    let disks = |class| match class {
        LostClass::Data => DISKS,
        LostClass::Special => SPECIAL,
        LostClass::Log => [LOG; 2],
        LostClass::Cache => [CACHE; 2],
    };
    let round = move |second: usize| {
        let classes = classes.clone().into_iter();
        classes.map(move |class| (class, disks(class)[second]))
    };
    [0, 1].into_iter().cycle().flat_map(round)
}

/// The fewest losses, with which each of these classes loses a disk.
pub(super) fn least(classes: &[LostClass]) -> u32 {
    match classes {
        [] => ALL.len() as u32,
        named => named.len() as u32,
    }
}

/// A loss.
pub(super) enum Loss {
    /// Of a member of a mirror.
    Member(MemberLoss),
    /// Of a log or cache device.
    Device(DeviceLoss),
}

/// A log or cache device that fails for a while.
pub(super) struct DeviceLoss {
    pub(super) server: Rc<RefCell<OwnServer>>,
    pub(super) client: Arc<Client>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) disk: &'static str,
    pub(super) is_log: bool,
    pub(super) time: Duration,
}

impl DeviceLoss {
    fn path(&self) -> PathBuf {
        self.server.borrow().path(self.disk)
    }

    fn command(&self, line: &str) -> drill::Result<()> {
        self.server.borrow_mut().command(line).map_err(failed)
    }

    fn note(&self, text: String) {
        self.timeline.note(Layer::Device, text);
    }

    async fn pool(&self) -> drill::Result<Pool> {
        let pools: Vec<Pool> = request(&self.client, ListPools {}).await?;
        let pool = pools.into_iter().find(|p| p.name == POOL);
        pool.ok_or_else(|| Error::Disturbance(format!("there is no pool {POOL}")))
    }

    /// Waits until the pool is so. Errors: `Disturbance` with `what` after a minute.
    async fn wait_for(&self, what: &str, is_so: impl Fn(&Pool) -> bool) -> drill::Result<Pool> {
        let from = self.timeline.now();
        loop {
            let pool = self.pool().await?;
            if is_so(&pool) {
                return Ok(pool);
            }
            if self.timeline.now() - from > CHANGE_MAX {
                let text = format!("after {} s {what}", CHANGE_MAX.as_secs());
                return Err(Error::Disturbance(text));
            }
            io::time::sleep(CHANGE_POLL).await;
        }
    }

    async fn add(&self, vdevs: Vec<VdevSpec>, caches: Vec<PathBuf>) -> drill::Result<()> {
        let call = AddVdevs {
            pool: POOL.to_owned(),
            vdevs,
            spares: Vec::new(),
            caches,
            size: None,
            // it has its old label
            force: true,
        };
        request(&self.client, call).await.map(drop)
    }

    /// The pool gave the log up by itself; its disk becomes a log again.
    async fn log_returns(&self) -> drill::Result<()> {
        let path = self.path();
        let what = format!("{} has not left the pool", self.disk);
        let left = self.wait_for(&what, |p| !p.disks.contains(&path)).await?;
        let with = left.vdevs.iter().filter(|v| v.journal);
        let with: Vec<&str> = with.map(|v| v.name.as_str()).collect();
        self.note(format!(
            "{} left the pool; the journal is on {}",
            self.disk,
            with.join(", ")
        ));
        self.command(&rehearsal::slow(&path, Duration::ZERO))?;
        let log = VdevSpec {
            class: VdevClass::Log,
            ..VdevSpec::mirror(vec![path])
        };
        self.add(vec![log], Vec::new()).await?;
        let has_journal = |p: &Pool| {
            let mut logs = p.vdevs.iter().filter(|v| v.class == VdevClass::Log);
            logs.any(|v| v.journal) && lost_disk::is_whole(p)
        };
        self.wait_for("the journal is not on the new log", has_journal)
            .await?;
        self.note(format!("{} is a log again", self.disk));
        Ok(())
    }

    /// The cache device is taken out and added, whether the pool noticed its loss or asked it for nothing meanwhile.
    async fn cache_returns(&self) -> drill::Result<()> {
        let path = self.path();
        let before = self.pool().await?;
        let cache = before.caches.iter().find(|c| c.path == path);
        let noticed = match cache.and_then(|c| c.reason.as_ref()) {
            Some(reason) => format!("{} was taken out: {reason}", self.disk),
            None => format!("{} was asked for nothing meanwhile", self.disk),
        };
        self.note(noticed);
        self.command(&rehearsal::slow(&path, Duration::ZERO))?;
        let call = RemoveDevice {
            pool: POOL.to_owned(),
            disk: path.display().to_string(),
        };
        request(&self.client, call).await?;
        self.add(Vec::new(), vec![path.clone()]).await?;
        let is_used = |p: &Pool| {
            let mut own = p.caches.iter().filter(|c| c.path == path);
            own.any(|c| c.reason.is_none() && c.size > 0) && lost_disk::is_whole(p)
        };
        self.wait_for("the cache device is not used", is_used)
            .await?;
        self.note(format!("{} is a cache device again", self.disk));
        Ok(())
    }
}

impl Disturbance for Loss {
    fn name(&self) -> String {
        match self {
            Loss::Member(member) => member.name(),
            Loss::Device(device) => format!("{} lost", device.disk),
        }
    }

    fn length(&self) -> Duration {
        match self {
            Loss::Member(member) => member.time,
            Loss::Device(device) => device.time,
        }
    }

    async fn begin(&self) -> drill::Result<()> {
        match self {
            Loss::Member(member) => member.begin().await,
            Loss::Device(device) => {
                device.command(&rehearsal::lose(&device.path()))?;
                device.note(format!("{} fails every operation", device.disk));
                Ok(())
            }
        }
    }

    async fn end(&self) -> drill::Result<()> {
        match self {
            Loss::Member(member) => member.end().await,
            Loss::Device(device) if device.is_log => device.log_returns().await,
            Loss::Device(device) => device.cache_returns().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_lost_in_turn_and_mirrors_lose_both_members() {
        let first: Vec<_> = in_turn(&[]).take(8).map(|(_, disk)| disk).collect();
        let both = [
            "a.img", "l.img", "s.img", "k.img", "b.img", "l.img", "t.img", "k.img",
        ];
        assert_eq!(first, both);
        let named = in_turn(&[LostClass::Special]).take(3);
        let named: Vec<_> = named.map(|(_, disk)| disk).collect();
        assert_eq!(named, ["s.img", "t.img", "s.img"]);
    }
}
