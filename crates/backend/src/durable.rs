//! The token that stands for stable storage.

use io::disk::Flushed;

/// Proof that what was asked for is on stable storage. A reply that promises it (to FLUSH, COMMIT or a FUA write)
/// is made from this token and in no other way. Only a medium's confirmation makes one; it cannot be copied.
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

impl Durable {
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
