//! Clients and sessions (§2.10, §8.3, §18.33 to §18.37, §18.46, §18.50, §18.51), sans-I/O.
//!
//! | module | owns |
//! |---|---|
//! | `clients` | client records by ID and owner: EXCHANGE_ID, CREATE_SESSION, DESTROY_CLIENTID, leases with courtesy |
//! | `session` | one session: slots and the reply cache |
//! | `sessions` | all sessions by ID |
//! | `info` | clients and their connections, for the control plane |
//! | `back` | the back channel of a session: slots, connections, state |
//! | `budget` | slots of all sessions |
//! | `path` | one connection as it is used for callbacks |
//! | `room` | shares of strangers and listed hosts, and the clients to evict at a limit |
//! | `grace` | the grace period after a restart: which clients may reclaim |
//!
//! **Called by** the service of file systems, and tests. **Invariants**: the numbers of clients, sessions and slots are bounded for each client and
//! in all; a retried request is answered with the reply of its first execution, or refused, but never executed again.

mod back;
mod budget;
mod clients;
mod grace;
mod info;
#[cfg(test)]
mod owner_tests;
mod path;
mod room;
mod session;
mod sessions;
#[cfg(test)]
mod tests;

pub use back::{BackChannel, BackEnd, BackSlot, BackSlots, BackState, CallbackProgram};
pub use budget::SlotBudget;
pub use clients::{Bounds, Clients, Created, Exchanged};
pub use grace::Grace;
pub use info::{ClientInfo, ConnectionInfo};
pub use path::CallbackPath;
pub use room::Visitor;
pub use session::{Begun, Session};
pub use sessions::Sessions;

use crate::rpc::Credential;
use io::time::Instant;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The identity that created a client record. AUTH_SYS: user and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Principal(Option<(u32, u32)>);

impl From<&Credential> for Principal {
    fn from(credential: &Credential) -> Self {
        Self(match credential {
            Credential::None => None,
            Credential::Sys(sys) => Some((sys.uid, sys.gid)),
        })
    }
}

/// The part of a client record that its sessions share: lease, and whether the record was removed.
#[derive(Debug)]
pub struct Lease {
    /// The last renewal, nanoseconds on the process's clock.
    renewed_at: AtomicU64,
    is_removed: AtomicBool,
    has_reclaimed: AtomicBool,
    /// Whether the client had state, so that its record is stored or about to be.
    is_recorded: AtomicBool,
    /// The flags of SEQUENCE for revoked stateids that the client did not free.
    revoked: AtomicU32,
}

impl Lease {
    fn new(now: Instant) -> Self {
        Self {
            renewed_at: AtomicU64::new(now.as_nanos()),
            is_removed: AtomicBool::new(false),
            has_reclaimed: AtomicBool::new(false),
            is_recorded: AtomicBool::new(false),
            revoked: AtomicU32::new(0),
        }
    }

    /// Renews the lease (§8.3).
    fn renew(&self, now: Instant) {
        self.renewed_at.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Time since the last renewal.
    fn age(&self, now: Instant) -> Duration {
        let renewed_at = self.renewed_at.load(Ordering::Relaxed);
        Duration::from_nanos(now.as_nanos().saturating_sub(renewed_at))
    }

    fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// Whether the client had state.
    fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Whether the client sent RECLAIM_COMPLETE.
    fn has_reclaimed(&self) -> bool {
        self.has_reclaimed.load(Ordering::Acquire)
    }
}
