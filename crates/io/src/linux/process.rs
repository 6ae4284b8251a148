//! Processes as the kernel sees them: limits, user, processor time.

use std::time::Duration;

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

/// Processor time of the calling thread (user and system).
#[must_use]
pub fn thread_cpu_time() -> Duration {
    cpu_clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// Processor time of a process (user and system): of all its threads, those that ended too, and of the kernel's that work for
/// its rings. None if there is no such process.
#[must_use]
pub fn process_cpu_time(pid: u32) -> Option<Duration> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: fills a local clock's name.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    cpu_clock(clock)
}

fn cpu_clock(clock: libc::clockid_t) -> Option<Duration> {
    // SAFETY: fills a local timespec.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut t) != 0 {
            return None;
        }
        t
    };
    let ns = u32::try_from(t.tv_nsec).unwrap_or(0);
    Some(Duration::new(t.tv_sec.unsigned_abs(), ns))
}
