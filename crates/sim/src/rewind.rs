//! A pool that is opened at an older checkpoint.
//!
//! **Owns** that check. **Called by** scenario `pool`, at its end. What a checkpoint held is whole as long as nothing was
//! written after the next one; what was written while it was made is no part of it, and must leave nothing behind.

use crate::model::Violation;
use crate::snapshots::{contents, scribble};
use backend::BlockBackend;
use io::rng::Prng;
use io::spawn;
use pool::format::{ChecksumKind, Packing, Sync};
use pool::{Error, NewVolume, Pool, Volume};

/// Written while the checkpoint is made.
const BESIDE: &str = "beside";

fn wrong(what: &str, e: &Error) -> Violation {
    Violation(format!("before a rewind, {what}: {e}"))
}

/// What there is to go back to.
pub(crate) struct Past {
    /// The uberblock.
    pub(crate) sequence: u64,
    /// What the volume was.
    pub(crate) contents: Vec<u8>,
}

/// Makes the checkpoint to go back to, changes the volume, and makes another; none if the pool made more by itself, which
/// may have used what the first one held.
pub(crate) async fn prepare(
    pool: &Pool,
    volume: &Volume,
    rng: &mut Prng,
) -> Result<Option<Past>, Violation> {
    let new = NewVolume {
        name: BESIDE.into(),
        size: 1 << 20,
        block_size: 4096,
        record_size: pool.vdevs().sector().max(4096),
        sync: Sync::Always,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    let beside = pool.create_volume(new).await;
    let beside = beside.map_err(|e| wrong("a volume", &e))?;
    let contents = contents(volume.clone()).await?;
    let mut other = Prng::new(rng.u64());
    let writing = spawn(async move { scribble(&beside, &mut other).await });
    let done = pool.checkpoint().await;
    done.map_err(|e| wrong("a checkpoint", &e))?;
    let sequence = pool.sequence();
    if let Some(written) = writing.await {
        written?;
    }
    scribble(volume, rng).await?;
    // what is dirty would be written after the second one
    let flushed = volume.flush().await;
    let _proof = flushed.map_err(|e| Violation(format!("before a rewind, a flush: {e}")))?;
    let done = pool.checkpoint().await;
    done.map_err(|e| wrong("a checkpoint", &e))?;
    let past = Past { sequence, contents };
    Ok((pool.sequence() == sequence + 1).then_some(past))
}
