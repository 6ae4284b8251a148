//! Data to be written, and the promise that the medium allows.
//!
//! **Invariants**: a reply that promises stable storage is made from a [`Durable`], and from nothing else.

use super::view::Target;
use backend::Durable;
use backend::file::{Done, FileResult, Stability, WriteAt, Written};
use io::SharedBuf;

/// `UNSTABLE`, `UNSTABLE4`: on stable storage after a COMMIT.
pub(crate) const UNSTABLE: u32 = 0;
/// `FILE_SYNC`, `FILE_SYNC4`: on stable storage, with everything that is needed to read it.
const FILE_SYNC: u32 = 2;

/// Writes data, a part of the request that it came in. `stable`: the promise that the client asks for.
pub(crate) async fn store(
    target: &Target,
    offset: u64,
    stable: u32,
    data: SharedBuf,
) -> FileResult<Done<Written>> {
    let stability = match stable {
        UNSTABLE => Stability::Cached,
        _ => Stability::Durable,
    };
    let at = WriteAt::Offset(offset);
    let files = target.files();
    files
        .write(&target.caller, target.handle, at, data, stability)
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
