//! Going back to an older checkpoint.
//!
//! **Owns** the one uberblock that makes it final. **Called by** the opening of a pool. **Invariants**: before that uberblock
//! is durable, nothing is written that the newest checkpoint and its journal need, and no block is repaired; after it, no
//! batch of the future that was given up is replayed or taken for proof. `docs/decisions/0119`.

use super::choices::Trial;
use crate::format::{COUNT_END, Checksum, Defect, Sequence, Uberblock};
use crate::journal::Start;
use crate::vdev::Vdevs;
use crate::{Error, Result};

/// A pool that goes back numbers its batches this far behind the last that is known: a ring has no room for as many.
const JOURNAL_GAP: u64 = 1 << 40;

/// Makes an older checkpoint the newest, durably. `newest` is the highest sequence of an uberblock. Returns the uberblock.
///
/// # Errors
/// Why the checkpoint cannot be opened, with nothing given up; [`Error::Device`].
pub(super) async fn go_back(
    vdevs: &Vdevs,
    older: &Uberblock,
    newest: u64,
    checkpoints: &[Uberblock],
) -> Result<Uberblock> {
    Trial::new(vdevs).check(older).await?;
    let uberblock = Uberblock {
        sequence: newest + 1,
        journal: anew(older.journal, checkpoints)?,
        ..*older
    };
    vdevs.write_uberblock(&uberblock).await?;
    let _final = vdevs.flush().await?;
    Ok(uberblock)
}

/// Where the journal of a pool that goes back to an older checkpoint starts: behind every batch that the newer ones, or a
/// crash, left in the ring, and after none of them.
///
/// # Errors
/// [`Error::Invalid`] if there is no such number any more.
fn anew(start: Start, checkpoints: &[Uberblock]) -> Result<Start> {
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
    Ok(Start {
        sequence,
        previous: Checksum(previous),
        ..start
    })
}
