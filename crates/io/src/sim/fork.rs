//! Copies of the simulating process, so that a run goes on in several ways from one moment.
//!
//! **Owns** `fork` (fork(2)) and the pipe through which a copy reports. **Called by** the search through sequences of
//! operations. **Invariants**: a copy ends with its report and never returns to its caller's caller; a copy that ends in
//! another way has no report; a copy ends with the thread that made it.
//!
//! Nothing below a simulation is shared with the kernel: disks, sockets and clock are memory of the process. So a copy has
//! the same future as the original, event by event.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

/// Exit status of a copy without a report.
const NO_REPORT: i32 = 101;

/// The process that [`fork`] returns in.
pub enum Forked {
    /// The copy.
    Copy(Report),
    /// The original.
    Original(ProcessCopy),
}

/// In a copy: the duty to report. A copy that drops it ends without a report.
pub struct Report(PipeWriter);

impl Report {
    /// Sends the report to the original, and ends the copy.
    pub fn send(mut self, bytes: &[u8]) -> ! {
        let is_sent = self.0.write_all(bytes).is_ok();
        end(if is_sent { 0 } else { NO_REPORT })
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        end(NO_REPORT);
    }
}

/// Ends this process without destructors: they belong to the original.
fn end(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// In the original: a running copy.
pub struct ProcessCopy {
    pid: libc::pid_t,
    report: PipeReader,
}

impl ProcessCopy {
    /// Waits for the copy's end. Returns its report; `None` if it ended without one.
    ///
    /// # Errors
    /// Reading the pipe failed.
    pub fn wait(mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.report.read_to_end(&mut bytes);
        let mut status = 0;
        // SAFETY: fills a local status; the process is our child, and no other code calls waitpid for it.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        read?;
        let is_whole = waited == self.pid && libc::WIFEXITED(status);
        Ok((is_whole && libc::WEXITSTATUS(status) == 0).then_some(bytes))
    }
}

/// Copies this process. Both go on from here: the copy has the calling thread only, and locks that other threads hold stay
/// taken in it.
///
/// # Errors
/// The kernel has no process or descriptor left.
pub fn fork() -> std::io::Result<Forked> {
    let (reader, writer) = pipe()?;
    // SAFETY: getpid and getppid cannot fail. The copy runs safe code on memory of its own; its locks are as documented.
    let (original, pid) = unsafe { (libc::getpid(), libc::fork()) };
    match pid {
        0 => {
            drop(reader);
            let report = Report(writer);
            // SAFETY: both calls take numbers only. The original may have ended before the first one.
            let is_orphan = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::getppid() != original
            };
            if is_orphan {
                end(NO_REPORT);
            }
            Ok(Forked::Copy(report))
        }
        pid if pid > 0 => Ok(Forked::Original(ProcessCopy {
            pid,
            report: reader,
        })),
        _ => Err(std::io::Error::last_os_error()),
    }
}
