//! CB_RECALL (§20.2) until a delegation is returned or revoked, and CB_GETATTR (§20.1).
//!
//! **Called by** the service, once per delegation that is in the way. **Invariants**: a delegation is returned, or gone with its
//! client, or revoked when its time is over (§10.4.5); the client's answers and its silence change only the time between calls.

use super::call::{Answer, call};
use crate::attribute;
use crate::client::{BackState, Session};
use crate::handle::{HANDLE_LEN, ObjectId};
use crate::limits::RECALL_MAX;
use crate::shared::{Shared, wall_clock};
use crate::wire::callback::{CallbackOp, ReferringCall};
use crate::wire::{Attrs, Bitmap, Status};
use crate::xdr::{Reader, Xdr};
use filestate::{Recall, ReportedTimes};
use std::sync::Arc;
use std::time::Duration;

/// The attributes that the holder of a write delegation is asked for, besides times that it holds.
const TOLD: Bitmap = Bitmap::of(&[attribute::CHANGE, attribute::SIZE]);
/// Time between two looks for the return of a delegation, and between two calls.
const PAUSE: Duration = Duration::from_secs(1);

/// The sessions of a client on which it can be called, those where it answers first.
pub(super) fn sessions(shared: &Shared, client: u64) -> Vec<Arc<Session>> {
    let mut all = shared.clients().sessions_of(client);
    let rank = |session: &Arc<Session>| match session.back().state() {
        BackState::Working => 0,
        BackState::Untried => 1,
        BackState::Unwanted | BackState::Down | BackState::Failed => 2,
    };
    all.retain(|session| rank(session) < 2);
    all.sort_by_key(rank);
    all
}

/// The request that was answered with the delegation, if the client may not have seen the reply (§2.10.6.3).
fn referring(shared: &Shared, origin: &ReferringCall) -> Vec<ReferringCall> {
    let session = shared.sessions.get(&origin.session);
    let is_last = session.is_some_and(|s| s.is_last(origin.slot, origin.sequence));
    is_last.then_some(*origin).into_iter().collect()
}

/// The handle of the file of a delegation.
fn handle_of(shared: &Shared, recall: &Recall) -> [u8; HANDLE_LEN] {
    shared
        .handles
        .seal(ObjectId::File(recall.export, recall.file))
}

async fn call_client(shared: &Shared, recall: &Recall, op: &CallbackOp<'_>) -> Option<Answer> {
    let counters = shared.counters.callbacks.clone();
    for session in sessions(shared, recall.client) {
        let before = referring(shared, &recall.origin);
        let limit = shared.config.callback_timeout;
        let answer = call(&session, &counters, op, before, limit).await;
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// Recalls a delegation. Ends when it was returned or revoked. A client that does not answer has [`ServiceConfig::recall_timeout`]; one
/// that answered has a lease at least, and each use of the file gives it as much time again, for at most [`RECALL_MAX`].
///
/// [`ServiceConfig::recall_timeout`]: crate::service::ServiceConfig::recall_timeout
pub(crate) async fn recall(shared: &Arc<Shared>, recall: Recall) {
    let begun = io::time::now();
    let (time, most) = (shared.config.recall_timeout, begun + RECALL_MAX);
    let mut due = begun + time;
    let (mut is_known, mut progress) = (false, 0);
    loop {
        let now = io::time::now();
        let made = shared.states.of_state(recall.id).progress(recall.id);
        if made.is_none() || shared.expire(recall.client, now) {
            return;
        }
        if let Some(made) = made.filter(|made| is_known && *made > progress) {
            progress = made;
            due = due.max((now + time).min(most));
        }
        // Of a file that is not exported, no client can return anything.
        let is_withdrawn = shared.states.of_file(recall.file).is_withdrawn(recall.file);
        if now >= due || is_withdrawn {
            return shared.revoke(recall.id, recall.client);
        }
        if !is_known {
            let handle = handle_of(shared, &recall);
            let op = CallbackOp::Recall {
                stateid: recall.stateid,
                truncate: false,
                handle: &handle,
            };
            let called = call_client(shared, &recall, &op);
            let answer = io::timeout(due.since(now), called).await.ok().flatten();
            is_known = answer.is_some_and(|answer| answer.status == Status::Ok);
            if is_known {
                due = due.max(begun + shared.config.lease);
            }
        }
        io::time::sleep(PAUSE.min(due.since(io::time::now()))).await;
    }
}

/// Asks the holder of a write delegation for `change` and `size` of the file, whose `change` here is `server`.
pub(crate) async fn ask(shared: &Arc<Shared>, recall: Recall, server: u64) {
    let handle = handle_of(shared, &recall);
    let op = CallbackOp::GetAttr {
        handle: &handle,
        wanted: match recall.has_times {
            true => TOLD.or(&attribute::HELD_TIMES),
            false => TOLD,
        },
    };
    let answer = call_client(shared, &recall, &op).await;
    let answer = answer.filter(|answer| answer.status == Status::Ok);
    let told = answer.and_then(|answer| attributes_in(&answer.body));
    let now = io::time::now();
    let times = (now, wall_clock());
    shared
        .states
        .of_state(recall.id)
        .told(recall.id, told, server, times);
    if told.is_none() {
        // §10.4.3: a holder that does not answer loses the delegation.
        shared.recall(recall.file, None, false);
    }
}

/// `change` and `size` in the result of CB_GETATTR, and times if there are any.
fn attributes_in(body: &[u8]) -> Option<((u64, u64), ReportedTimes)> {
    let attrs = Attrs::decode(&mut Reader::new(body)).ok()?;
    if !TOLD.is_within(&attrs.mask) || !attrs.mask.is_within(&TOLD.or(&attribute::HELD_TIMES)) {
        return None;
    }
    let mut values = Reader::new(attrs.values);
    let own = (values.u64().ok()?, values.u64().ok()?);
    let mut times = ReportedTimes::default();
    for (number, time) in [
        (attribute::TIME_DELEG_ACCESS, &mut times.accessed),
        (attribute::TIME_DELEG_MODIFY, &mut times.modified),
    ] {
        if attrs.mask.has(number) {
            *time = Some(attribute::time(&mut values).ok()?);
        }
    }
    Some((own, times))
}
