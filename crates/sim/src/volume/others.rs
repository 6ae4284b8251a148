//! Churn of other volumes of the pool, beside the model's.
//!
//! **Owns** that churn. **Called by** scenario `pool`. Any failure but for a quota is a violation.

use crate::model::Violation;
use backend::{BlockBackend, StorageError};
use io::rng::Prng;
use io::time::sleep;
use pool::format::{ChecksumKind, Packing, Sync};
use pool::{NewVolume, Pool};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that the nodes of a small volume may take beyond its quota.
const QUOTA_SLACK: u64 = 64 << 10;

/// Creates, writes and destroys another volume.
pub(super) async fn churn(pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let wrong = |what: &str, e: &dyn std::fmt::Debug| Violation(format!("{what}: {e:?}"));
    for round in 0..rng.below(4) {
        let name = format!("other{}", rng.below(3));
        if pool.volume(&name).is_some() {
            let gone = pool.destroy_volume(&name).await;
            gone.map_err(|e| wrong("destroying", &e))?;
            continue;
        }
        let new = NewVolume {
            name,
            size: 4 << 20,
            block_size: 4096,
            record_size: 4096 << rng.below(3),
            sync: Sync::Standard,
            compression: Packing::Lz4,
            checksum: ChecksumKind::Xxh3,
        };
        let volume = pool.create_volume(new).await;
        let volume = volume.map_err(|e| wrong("creating", &e))?;
        // Its writes are not promised to be durable, which must not affect the model's volume.
        if rng.chance(0.3) {
            let name = volume.dataset().name;
            let set = pool.change_volume(&name, |d| d.sync = Sync::Disabled);
            set.await.map_err(|e| wrong("setting", &e))?;
        }
        let quota = if rng.chance(0.5) {
            64 << 10 << rng.below(4)
        } else {
            0
        };
        let reservation = rng.below(1 << 18).min(quota);
        let limited = pool
            .set_limits(&volume.dataset().name, quota, reservation)
            .await;
        limited.map_err(|e| wrong("limiting", &e))?;
        for _ in 0..rng.below(32) {
            let mut buf = io::pool().alloc(4096 << rng.below(5)).await;
            buf.fill(round as u8 + 1);
            let at = backend::Lba(rng.below(900));
            let written = volume.write(at, buf).await;
            match written {
                Err(StorageError::NoSpace) if quota != 0 => {}
                other => other.map_err(|e| wrong("writing", &e))?,
            }
            let space = pool.volume_spaces().remove(&volume.dataset().name);
            let space = space.ok_or_else(|| Violation("a volume takes no space".into()))?;
            if quota != 0 && space.used > quota + QUOTA_SLACK {
                return Err(Violation(format!("beyond its quota: {space:?}")));
            }
        }
        if rng.chance(0.5) {
            let _proof = volume.flush().await.map_err(|e| wrong("flushing", &e))?;
        }
        sleep(Duration::from_micros(rng.below(5000))).await;
        if rng.chance(0.3) {
            let (old, new) = (volume.dataset().name, format!("other{}", 3 + rng.below(3)));
            match pool.rename_volume(&old, &new).await {
                Err(pool::Error::Exists) => {
                    let gone = pool.destroy_volume(&new).await;
                    gone.map_err(|e| wrong("destroying", &e))?;
                }
                other => other.map_err(|e| wrong("renaming", &e))?,
            }
        }
    }
    Ok(())
}
