//! Rewind: opens a pool at an older checkpoint, for good.
//!
//! **Owns** the one uberblock that makes a rewind final. **Called by** the opening of a pool. **Invariants**: before
//! that uberblock is durable, no block that the newest checkpoint or its journal needs is overwritten, and no block is
//! repaired; after it, no discarded batch is replayed or taken as proof, and no epoch of a discarded batch comes again. `docs/decisions/0119`.

use super::choices::Trial;
use crate::format::{Birth, COUNT_END, Checksum, Defect, Sequence, Uberblock};
use crate::journal::Start;
use crate::vdev::Vdevs;
use crate::{Error, Result};

/// After a rewind, batches are numbered this far behind the last known batch: more than a ring can hold.
const JOURNAL_GAP: u64 = 1 << 40;

/// After batches were given up, epochs go on this far behind the last known one: more than a journal has.
pub(super) const EPOCH_GAP: u64 = 1 << 16;

/// Makes an older checkpoint the newest, durably. `newest` is the highest sequence of an uberblock. Returns the uberblock.
///
/// # Errors
/// Why the checkpoint cannot be opened, in which case nothing is changed; [`Error::Device`].
pub(super) async fn go_back(
    vdevs: &Vdevs,
    older: &Uberblock,
    newest: u64,
    checkpoints: &[Uberblock],
) -> Result<Uberblock> {
    Trial::new(vdevs).check(older).await?;
    let epochs = checkpoints.iter().map(|u| u.epoch.0);
    let last = epochs.max().unwrap_or(0).max(older.epoch.0);
    let uberblock = Uberblock {
        sequence: newest + 1,
        epoch: Birth(last + EPOCH_GAP),
        journal: anew(vdevs, older.journal, checkpoints)?,
        ..*older
    };
    vdevs.write_uberblock(&uberblock).await?;
    let _final = vdevs.flush().await?;
    Ok(uberblock)
}

/// The start of the journal after a rewind: its number is behind every batch in the ring, and it continues none of
/// them. If the ring that it was in is gone, it is at the start of the present one.
///
/// # Errors
/// [`Error::Invalid`] if the numbers are used up.
fn anew(vdevs: &Vdevs, start: Start, checkpoints: &[Uberblock]) -> Result<Start> {
    let sequences = checkpoints.iter().map(|u| u.journal.sequence.0);
    let last = sequences.max().unwrap_or(0).max(start.sequence.0);
    let sequence = Sequence(last + JOURNAL_GAP);
    if sequence.0 >= COUNT_END {
        let field = "sequence of the journal's start";
        let value = sequence.0;
        return Err(Error::Invalid(Defect::Field { field, value }));
    }
    let mut previous = [0; 16];
    let (first, second) = previous.split_at_mut(8);
    first.copy_from_slice(&io::rng::u64().to_le_bytes());
    second.copy_from_slice(&io::rng::u64().to_le_bytes());
    let position = match vdevs.ring_with(start.position.segment) {
        Some(_) => start.position,
        None => vdevs.ring().start().position,
    };
    Ok(Start {
        sequence,
        position,
        previous: Checksum(previous),
    })
}
