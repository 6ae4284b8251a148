//! The `Durable` token: proof of stable storage.

use io::disk::Flushed;

/// Proof that the data of a request is on stable storage. A reply that promises this (to FLUSH, COMMIT or a FUA
/// write) can be made only from this token. It is made from a medium's confirmation, or from the administrator's
/// decision that this disk's clients get such replies without one ([`Waived`]). It cannot be copied.
#[derive(Debug)]
#[must_use = "a reply that promises stable storage consumes this"]
pub struct Durable(());

impl From<Flushed> for Durable {
    fn from(_: Flushed) -> Durable {
        Durable(())
    }
}

/// A type whose values exist only after a medium's confirmation, such as [`Flushed`], or a pool's proof made of
/// several. One confirmation makes every request durable that had completed before it was requested, of all clients.
pub trait Confirmed {}

impl Confirmed for Flushed {}

impl<T: Confirmed> From<&T> for Durable {
    fn from(_: &T) -> Durable {
        Durable(())
    }
}

/// A type whose values exist only if the administrator of a disk has waived stable storage for its clients, such as a
/// pool's proof that a volume has `sync=disabled`. It is the only other way to a [`Durable`]. Its owner makes it for
/// the disk that it answers for, and does not keep it.
pub trait Waived {}

impl Durable {
    /// The answer to a client of a disk with waived stable storage.
    pub fn waived(_: impl Waived) -> Durable {
        Durable(())
    }

    /// For RAM and null disks. They last only as long as the process, and report no volatile cache to the client.
    pub(crate) fn of_ram() -> Durable {
        Durable(())
    }

    /// One confirmation for several requests that all completed before it was requested.
    pub fn and(self, other: Durable) -> Durable {
        let _ = other;
        self
    }
}
