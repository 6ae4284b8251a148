//! Expectations about locks: at any time one client has the lock of a range.
//!
//! **Owns** [`LockModel`]. **Called by** the locking jobs and by clients that connect again. **Invariants** that it checks: while a
//! client has a lock and its session lives, nobody else gets it; a lock that is reclaimed after a restart of the server was granted to
//! nobody else in between.

use nfs_initiator::{LinkState, Session};
use std::rc::Weak;

/// Number of ranges.
pub(super) const RANGES: usize = 2;
/// Bytes of a range.
pub(super) const RANGE_LEN: u64 = 100;

/// The client, the incarnation of the server when it asked for the lock, and its session.
pub(super) type Claimant = (usize, u32, Weak<Session>);

/// One range.
#[derive(Default)]
struct LockedRange {
    grants: u64,
    holder: Option<Claimant>,
}

/// See the module header.
#[derive(Default)]
pub(super) struct LockModel([LockedRange; RANGES]);

fn is_live(session: &Weak<Session>) -> bool {
    session
        .upgrade()
        .is_some_and(|session| session.state() == LinkState::Live)
}

impl LockModel {
    /// The server granted a lock. Returns the number of the grant. Errors: another client has it for certain; `epoch` is the present
    /// incarnation of the server.
    pub(super) fn granted(
        &mut self,
        range: usize,
        to: Claimant,
        epoch: u32,
    ) -> Result<u64, String> {
        let at = &mut self.0[range];
        let other = at.holder.as_ref().filter(|(who, ..)| *who != to.0);
        if let Some((who, began, session)) = other
            && *began == epoch
            && to.1 == epoch
            && is_live(session)
            && is_live(&to.2)
        {
            return Err(format!(
                "range {range} was granted to client {}, and client {who} has it",
                to.0
            ));
        }
        at.grants += 1;
        at.holder = Some(to);
        Ok(at.grants)
    }

    /// A client that had grant number `grant` reclaimed the lock. Errors: another client had it since.
    pub(super) fn reclaimed(
        &mut self,
        range: usize,
        by: Claimant,
        grant: u64,
    ) -> Result<(), String> {
        let at = &mut self.0[range];
        if at.grants != grant {
            return Err(format!(
                "client {} reclaimed range {range} by grant {grant}, but grant {} followed",
                by.0, at.grants
            ));
        }
        at.holder = Some(by);
        Ok(())
    }

    /// A client is about to unlock, or lost the lock.
    pub(super) fn released(&mut self, range: usize, by: usize) {
        let holder = &mut self.0[range].holder;
        holder.take_if(|(who, ..)| *who == by);
    }
}
