//! The system's side of a mount: /dev/fuse, mount(2), and the program fusermount3 for users.
//!
//! **Owns** the connection to the kernel while it is made, and the unmounting. **Called by** the mount. **Invariants**: the
//! kernel is asked first, fusermount3 only if it refuses because the privilege is missing; fusermount3 gets its socket as standard input,
//! so that no descriptor is inherited otherwise.

use super::point::escape;
use crate::error::{Error, Result};
use crate::options::{MountOptions, Permissions};
use io::linux::{MountFlags, UnmountMode};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
/// The type in /proc/mounts is `fuse.` and this.
const SUBTYPE: &str = "wirepool";
/// Type bits and no permissions, octal: the root is a directory.
const ROOT_MODE: &str = "40000";

/// A connection to the kernel whose file system is mounted.
pub(super) struct Connection {
    pub(super) device: OwnedFd,
    /// Whether this process may open the device itself, for one descriptor per thread.
    pub(super) can_clone: bool,
}

/// Mounts at a checked mount point. Errors: `NoDevice`, `NoHelper`, `Refused`.
pub(super) fn connect(at: &Path, options: &MountOptions, is_read_only: bool) -> Result<Connection> {
    let device = match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(device) => Some(device),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(Error::NoDevice),
        Err(e) => return Err(refused(at, format!("{DEVICE}: {e}"))),
    };
    let can_clone = device.is_some();
    if let Some(device) = device {
        match mount_by_kernel(&device, at, options, is_read_only) {
            Ok(()) => {
                return Ok(Connection {
                    device: device.into(),
                    can_clone,
                });
            }
            Err(io::Error::Denied(_)) => {}
            Err(e) => return Err(refused(at, e.to_string())),
        }
    }
    let device = mount_by_helper(at, options, is_read_only)?;
    Ok(Connection { device, can_clone })
}

fn mount_by_kernel(
    device: &File,
    at: &Path,
    options: &MountOptions,
    is_read_only: bool,
) -> io::Result<()> {
    let (user, group) = io::linux::user_and_group();
    let mut data = format!(
        "fd={},rootmode={ROOT_MODE},user_id={user},group_id={group}",
        device.as_raw_fd()
    );
    for option in options_of_both(options) {
        data.push(',');
        data.push_str(option);
    }
    let flags = MountFlags {
        is_read_only,
        no_suid: !options.suid,
        no_devices: !options.devices,
        no_exec: !options.exec,
    };
    let kind = format!("fuse.{SUBTYPE}");
    io::linux::mount(&options.source, at, &kind, flags, &data)
}

/// Options that the kernel and fusermount3 share.
fn options_of_both(options: &MountOptions) -> Vec<&'static str> {
    let mut words = Vec::new();
    if options.permissions == Permissions::Kernel {
        words.push("default_permissions");
    }
    if options.allow_other {
        words.push("allow_other");
    }
    words
}

/// fusermount3 mounts, and sends the descriptor of the device over a socket (`_FUSE_COMMFD`).
fn mount_by_helper(at: &Path, options: &MountOptions, is_read_only: bool) -> Result<OwnedFd> {
    let failed = |reason: String| refused(at, reason);
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed(e.to_string()))?;
    let source = escape(&options.source);
    let mut words = vec![format!("fsname={source}"), format!("subtype={SUBTYPE}")];
    words.extend(options_of_both(options).into_iter().map(str::to_owned));
    if is_read_only {
        words.push("ro".to_owned());
    }
    if !options.exec {
        words.push("noexec".to_owned());
    }
    let started = helper()
        .arg("-o")
        .arg(words.join(","))
        .arg("--")
        .arg(at)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(Error::NoHelper),
        Err(e) => return Err(failed(format!("fusermount3: {e}"))),
    };
    let received = io::linux::receive_descriptor(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    let _ = child.wait();
    match received {
        Ok(Some(device)) => Ok(device),
        Ok(None) => Err(failed(format!("fusermount3 said: {}", said.trim()))),
        Err(e) => Err(failed(format!("fusermount3: {e}"))),
    }
}

fn helper() -> Command {
    Command::new("fusermount3")
}

fn refused(at: &Path, reason: String) -> Error {
    Error::Refused {
        at: at.to_owned(),
        reason,
    }
}

/// Unmounts. Errors: `Busy`; `Refused` for other reasons.
pub(super) fn disconnect(at: &Path, mode: UnmountMode, device: &str) -> Result<()> {
    let reason = match io::linux::unmount(at, mode) {
        Ok(()) => return Ok(()),
        Err(io::Error::Busy(_)) => return Err(Error::Busy(at.to_owned())),
        Err(e @ io::Error::Denied(_)) => e.to_string(),
        Err(e) => return Err(refused_unmount(at, &e.to_string())),
    };
    if mode == UnmountMode::Force {
        abort(device);
    }
    let mut command = helper();
    command.arg("-u");
    if mode != UnmountMode::Normal {
        command.arg("-z");
    }
    let done = command.arg("--").arg(at).stdin(Stdio::null()).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            match said.contains("busy") {
                true => Err(Error::Busy(at.to_owned())),
                false => Err(refused_unmount(at, said.trim())),
            }
        }
        Err(e) => Err(refused_unmount(at, &format!("{reason}; fusermount3: {e}"))),
    }
}

fn refused_unmount(at: &Path, reason: &str) -> Error {
    refused(at, format!("unmounting failed: {reason}"))
}

/// Aborts the connection of a mount, as its owner may (fusectl). Failing requests end, others are not affected.
fn abort(device: &str) {
    let minor = device.rsplit(':').next().unwrap_or(device);
    let file = format!("/sys/fs/fuse/connections/{minor}/abort");
    if let Err(e) = std::fs::write(&file, "1") {
        tracing::warn!("{file}: {e}: requests in flight are not aborted");
    }
}

/// Raises the kernel's read-ahead window of a mount, which only root may.
pub(super) fn set_read_ahead(device: &str, bytes: u32) {
    let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(e) = std::fs::write(&file, (bytes >> 10).to_string()) {
        tracing::debug!("{file}: {e}: the read-ahead window stays as it is");
    }
}
