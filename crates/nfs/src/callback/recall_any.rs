//! CB_RECALL_ANY (§20.6): clients with many delegations hear that they should return some of them.
//!
//! **Called by** OPEN that grants a delegation, or has no room for one. **Invariants**: one round is under way at a time, with at most
//! [`CLIENTS`] clients, and rounds are [`PAUSE`] apart; a client that keeps its delegations loses nothing.

use super::call::call;
use super::recall::sessions;
use crate::shared::Shared;
use crate::wire::Bitmap;
use crate::wire::callback::CallbackOp;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most clients that are called in one round.
const CLIENTS: usize = 64;
/// Time between two rounds.
const PAUSE: Duration = Duration::from_secs(10);
/// `RCA4_TYPE_MASK_RDATA_DLG`, `RCA4_TYPE_MASK_WDATA_DLG`.
const TYPES: Bitmap = Bitmap::of(&[0, 1]);

/// Asks the clients with the most delegations to keep half of them, if there is little room left and nobody asks already.
pub(crate) fn recall_any(shared: &Arc<Shared>) {
    let counters = shared.counters.callbacks.clone();
    if !shared.states.is_crowded() || counters.recalls_any.swap(true, Ordering::AcqRel) {
        return;
    }
    let shared = shared.clone();
    drop(io::spawn(async move {
        let clients = shared.states.holders(CLIENTS);
        for (client, count) in clients {
            let op = CallbackOp::RecallAny {
                objects_to_keep: count as u32 / 2,
                types: TYPES,
            };
            for session in sessions(&shared, client) {
                let limit = shared.config.callback_timeout;
                let answer = call(&session, &counters, &op, Vec::new(), limit).await;
                if answer.is_some() {
                    break;
                }
            }
        }
        io::time::sleep(PAUSE).await;
        counters.recalls_any.store(false, Ordering::Release);
    }));
}
