//! The process as the kernel sees it: its limits and its user.

use crate::Result;

/// Raises the limit of open descriptors to the most this process may have; returns that number.
pub fn raise_fd_limit() -> Result<u64> {
    // SAFETY: both calls fill or read a local rlimit.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(limit.rlim_cur)
    }
}

/// Whether the process acts as the superuser.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
