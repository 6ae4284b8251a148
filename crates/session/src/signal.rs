//! How others reach a connection: the reasons to look up, and its waker.
//!
//! **Owns** the flags of one connection. **Called by** connections on any shard and by the control plane.
//! **Invariants**: the first reason to close stays; raising a flag wakes the connection's task; taking the flags costs one load
//! when there are none.

use crate::admission::Evict;
use io::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

/// The reasons for a connection's end that every protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The peer closed it.
    Peer,
    /// The network failed, or the peer reset it.
    Network,
    /// The peer did not receive what was sent to it in time.
    SendStall,
    /// The peer did not move the data that it holds buffers for, and others waited for them.
    Reclaimed,
    /// The service shuts down.
    Drained,
    /// There are too many connections.
    Limit,
}

/// A protocol's reasons for a connection's end.
pub trait CloseReason: Copy + PartialEq + Send + From<Ended> + 'static {}

/// Implements [`CloseReason`] for an enumeration that has a variant of the same name for each [`Ended`].
#[macro_export]
macro_rules! close_reason {
    ($reason:ident) => {
        impl From<$crate::signal::Ended> for $reason {
            fn from(why: $crate::signal::Ended) -> $reason {
                match why {
                    $crate::signal::Ended::Peer => $reason::Peer,
                    $crate::signal::Ended::Network => $reason::Network,
                    $crate::signal::Ended::SendStall => $reason::SendStall,
                    $crate::signal::Ended::Reclaimed => $reason::Reclaimed,
                    $crate::signal::Ended::Drained => $reason::Drained,
                    $crate::signal::Ended::Limit => $reason::Limit,
                }
            }
        }

        impl $crate::signal::CloseReason for $reason {}
    };
}

/// The signal of one connection. Every task that may wake or close the connection holds a clone of its `Arc`.
pub struct Signal<R> {
    flags: AtomicU32,
    close: Mutex<Option<R>>,
    waker: Mutex<Option<Waker>>,
}

/// The connection is to end.
pub const CLOSE: u32 = 1;
/// Finish the commands in flight, then end.
pub const DRAIN: u32 = 2;
/// Commands are to be aborted.
pub const ABORT: u32 = 4;
/// Flag: read the socket's statistics from the kernel again.
pub const INFO: u32 = 8;
/// The first flag that a protocol may give a meaning of its own.
pub const OWN: u32 = 1 << 8;

impl<R> Default for Signal<R> {
    fn default() -> Signal<R> {
        Signal {
            flags: AtomicU32::new(0),
            close: Mutex::default(),
            waker: Mutex::default(),
        }
    }
}

impl<R: CloseReason> Signal<R> {
    /// Raises flags, and wakes the connection.
    pub fn raise(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::SeqCst);
        let waker = lock(&self.waker).clone();
        if let Some(w) = waker {
            w.wake();
        }
    }

    /// Ends the connection; the first reason stays.
    pub fn close(&self, why: R) {
        lock(&self.close).get_or_insert(why);
        self.raise(CLOSE);
    }

    /// Why the connection is to end, if it is.
    pub fn close_reason(&self) -> Option<R> {
        *lock(&self.close)
    }

    /// Takes the flags.
    #[inline]
    pub fn take(&self) -> u32 {
        if self.flags.load(Ordering::Acquire) == 0 {
            0
        } else {
            self.flags.swap(0, Ordering::SeqCst)
        }
    }

    /// Sets the waker of the connection's task.
    pub fn set_waker(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

impl<R: CloseReason> Evict for Signal<R> {
    fn evict(&self) {
        self.close(R::from(Ended::Limit));
    }
}
