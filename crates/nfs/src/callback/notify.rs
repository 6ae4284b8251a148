//! CB_NOTIFY_LOCK (§20.11): a lock owner that waits hears that its lock is free.
//!
//! **Called by** the end of each COMPOUND that freed locks others wait for. **Invariants**: the lock is not kept for the owner; one that does
//! not take it within [`TURN`] lets the next owner of the queue hear. A callback that is lost is harmless: clients ask again.

use super::call::call;
use super::recall::sessions;
use crate::handle::ObjectId;
use crate::shared::Shared;
use crate::wire::Owner;
use crate::wire::callback::CallbackOp;
use filestate::Waiter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time in which an owner that was told may take its lock before the queue is looked at again.
const TURN: Duration = Duration::from_secs(1);

/// Tells a lock owner that its lock is free.
pub(crate) async fn notify_lock(shared: &Arc<Shared>, waiter: Waiter) {
    let handle = shared
        .handles
        .seal(ObjectId::File(waiter.export, waiter.file));
    let op = CallbackOp::NotifyLock {
        handle: &handle,
        owner: Owner {
            client: waiter.client,
            name: &waiter.owner,
        },
    };
    let counters = shared.counters.callbacks.clone();
    for session in sessions(shared, waiter.client) {
        let limit = shared.config.callback_timeout;
        let answer = call(&session, &counters, &op, Vec::new(), limit).await;
        if answer.is_some() {
            shared.counters.lock_notices.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    io::time::sleep(TURN).await;
    shared.states.of_file(waiter.file).look_again(waiter.file);
    shared.wake_lockers();
}
