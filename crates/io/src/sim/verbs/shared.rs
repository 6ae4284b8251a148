//! Shared receive queues of the simulated devices (IBA 10.2.9).
//!
//! **Called by** [`super::receives`]. **Invariants**: a queue is made with the first queue pair that uses it, and
//! ends with the last one; each of its receives is posted, or has a message that was not dropped; a receive whose queue pair has ended returns
//! as any other.

use crate::rdma::{DeviceEvent, count_device_event};
use std::collections::VecDeque;

/// A shared receive queue.
pub(super) struct SharedReceives {
    /// All its receives.
    count: u32,
    /// Buffers of posted receives.
    posted: VecDeque<Vec<u8>>,
    /// Queue pairs that take from it.
    pub(super) users: usize,
    /// Whether the event of few receives is to be raised.
    is_armed: bool,
}

/// The part of the receives that is few.
const LOW: u32 = 8;

impl SharedReceives {
    /// The queue with all its receives posted.
    pub(super) fn new(count: u32) -> SharedReceives {
        SharedReceives {
            count,
            posted: (0..count).map(|_| Vec::new()).collect(),
            users: 0,
            is_armed: true,
        }
    }

    /// Receives that are posted.
    pub(super) fn posted(&self) -> u32 {
        self.posted.len() as u32
    }

    /// A receive for a message, if one is posted.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let taken = self.posted.pop_front();
        if self.posted() < self.count / LOW && std::mem::take(&mut self.is_armed) {
            count_device_event(DeviceEvent::SharedReceivesLow);
        }
        taken
    }

    /// A receive has no message any longer.
    pub(super) fn post(&mut self, mut buffer: Vec<u8>) {
        // A receive of an earlier queue is one too many.
        if self.posted() < self.count {
            buffer.clear();
            self.posted.push_back(buffer);
            self.is_armed |= self.posted() >= 2 * self.count / LOW;
        }
    }
}
