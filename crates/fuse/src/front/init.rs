//! The handshake with the kernel: the abilities that a mount uses, and its sizes.
//!
//! **Owns** the list of abilities with their reasons. **Called by** the front, once for each mount. **Invariants**: an ability
//! that the kernel does not have is left out; the mount is slower then, and not wrong.

use crate::limits::{BACKGROUND_MAX, READ_AHEAD_BYTES, REQUEST_BYTES_MAX};
use crate::options::Caching;
use fuser::{InitFlags, KernelConfig};

/// Abilities of every mount, if the kernel has them. Not used, although the kernel has them:
/// - `POSIX_LOCKS` and `FLOCK_LOCKS`, but in shared mounts: the kernel keeps locks itself, faster.
/// - `POSIX_ACL`: the kernel would check permissions by POSIX ACLs, which say less than the file system's lists (decision 0321).
/// - `NO_OPEN_SUPPORT`: an open file must be held, so that it lives on without names.
/// - `SPLICE_*`: data is copied once on its way, into a buffer that a disk can write from.
/// - `ATOMIC_O_TRUNC`: the kernel would send the open that cuts a file before it finds out that the file is being executed,
///   and answer ETXTBSY about a program that is empty then.
/// - `PASSTHROUGH`: there is no file of the kernel's below.
const ALWAYS: &[InitFlags] = &[
    // several reads of one file at once, also of direct I/O
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    // requests of 1 MiB
    InitFlags::FUSE_BIG_WRITES,
    InitFlags::FUSE_MAX_PAGES,
    // lookups and listings of one directory at once
    InitFlags::FUSE_PARALLEL_DIROPS,
    // attributes come with the entries, if the program asks for them
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // targets of symbolic links never change
    InitFlags::FUSE_CACHE_SYMLINKS,
    // handles of an NFS server of the kernel's: lookups of "." and ".."
    InitFlags::FUSE_EXPORT_SUPPORT,
    // without it, every write asks for security.capability first
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// Chooses abilities and sizes. Returns whether files that are opened without the kernel's cache can be mapped.
/// With `keeps_locks`, locks come here, where those of network clients are.
pub(super) fn negotiate(
    config: &mut KernelConfig,
    caching: &Caching,
    has_acls: bool,
    keeps_locks: bool,
) -> bool {
    let has = config.capabilities();
    let mut wanted: Vec<InitFlags> = ALWAYS.to_vec();
    if caching.has_write_back {
        wanted.push(InitFlags::FUSE_WRITEBACK_CACHE);
    }
    if has_acls {
        // the umask does not count in a directory with a default ACL
        wanted.push(InitFlags::FUSE_DONT_MASK);
    }
    if keeps_locks {
        wanted.push(InitFlags::FUSE_POSIX_LOCKS);
        // flock(2) is a lock of the whole file, as it is for clients of NFS
        wanted.push(InitFlags::FUSE_FLOCK_LOCKS);
    }
    wanted.push(match caching.checks_data {
        true => InitFlags::FUSE_AUTO_INVAL_DATA,
        false => InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    });
    for ability in wanted.into_iter().filter(|a| has.contains(*a)) {
        if config.add_capabilities(ability).is_err() {
            tracing::debug!(?ability, "the kernel refused an ability that it announced");
        }
    }
    // Each setter returns the nearest value that the kernel takes.
    if let Err(nearest) = config.set_max_write(REQUEST_BYTES_MAX) {
        let _ = config.set_max_write(nearest);
    }
    if let Err(nearest) = config.set_max_readahead(READ_AHEAD_BYTES) {
        let _ = config.set_max_readahead(nearest);
    }
    let _ = config.set_max_background(BACKGROUND_MAX);
    let maps = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
    has.contains(maps) && config.add_capabilities(maps).is_ok()
}
