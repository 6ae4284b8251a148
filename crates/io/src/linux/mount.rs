//! Mounts: mount(2), umount2(2), syncfs(2), and a descriptor received from another process.
//!
//! **Owns** the system calls behind the FUSE mount. **Called by** the crate `fuse`, on threads that may block.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Error as OsError;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::{Error, Result};

/// Restrictions of a mount (mount(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountFlags {
    /// Every mutation is refused (`MS_RDONLY`).
    pub is_read_only: bool,
    /// Setuid and setgid bits and file capabilities have no effect (`MS_NOSUID`).
    pub no_suid: bool,
    /// Device files have no effect (`MS_NODEV`).
    pub no_devices: bool,
    /// Programs cannot be executed (`MS_NOEXEC`).
    pub no_exec: bool,
}

/// How a file system is unmounted (umount2(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountMode {
    /// Fails with [`Error::Busy`] while files are open.
    Normal,
    /// The name is gone at once; open files work until they are closed (`MNT_DETACH`).
    Detach,
    /// As `Detach`, and the connection to the server is aborted (`MNT_FORCE`): requests in flight fail.
    Force,
}

fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| Error::Os(libc::EINVAL))
}

fn check(result: i32) -> Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(OsError::last_os_error().into()),
    }
}

/// Mounts a file system of type `kind` at a directory. `data` are the options of that type. Errors: `Denied` without the
/// privilege, `Busy`, `NotFound`.
pub fn mount(source: &str, at: &Path, kind: &str, flags: MountFlags, data: &str) -> Result<()> {
    let source = c_string(OsStr::new(source))?;
    let at = c_string(at.as_os_str())?;
    let kind = c_string(OsStr::new(kind))?;
    let data = c_string(OsStr::new(data))?;
    let bits = [
        (flags.is_read_only, libc::MS_RDONLY),
        (flags.no_suid, libc::MS_NOSUID),
        (flags.no_devices, libc::MS_NODEV),
        (flags.no_exec, libc::MS_NOEXEC),
    ];
    let bits = bits
        .iter()
        .filter(|(is_set, _)| *is_set)
        .fold(0, |all, (_, bit)| all | bit);
    // SAFETY: all four strings end with NUL and outlive the call, which only reads them.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            bits,
            data.as_ptr().cast(),
        )
    })
}

/// Unmounts what is mounted at a directory. Symbolic links are not followed. Errors: `Busy`, `Denied`; `Os` if nothing is
/// mounted there (EINVAL).
pub fn unmount(at: &Path, mode: UnmountMode) -> Result<()> {
    let at = c_string(at.as_os_str())?;
    let flags = libc::UMOUNT_NOFOLLOW
        | match mode {
            UnmountMode::Normal => 0,
            UnmountMode::Detach => libc::MNT_DETACH,
            UnmountMode::Force => libc::MNT_DETACH | libc::MNT_FORCE,
        };
    // SAFETY: the path ends with NUL and outlives the call, which only reads it.
    check(unsafe { libc::umount2(at.as_ptr(), flags) })
}

/// Writes the kernel's dirty data of the file system that holds `file` (syncfs(2)). Errors: those of writing, `Media` among
/// them.
pub fn sync_file_system(file: &File) -> Result<()> {
    // SAFETY: no memory is passed, and the descriptor is open.
    check(unsafe { libc::syncfs(file.as_raw_fd()) })
}

/// Asks the file system at a path for its space (statfs(2)). A FUSE mount whose server has ended answers `ENOTCONN` to this,
/// while stat(2) may be answered from the kernel's cache.
pub fn ask_file_system(at: &Path) -> Result<()> {
    let at = c_string(at.as_os_str())?;
    // SAFETY: all bytes zero are a valid `statfs`; the path ends with NUL, and both outlive the call, which fills the latter.
    check(unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::statfs(at.as_ptr(), &raw mut found)
    })
}

/// Users and groups of this process as the kernel sees them: (uid, gid).
#[must_use]
pub fn user_and_group() -> (u32, u32) {
    // SAFETY: both take nothing and cannot fail.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// Receives one descriptor that another process sends over a socket (SCM_RIGHTS, unix(7)); it is closed on exec. `None` if
/// the other end was closed without one.
pub fn receive_descriptor(from: &UnixStream) -> Result<Option<OwnedFd>> {
    /// Room for one control message with one descriptor, aligned as `cmsghdr`.
    #[repr(C)]
    union Control {
        bytes: [u8; 64],
        align: libc::cmsghdr,
    }
    let mut byte = 0u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = Control { bytes: [0; 64] };
    // SAFETY: a zeroed msghdr is an empty message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    loop {
        // SAFETY: the message points to one local byte and to the local control area, with their true lengths.
        let received =
            unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        match received {
            0 => return Ok(None),
            1.. => break,
            _ => match OsError::last_os_error() {
                e if e.kind() == std::io::ErrorKind::Interrupted => {}
                e => return Err(e.into()),
            },
        }
    }
    // SAFETY: the kernel filled the control area, and CMSG_FIRSTHDR checks its length. A message of type SCM_RIGHTS with room
    // for a descriptor has one, which this process owns from now on.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
            || (*header).cmsg_len < libc::CMSG_LEN(size_of::<i32>() as u32) as usize
        {
            return Ok(None);
        }
        let descriptor = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        Ok((descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_socket_has_no_descriptor() {
        let (here, there) = UnixStream::pair().expect("a pair");
        drop(there);
        assert!(receive_descriptor(&here).expect("an end").is_none());
        let (here, mut there) = UnixStream::pair().expect("a pair");
        std::io::Write::write_all(&mut there, b"x").expect("room");
        assert!(receive_descriptor(&here).expect("a byte").is_none());
    }

    #[test]
    fn a_directory_without_a_mount_cannot_be_unmounted() {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = unmount(dir.path(), UnmountMode::Normal).expect_err("nothing is mounted");
        assert!(
            matches!(refused, Error::Os(_) | Error::Denied(_)),
            "{refused}"
        );
    }
}
