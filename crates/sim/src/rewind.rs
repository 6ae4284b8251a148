//! Rewind of a pool to an older checkpoint.
//!
//! **Owns** that check. **Called by** scenario `pool`, at its end. A checkpoint can be opened as long as nothing was written
//! after the next one. Writes that ran beside the checkpoint do not belong to it, and must leave no used space after the
//! rewind.

use crate::model::Violation;
use crate::snapshots::{contents, scribble};
use backend::BlockBackend;
use io::rng::Prng;
use io::spawn;
use pool::format::{ChecksumKind, Packing, Sync};
use pool::{Error, NewVolume, Pool, Volume};

/// Volume that is written during the checkpoint.
const BESIDE: &str = "beside";

fn wrong(what: &str, e: &Error) -> Violation {
    Violation(format!("before a rewind, {what}: {e}"))
}

/// An older checkpoint to rewind to.
pub(crate) struct Past {
    /// Sequence of its uberblock.
    pub(crate) sequence: u64,
    /// Contents of the volume at the checkpoint.
    pub(crate) contents: Vec<u8>,
}

/// Makes the checkpoint to rewind to, changes the volume, and makes the next checkpoint. `None` if the pool made further
/// checkpoints by itself, which may have reused blocks of the first one.
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
    // Dirty records would be written after the second checkpoint.
    let flushed = volume.flush().await;
    let _proof = flushed.map_err(|e| Violation(format!("before a rewind, a flush: {e}")))?;
    let done = pool.checkpoint().await;
    done.map_err(|e| wrong("a checkpoint", &e))?;
    let past = Past { sequence, contents };
    Ok((pool.sequence() == sequence + 1).then_some(past))
}
