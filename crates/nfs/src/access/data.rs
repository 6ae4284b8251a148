//! Data to be written, and the promise that the medium allows.
//!
//! **Invariants**: a reply that promises stable storage is made from a [`Durable`], and from nothing else.

use super::view::Target;
use backend::Durable;
use backend::file::{Done, FileResult, Stability, WriteAt, Written};

/// `UNSTABLE`, `UNSTABLE4`: on stable storage after a COMMIT.
pub(crate) const UNSTABLE: u32 = 0;
/// `FILE_SYNC`, `FILE_SYNC4`: on stable storage, with everything that is needed to read it.
const FILE_SYNC: u32 = 2;

/// Writes data. `stable`: the promise that the client asks for.
pub(crate) async fn store(
    target: &Target,
    offset: u64,
    stable: u32,
    data: &[u8],
) -> FileResult<Done<Written>> {
    let mut buffer = io::pool().alloc(data.len()).await;
    buffer.copy_from_slice(data);
    let stability = match stable {
        UNSTABLE => Stability::Cached,
        _ => Stability::Durable,
    };
    let at = WriteAt::Offset(offset);
    let files = target.files();
    files
        .write(&target.caller, target.handle, at, buffer, stability)
        .await
}

/// The promise for data that was written; `None` if stable storage was asked for without a proof of it.
pub(crate) fn promise(stable: u32, durable: Option<&Durable>) -> Option<u32> {
    match durable {
        Some(_) => Some(FILE_SYNC),
        None if stable == UNSTABLE => Some(UNSTABLE),
        None => None,
    }
}
