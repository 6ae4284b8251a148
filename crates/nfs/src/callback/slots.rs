//! CB_RECALL_SLOT (§20.8): sessions that send nothing hear that they should use fewer slots.
//!
//! **Called by** CREATE_SESSION. **Invariants**: one round is under way at a time, with at most [`SESSIONS`] sessions. A session
//! that sends requests hears the same in the reply of SEQUENCE, and gives slots back there.

use super::call::call;
use crate::client::BackState;
use crate::shared::Shared;
use crate::wire::callback::CallbackOp;
use std::sync::atomic::Ordering;

/// Most sessions that are called in one round.
const SESSIONS: usize = 64;

/// Asks large sessions to shrink, if few slots are left and nobody asks already.
pub(crate) fn recall_slots(shared: &Shared) {
    let (sessions, share) = shared.clients().shrinking(SESSIONS);
    let counters = shared.counters.callbacks.clone();
    let limit = shared.config.callback_timeout;
    let can_hear = sessions
        .into_iter()
        .filter(|session| session.back().state() == BackState::Working);
    let sessions: Vec<_> = can_hear.collect();
    if sessions.is_empty() || counters.recalls_slots.swap(true, Ordering::AcqRel) {
        return;
    }
    drop(io::spawn(async move {
        let op = CallbackOp::RecallSlot {
            target_highest: share - 1,
        };
        for session in sessions {
            call(&session, &counters, &op, Vec::new(), limit).await;
        }
        counters.recalls_slots.store(false, Ordering::Release);
    }));
}
