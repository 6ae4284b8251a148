//! The drill `full`: no space for a while, then space again.
//!
//! **Called by** drills. **Invariants**: of a pool of the running server only the scratch volume's own quota is used up; a pool is
//! filled only if the drill made it, by the reservation of a volume that the drill makes and removes.

use super::request::request;
use crate::client::Client;
use drill::{Disturbance, Error, Layer, Result, Timeline};
use server::ByteSize;
use server::api::{CreateVolume, DestroyVolume, ListPools, ListVolumes, Pool, SetProperty, Volume};
use std::sync::Arc;
use std::time::Duration;

/// A stretch without space for each stretch of this length.
const EVERY: Duration = Duration::from_secs(10);
const TIMES: std::ops::RangeInclusive<u32> = 1..=1000;
/// The volume whose reservation fills a pool of the drill's own.
const BALLAST: &str = "ballast";
/// The size of the ballast volume, which is thin; its reservation counts.
const BALLAST_SIZE: u64 = 1 << 20;
/// Smallest step of that reservation.
const STEP_MIN: u64 = 256 << 10;
/// Reservations are whole sectors.
const SECTOR: u64 = 4096;

/// Length of each stretch without space in a drill of this length.
pub(super) fn default_times(time: Duration) -> Vec<Duration> {
    let times = (time.as_millis() / EVERY.as_millis()) as u32;
    let times = times.clamp(*TIMES.start(), *TIMES.end());
    vec![time / (2 * times); times as usize]
}

/// The limit that the load meets.
pub(super) enum Limit {
    /// The quota of the scratch volume. Afterwards it is this.
    Quota(ByteSize),
    /// The space of the pool, all of which the ballast volume reserves.
    Pool,
}

/// A stretch without space.
pub(super) struct Full {
    pub(super) client: Arc<Client>,
    pub(super) pool: String,
    /// The scratch volume.
    pub(super) volume: String,
    pub(super) limit: Limit,
    pub(super) time: Duration,
    pub(super) timeline: Arc<Timeline>,
}

impl Full {
    fn ballast(&self) -> String {
        format!("{}/{BALLAST}", self.pool)
    }

    async fn set_quota(&self, quota: ByteSize) -> Result<()> {
        let call = SetProperty {
            name: self.volume.clone(),
            property: "quota".to_owned(),
            value: quota.to_string(),
        };
        request(&self.client, call).await.map(drop)
    }

    /// Bytes that the scratch volume takes now.
    async fn used(&self) -> Result<u64> {
        let volumes: Vec<Volume> = request(&self.client, ListVolumes {}).await?;
        let volume = volumes.iter().find(|v| v.name == self.volume);
        let gone = || Error::Disturbance(format!("{} is gone", self.volume));
        Ok(volume.ok_or_else(gone)?.used)
    }

    /// Reserves the space of the pool for another volume, by halving steps: the pool keeps a part for itself that no answer
    /// names.
    async fn fill_pool(&self) -> Result<()> {
        let pools: Vec<Pool> = request(&self.client, ListPools {}).await?;
        let pool = pools.iter().find(|p| p.name == self.pool);
        let gone = || Error::Disturbance(format!("the pool {} is gone", self.pool));
        let available = pool.ok_or_else(gone)?.free;
        let call = CreateVolume {
            name: self.ballast(),
            size: ByteSize(BALLAST_SIZE),
            block_size: None,
            record_size: None,
            sync: None,
            compression: None,
            checksum: None,
            quota: None,
            reservation: None,
        };
        request(&self.client, call).await?;
        let (mut reserved, mut step) = (0, available / 2 / SECTOR * SECTOR);
        while step >= STEP_MIN {
            let call = SetProperty {
                name: self.ballast(),
                property: "reservation".to_owned(),
                value: ByteSize(reserved + step).to_string(),
            };
            // A refusal means that the pool has less.
            if request(&self.client, call).await.is_ok() {
                reserved += step;
            }
            step = step / 2 / SECTOR * SECTOR;
        }
        if reserved == 0 {
            let text = format!("no space of the pool {} can be reserved", self.pool);
            return Err(Error::Disturbance(text));
        }
        Ok(())
    }
}

impl Disturbance for Full {
    fn name(&self) -> String {
        match self.limit {
            Limit::Quota(_) => "quota used up".to_owned(),
            Limit::Pool => "pool full".to_owned(),
        }
    }

    fn length(&self) -> Duration {
        self.time
    }

    fn refuses_writes(&self) -> bool {
        true
    }

    async fn begin(&self) -> Result<()> {
        match self.limit {
            Limit::Quota(_) => {
                let used = self.used().await?.max(SECTOR);
                self.set_quota(ByteSize(used)).await?;
            }
            Limit::Pool => self.fill_pool().await?,
        }
        self.timeline
            .note(Layer::Pool, "no space is left for the scratch volume");
        Ok(())
    }

    async fn end(&self) -> Result<()> {
        match self.limit {
            Limit::Quota(quota) => self.set_quota(quota).await?,
            Limit::Pool => {
                let call = DestroyVolume {
                    name: self.ballast(),
                    force: true,
                    recursive: false,
                };
                request(&self.client, call).await?;
            }
        }
        self.timeline.note(Layer::Pool, "there is space again");
        Ok(())
    }
}
