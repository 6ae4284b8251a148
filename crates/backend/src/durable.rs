//! The token that stands for stable storage.

use io::disk::Flushed;

/// Proof that what was asked for is on stable storage. A reply that promises it (to FLUSH, COMMIT or a FUA write)
/// is made from this token and in no other way. A medium's confirmation makes one, or the administrator's word that this
/// disk's clients go without ([`Waived`]); it cannot be copied.
#[derive(Debug)]
#[must_use = "a reply that promises stable storage consumes this"]
pub struct Durable(());

impl From<Flushed> for Durable {
    fn from(_: Flushed) -> Durable {
        Durable(())
    }
}

/// A type whose values exist only after a medium confirmed, such as [`Flushed`] or a pool's own proof made of several:
/// one confirmation makes everything durable that had completed before it was asked for, whoever waits for it.
pub trait Confirmed {}

impl Confirmed for Flushed {}

impl<T: Confirmed> From<&T> for Durable {
    fn from(_: &T) -> Durable {
        Durable(())
    }
}

/// A type whose values exist only where whoever administers a disk said that its clients are to be told of stable storage
/// without it, such as a pool's proof that one volume is set so. It is the one other way to a [`Durable`], and says so by
/// its name; whoever has one makes it for the disk that it answers for, and does not keep it.
pub trait Waived {}

impl Durable {
    /// What a client is told that wants no stable storage of this disk.
    pub fn waived(_: impl Waived) -> Durable {
        Durable(())
    }

    /// For media whose only promise is to last as long as the process: RAM and null disks, which say so to the
    /// client by having no volatile cache in front of them.
    pub(crate) fn of_ram() -> Durable {
        Durable(())
    }

    /// One confirmation for several requests that all completed before it was asked for.
    pub fn and(self, other: Durable) -> Durable {
        let _ = other;
        self
    }
}
