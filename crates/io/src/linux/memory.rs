//! Files in memory (tmpfs): requests that bypass the ring.
//!
//! tmpfs has no FMODE_NOWAIT, so io_uring would pass each request to a kernel worker thread, which costs several times as
//! much as the copy. **Called by** the driver when an operation is pushed. Swapped-out pages block the thread; a server whose
//! files in memory do not fit into memory is slow in any case.

use std::io;
use std::os::unix::fs::FileExt;

use crate::runtime::Op;

/// Carries out a transfer or a flush of a file in memory. Returns a count or a negative errno; `None` for any other
/// operation.
pub(super) fn carry_out(op: &mut Op) -> Option<i32> {
    match op {
        Op::Read {
            disk,
            buf,
            done,
            offset,
        } => {
            let file = disk.linux().in_memory()?;
            let at = *offset + *done as u64;
            Some(result(file.read_at(&mut buf[*done..], at)))
        }
        // A write-through needs nothing more: there is no stable medium.
        Op::Write {
            disk, data, offset, ..
        } => Some(result(disk.linux().in_memory()?.write_at(data, *offset))),
        Op::Flush { disk } => disk.linux().in_memory().map(|_| 0),
        _ => None,
    }
}

fn result(transferred: io::Result<usize>) -> i32 {
    match transferred {
        Ok(n) => i32::try_from(n).expect("a buffer is small"),
        Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
    }
}
