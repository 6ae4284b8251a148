//! Errors of the operating system, classified by what the caller does next.
//!
//! **Owns** the mapping from `errno` values; both drivers report failures as negative errno values.

use thiserror::Error as ThisError;

/// Result of an operation on a disk, a socket or the runtime.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, classified by what the caller does next. Source: `errno(3)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The peer closed or reset the connection, or this side shut it down: drop the connection.
    #[error("the connection is closed")]
    Closed,
    /// No process listens at the address, or there is no route: try again later, or another address.
    #[error("the connection was refused or the host cannot be reached ({})", os(*.0))]
    Unreachable(i32),
    /// No answer in time: give up or reconnect.
    #[error("timed out")]
    TimedOut,
    /// The medium is full (ENOSPC, EDQUOT): free space.
    #[error("no space left on the device")]
    NoSpace,
    /// The medium failed to read or write (EIO and relatives): use another copy.
    #[error("the device reported an I/O error ({})", os(*.0))]
    Media(i32),
    /// The device was removed (ENODEV, ENXIO): wait for its return.
    #[error("the device is gone ({})", os(*.0))]
    Gone(i32),
    /// Another process uses it (EBUSY, EADDRINUSE, a lock).
    #[error("in use ({})", os(*.0))]
    Busy(i32),
    /// The file or device does not exist.
    #[error("no such file or device")]
    NotFound,
    /// Permission is missing.
    #[error("permission denied ({})", os(*.0))]
    Denied(i32),
    /// The platform or the file does not support this operation: use the slower way.
    #[error("not supported here ({})", os(*.0))]
    Unsupported(i32),
    /// File descriptors, memory or locked memory ran out: back off and try again.
    #[error("the system is out of resources ({})", os(*.0))]
    Exhausted(i32),
    /// The operation was cancelled, or the runtime is ending.
    #[error("cancelled")]
    Cancelled,
    /// The file ended before the end of the range: another process truncated it.
    #[error("the file is shorter than it was")]
    Truncated,
    /// Any other error, by its number.
    #[error("{}", os(*.0))]
    Os(i32),
}

fn os(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

impl Error {
    /// Returns the error for a positive errno value.
    #[must_use]
    pub fn from_errno(errno: i32) -> Error {
        match errno {
            libc::EPIPE
            | libc::ECONNRESET
            | libc::ESHUTDOWN
            | libc::ENOTCONN
            | libc::ECONNABORTED => Error::Closed,
            libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL => Error::Unreachable(errno),
            libc::ETIMEDOUT | libc::ETIME => Error::TimedOut,
            libc::ENOSPC | libc::EDQUOT => Error::NoSpace,
            libc::EIO | libc::EILSEQ | libc::ENODATA | libc::EREMOTEIO | libc::EBADMSG => {
                Error::Media(errno)
            }
            libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM => Error::Gone(errno),
            libc::EBUSY | libc::EADDRINUSE | libc::EWOULDBLOCK | libc::ETXTBSY => {
                Error::Busy(errno)
            }
            libc::ENOENT => Error::NotFound,
            libc::EACCES | libc::EPERM | libc::EROFS => Error::Denied(errno),
            libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => Error::Unsupported(errno),
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS => Error::Exhausted(errno),
            libc::ECANCELED => Error::Cancelled,
            other => Error::Os(other),
        }
    }

    /// Returns the result of a completion: a count, or the error for a negative errno.
    pub(crate) fn check(res: i32) -> Result<usize> {
        usize::try_from(res).map_err(|_| Error::from_errno(-res))
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        e.raw_os_error()
            .map_or(Error::Os(libc::EIO), Error::from_errno)
    }
}
