//! The bits of ACCESS: the same ones in RFC 1813, section 3.3.4, and RFC 8881, §18.1.

use super::view::Target;
use backend::file::{Access, FileKind, FileResult};

pub(crate) const READ: u32 = 1;
pub(crate) const LOOKUP: u32 = 2;
const MODIFY: u32 = 4;
const EXTEND: u32 = 8;
const DELETE: u32 = 16;
const EXECUTE: u32 = 32;
/// Every change of a directory.
pub(crate) const WRITES: u32 = MODIFY | EXTEND | DELETE;

/// Whether the caller may read or write data of a file that may have been opened before. The owner always may, because a client
/// checks permission when a file is opened; and programs are read to be executed (RFC 1813, section 4.4).
pub(crate) async fn may_use(target: &Target, is_write: bool) -> FileResult<bool> {
    let files = target.files();
    let all = Access::READ | Access::WRITE | Access::EXECUTE;
    let has = files.access(&target.caller, target.handle, all).await?;
    let may = match is_write {
        true => has.has(Access::WRITE),
        false => has.has(Access::READ) || has.has(Access::EXECUTE),
    };
    Ok(may || files.attributes(target.handle).await?.uid == target.caller.uid)
}

/// The bits that have a meaning for the object, and the ones that the caller has.
pub(crate) async fn granted(target: &Target) -> FileResult<(u32, u32)> {
    let files = target.files();
    let of = files.attributes(target.handle).await?;
    let all = Access::READ | Access::WRITE | Access::EXECUTE;
    let has = files.access(&target.caller, target.handle, all).await?;
    let (read, write, execute) = match of.kind {
        FileKind::Directory => (READ, WRITES, LOOKUP),
        _ => (READ, MODIFY | EXTEND, EXECUTE),
    };
    let may_write = !target.is_read_only && !files.limits().is_read_only;
    let kinds = [
        (Access::READ, read, true),
        (Access::WRITE, write, may_write),
        (Access::EXECUTE, execute, true),
    ];
    let granted = kinds
        .into_iter()
        .filter(|(kind, _, may)| *may && has.has(*kind))
        .fold(0, |bits, (_, more, _)| bits | more);
    Ok((read | write | execute, granted))
}
