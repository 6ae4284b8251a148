//! A callback path: one connection as the server uses it for calls to its client (§2.10.3.1).
//!
//! **Owns** [`CallbackPath`]: calls that were not sent, and calls whose replies are awaited. **Called by** callbacks on any shard,
//! which add calls, and by the connection, which sends them and brings replies. **Invariants**: each call gets its reply or,
//! when the connection ends, none; at most [`CALLBACKS_MAX`] calls wait; nothing here waits for the client.

use crate::export::Standing;
use crate::limits::CALLBACKS_MAX;
use io::sync::lock;
use io::sync::oneshot::{self, Receiver, Sender};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Default)]
struct State {
    /// Records that the connection must send.
    unsent: Vec<Vec<u8>>,
    /// Calls without a reply, by transaction number.
    waiting: HashMap<u32, Sender<Vec<u8>>>,
    last_xid: u32,
    is_closed: bool,
}

/// A connection that may carry callbacks.
pub struct CallbackPath {
    state: Mutex<State>,
    /// Whether a reply came, and none was missed since.
    is_answering: AtomicBool,
    /// Whether a reply was missed, and none came since.
    is_silent: AtomicBool,
    /// The standing of the host at a change of the exports: see [`CallbackPath::standing`].
    standing: AtomicU64,
    /// Longest call that the connection carries, bytes.
    call_max: usize,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for CallbackPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbackPath")
    }
}

impl CallbackPath {
    /// A path of a connection that `wake` wakes.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::default(),
            is_answering: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            standing: AtomicU64::new(0),
            call_max: usize::MAX,
            wake: Box::new(wake),
        }
    }

    /// The same path for calls of at most `len` bytes.
    #[must_use]
    pub fn with_calls_up_to(self, len: usize) -> Self {
        Self {
            call_max: len,
            ..self
        }
    }

    /// The standing of the connection's host under the exports as of this change, which `find` finds out once for each change.
    pub fn standing(&self, change: u64, find: impl FnOnce() -> Standing) -> Standing {
        const BITS: u32 = 2;
        let known = self.standing.load(Ordering::Relaxed);
        // The number of a change is below 2^62 until the year 2116.
        if known >> BITS == change {
            match known & 3 {
                1 => return Standing::Stranger,
                2 => return Standing::Admitted,
                3 => return Standing::Listed,
                _ => {}
            }
        }
        let standing = find();
        let code = match standing {
            Standing::Stranger => 1,
            Standing::Admitted => 2,
            Standing::Listed => 3,
        };
        self.standing
            .store(change << BITS | code, Ordering::Relaxed);
        standing
    }

    /// Adds a call; `encode` makes its record for a transaction number. Returns the future of the reply behind its RPC
    /// transaction number: `None` if the connection ends before. `None` if the path is closed, too many calls wait, or the record is too long.
    pub fn call(&self, encode: impl FnOnce(u32) -> Vec<u8>) -> Option<Receiver<Vec<u8>>> {
        let mut state = lock(&self.state);
        if state.is_closed || state.waiting.len() >= CALLBACKS_MAX {
            return None;
        }
        // Calls end long before the numbers wrap.
        state.last_xid = state.last_xid.wrapping_add(1);
        let xid = state.last_xid;
        let record = encode(xid);
        if record.len() > self.call_max {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(xid, sender);
        state.unsent.push(record);
        drop(state);
        (self.wake)();
        Some(receiver)
    }

    /// The next calls that must be sent, at most `max`.
    pub fn take_unsent(&self, max: usize) -> Vec<Vec<u8>> {
        let mut state = lock(&self.state);
        let count = state.unsent.len().min(max);
        state.unsent.drain(..count).collect()
    }

    /// A reply arrived. Returns whether a call with this transaction number waited for it.
    pub fn answered(&self, xid: u32, reply: Vec<u8>) -> bool {
        let waiting = lock(&self.state).waiting.remove(&xid);
        let Some(sender) = waiting else {
            return false;
        };
        self.is_silent.store(false, Ordering::Release);
        self.is_answering.store(true, Ordering::Release);
        sender.send(reply);
        true
    }

    /// A reply did not come in time. The path is not used again before a reply comes, or the client binds it again.
    pub fn missed(&self) {
        self.is_silent.store(true, Ordering::Release);
        self.is_answering.store(false, Ordering::Release);
    }

    /// The client bound the connection again.
    pub fn revive(&self) {
        self.is_silent.store(false, Ordering::Release);
    }

    /// The connection ended: no reply will come.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.unsent.clear();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    /// Whether the connection ended.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    /// Whether calls may be sent: the connection is there, and missed no reply.
    pub fn is_usable(&self) -> bool {
        !self.is_silent.load(Ordering::Acquire) && !self.is_closed()
    }

    /// Whether the client answers here.
    pub fn is_answering(&self) -> bool {
        self.is_answering.load(Ordering::Acquire) && !self.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll, Waker};

    fn outcome(receiver: Receiver<Vec<u8>>) -> Poll<Option<Vec<u8>>> {
        pin!(receiver).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn record(xid: u32) -> Vec<u8> {
        xid.to_be_bytes().to_vec()
    }

    #[test]
    fn replies_find_their_calls() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let path = CallbackPath::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (first, second) = (path.call(record).unwrap(), path.call(record).unwrap());
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        assert_eq!(path.take_unsent(1), [record(1)]);
        assert_eq!(path.take_unsent(9), [record(2)]);
        assert!(path.take_unsent(9).is_empty());
        assert!(path.answered(2, vec![7]));
        assert!(!path.answered(2, vec![7]), "a reply is taken once");
        assert!(!path.answered(9, vec![7]), "a reply to no call");
        assert_eq!(outcome(second), Poll::Ready(Some(vec![7])));
        path.close();
        assert_eq!(outcome(first), Poll::Ready(None));
        assert!(path.call(record).is_none() && !path.is_usable());
    }

    #[test]
    fn a_call_that_is_too_long_is_not_made() {
        let path = CallbackPath::new(|| {}).with_calls_up_to(3);
        assert!(path.call(record).is_none() && path.take_unsent(1).is_empty());
    }

    #[test]
    fn calls_that_wait_are_bounded() {
        let path = CallbackPath::new(|| {});
        let waiting: Vec<_> = (0..CALLBACKS_MAX).map(|_| path.call(record)).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(path.call(record).is_none());
        path.answered(5, Vec::new());
        assert!(path.call(record).is_some());
    }

    #[test]
    fn a_silent_path_is_not_used_until_it_is_bound_or_answers() {
        let path = CallbackPath::new(|| {});
        let _late = path.call(record);
        assert!(path.is_usable() && !path.is_answering());
        path.missed();
        assert!(!path.is_usable());
        path.revive();
        assert!(path.is_usable() && !path.is_answering());
        path.missed();
        path.answered(1, Vec::new());
        assert!(path.is_usable() && path.is_answering());
    }
}
