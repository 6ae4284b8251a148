//! Attributes of files.

use super::Handle;

/// Nanoseconds since 1970, UTC, without leap seconds: from the year 1677 to 2262.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The nearest time to `seconds` and `nanoseconds` since 1970 that it can represent.
    #[must_use]
    pub fn from_parts(seconds: i64, nanoseconds: u32) -> Self {
        let whole = seconds.saturating_mul(1_000_000_000);
        Self(whole.saturating_add(nanoseconds.into()))
    }

    /// Whole seconds since 1970, rounded down, and the nanoseconds that remain.
    #[must_use]
    pub fn parts(self) -> (i64, u32) {
        let nanoseconds = self.0.rem_euclid(1_000_000_000);
        (self.0.div_euclid(1_000_000_000), nanoseconds as u32)
    }
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// The attributes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The object.
    pub handle: Handle,
    /// Its kind.
    pub kind: FileKind,
    /// Permission, setuid, setgid and sticky bits, below 0o10000.
    pub mode: u16,
    /// Number of names; of a directory: 2 and its subdirectories.
    pub links: u32,
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
    /// Size in bytes; of a symbolic link: of its target.
    pub size: u64,
    /// Bytes of space that its data takes, in units of 512.
    pub used: u64,
    /// The device's number; 0 for other kinds.
    pub device: u64,
    /// Last access, updated as `relatime` says.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of contents or attributes.
    pub changed: Timestamp,
    /// Creation.
    pub created: Timestamp,
    /// Grows with each change of contents or attributes (RFC 8881, section 5.8.1.4), never for an access.
    pub change: u64,
}

/// A new value of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// It stays.
    #[default]
    Keep,
    /// The server's present time. Needs only permission to write.
    Now,
    /// This time. Only for the owner.
    To(Timestamp),
    /// This time, which a client kept while it held the file's times alone (RFC 9754, section 5). Only for the owner. If nothing
    /// else is set, the last change is not the present, but as late as this modification; an access changes nothing else.
    Held(Timestamp),
}

impl SetTime {
    /// The time afterwards, of one that was `before`, at `now`.
    #[must_use]
    pub fn after(self, before: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            Self::Keep => before,
            Self::Now => now,
            Self::To(time) | Self::Held(time) => time,
        }
    }
}

/// Attributes to be set in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits, below 0o10000.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: SetTime,
    /// Last change of the contents.
    pub modified: SetTime,
    /// Creation (NFSv4's `time_create`).
    pub created: Option<Timestamp>,
    /// Nothing is set unless the object's last change is this one (NFSv3's guard).
    pub guard: Option<Timestamp>,
}

impl SetAttributes {
    /// Whether nothing but times that a client held is set.
    #[must_use]
    pub fn is_only_held(&self) -> bool {
        use SetTime::{Held, Keep};
        let times = (self.accessed, self.modified);
        let rest = Self {
            accessed: Keep,
            modified: Keep,
            guard: None,
            ..*self
        };
        matches!(times, (Held(_), Held(_) | Keep) | (Keep, Held(_))) && rest == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_have_positive_nanoseconds() {
        assert_eq!(Timestamp(-1).parts(), (-1, 999_999_999));
        assert_eq!(Timestamp::from_parts(-1, 999_999_999), Timestamp(-1));
        assert_eq!(Timestamp::from_parts(i64::MAX, 0), Timestamp(i64::MAX));
        assert_eq!(Timestamp::from_parts(i64::MIN, 5), Timestamp(i64::MIN + 5));
    }
}
