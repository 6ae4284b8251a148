//! Operations in flight.
//!
//! **Owns** the table of operations of one runtime. **Invariants**: the data of an operation (buffers, file handles) stays in
//! the table until its last completion, even if the future that waits for it is dropped. In that case the operation is
//! cancelled, and its data is dropped when the driver reports the completion.

use crate::Error;
use crate::buf::{IoBuf, RecvBuf, SendBatch, SharedBuf};
use crate::net::SocketHandle;
use slab::Slab;
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One request to a driver, with everything that it needs. Its result is a count or a negative errno.
pub(crate) enum Op {
    /// Waits for a connection. The operation owns the new connection until the caller takes it.
    Accept {
        socket: Rc<SocketHandle>,
        accepted: Option<SocketHandle>,
    },
    /// Connects a new socket.
    Connect {
        socket: Rc<SocketHandle>,
        addr: SocketAddr,
    },
    /// Receives first into `direct` from `at` on, then into the tail of `staging`. The result 0 is the end of the stream.
    Recv {
        socket: Rc<SocketHandle>,
        direct: Option<(IoBuf, usize)>,
        staging: RecvBuf,
        poll_first: bool,
    },
    /// Sends the batch from byte `sent` on.
    Send {
        socket: Rc<SocketHandle>,
        batch: SendBatch,
        sent: usize,
    },
    /// Waits until a descriptor is readable.
    Readable {
        source: Arc<dyn AsRawFd + Send + Sync>,
    },
    /// Reads into `buf[done..]` from `offset + done`.
    Read {
        disk: Arc<crate::disk::Handle>,
        buf: IoBuf,
        done: usize,
        offset: u64,
    },
    /// Writes `buf[done..]` at `offset + done`; with `dsync` the data is stable when it completes.
    Write {
        disk: Arc<crate::disk::Handle>,
        data: SharedBuf,
        offset: u64,
        dsync: bool,
    },
    /// Makes all completed writes stable.
    Flush { disk: Arc<crate::disk::Handle> },
    /// Makes a range read as zero; `deallocate` frees its space.
    Zero {
        disk: Arc<crate::disk::Handle>,
        offset: u64,
        len: u64,
        deallocate: bool,
    },
}

/// Result of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// A count, a handle, or a negative errno.
    pub(crate) result: i32,
    /// Of a receive: whether the socket has more bytes.
    pub(crate) more: bool,
}

pub(crate) struct Slot {
    pub(crate) op: Option<Op>,
    state: OpState,
}

enum OpState {
    /// Submitted; has the waker of the waiting task.
    Pending(Option<Waker>),
    /// Submitted; its future was dropped.
    Orphan,
    Done(Outcome),
}

/// The operations of one runtime, by key.
#[derive(Default)]
pub(crate) struct OpTable {
    slots: Slab<Slot>,
}

impl OpTable {
    pub(crate) fn insert(&mut self, op: Op) -> usize {
        self.slots.insert(Slot {
            op: Some(op),
            state: OpState::Pending(None),
        })
    }

    pub(crate) fn get_mut(&mut self, key: usize) -> &mut Op {
        self.slots[key]
            .op
            .as_mut()
            .expect("an operation in flight has its data")
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Records a completion. Returns the waker of the waiting task, and the data to be dropped while nothing is borrowed.
    pub(crate) fn complete(&mut self, key: usize, outcome: Outcome) -> (Option<Waker>, Option<Op>) {
        let Some(slot) = self.slots.get_mut(key) else {
            return (None, None);
        };
        if let Some(Op::Accept { accepted, .. }) = &mut slot.op
            && let Ok(handle) = Error::check(outcome.result)
        {
            *accepted = Some(SocketHandle::of_result(handle));
        }
        match std::mem::replace(&mut slot.state, OpState::Done(outcome)) {
            OpState::Pending(waker) => (waker, None),
            OpState::Orphan => (None, self.slots.remove(key).op),
            OpState::Done(_) => unreachable!("an operation completes once"),
        }
    }
}

/// Future of one operation's result.
pub(crate) struct OpFuture {
    pub(crate) key: usize,
    pub(crate) rt: Rc<super::Shared>,
    pub(crate) done: bool,
}

impl Future for OpFuture {
    type Output = (Outcome, Op);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key;
        let mut ops = self.rt.ops.borrow_mut();
        match &mut ops.slots[key].state {
            OpState::Done(outcome) => {
                let outcome = *outcome;
                let op = ops
                    .slots
                    .remove(key)
                    .op
                    .expect("an operation has its data until it is taken");
                drop(ops);
                self.done = true;
                Poll::Ready((outcome, op))
            }
            OpState::Pending(waker) => {
                match waker {
                    Some(w) if w.will_wake(cx.waker()) => {}
                    _ => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            OpState::Orphan => unreachable!("a waiting future is no orphan"),
        }
    }
}

impl Drop for OpFuture {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let key = self.key;
        let data = {
            let mut ops = self.rt.ops.borrow_mut();
            match ops.slots[key].state {
                OpState::Done(_) => Some(ops.slots.remove(key)),
                _ => {
                    ops.slots[key].state = OpState::Orphan;
                    None
                }
            }
        };
        if data.is_none() {
            self.rt.driver.borrow_mut().cancel(key);
        }
    }
}
