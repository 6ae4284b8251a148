//! The named limits of this crate.

use std::time::Duration;

/// Most requests of one mount in flight. The kernel keeps further requests in its queue.
pub const REQUESTS_MAX: usize = 256;
/// Most bytes in buffers of one mount's writes in flight.
pub const WRITE_BYTES_MAX: usize = 64 << 20;
/// Most bytes of one read or write request.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Read-ahead window of the kernel, bytes. The kernel's default is 128 KiB; only root may raise it.
pub const READ_AHEAD_BYTES: u32 = 1 << 20;
/// Most requests in the background (read-ahead, write-back, release) that the kernel sends before it waits for replies.
pub const BACKGROUND_MAX: u16 = 64;
/// Threads that take requests from the kernel. They only copy and hand over.
pub const SESSION_THREADS: usize = 2;
/// Most objects that the kernel may know at once: about 0.5 GiB here, and 16 GiB in the kernel. Further lookups fail with
/// ENOMEM.
pub const NODES_MAX: usize = 16 << 20;
/// Most open files of one mount.
pub const OPEN_FILES_MAX: usize = 1 << 20;
/// Most bytes of one copy between files (copy_file_range(2)); the kernel's caller asks again for the rest.
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// Entries of one request to the file system, while a directory is listed without attributes.
pub const LIST_ENTRIES: usize = 128;
/// Entries of one request to the file system, while a directory is listed with attributes.
pub const LIST_PLUS_ENTRIES: usize = 32;
/// Validity of names and attributes in the kernel's cache, if only this mount changes the file system.
pub const EXCLUSIVE_VALIDITY: Duration = Duration::from_secs(60);
/// Validity of names and attributes in the kernel's cache, if others change the file system, too.
pub const SHARED_VALIDITY: Duration = Duration::from_secs(1);
/// Longest wait for the end of a mount after it was unmounted. It lasts longer only if another mount namespace has it, too.
pub const UNMOUNT_WAIT: Duration = Duration::from_secs(10);
/// Most requests to the kernel to write its dirty data back, while programs go on writing data that has no space.
pub const WRITE_BACKS_MAX: usize = 16;
/// Shortest time between two commits of data that the kernel wrote back.
pub const COMMIT_PAUSE: Duration = Duration::from_millis(100);
/// Free space, bytes, below which files are opened for writing without the kernel's cache, so that write(2) says that there is no
/// space.
pub const NEARLY_FULL_BYTES: u64 = 256 << 20;
/// Most notices to the kernel that wait to be sent.
pub const NOTICES_MAX: usize = 4096;
/// Most processes that wait for locks at a time.
pub const LOCK_WAITERS_MAX: usize = 4096;
/// Time between two tries of a process that waits for a lock.
pub const LOCK_PAUSE: Duration = Duration::from_millis(50);
