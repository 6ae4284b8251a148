//! Connections over RDMA, as every initiator has them: memory that the target may use, and the events of a queue pair.
//!
//! **Owns** the keys of exposed memory, each with the slot of its command and a value of the protocol. **Called by** the queues of initiators and by
//! their receiving tasks. **Invariants**: a key belongs to one command; memory is withdrawn once; memory comes back when the queue pair ends, so that a
//! command may be sent again.

use io::rdma::{
    Ending, Exposed, Memory, QueuePair, QueuePairEvent, Received, RemoteKey, Returned, Verb,
    WorkRequest,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Memory that is exposed for the command in a slot.
struct ForCommand<T> {
    slot: u16,
    value: T,
    is_withdrawn: bool,
}

/// The memory that a target may use over one queue pair, by key. `T` is the protocol's value for each piece.
pub struct ExposedMemory<T>(RefCell<BTreeMap<RemoteKey, ForCommand<T>>>);

impl<T> Default for ExposedMemory<T> {
    fn default() -> ExposedMemory<T> {
        ExposedMemory(RefCell::default())
    }
}

impl<T> ExposedMemory<T> {
    /// Exposes memory for the command in a slot.
    ///
    /// # Errors
    /// The memory, as [`QueuePair::expose`].
    pub fn expose(
        &self,
        queue_pair: &QueuePair,
        (slot, value): (u16, T),
        memory: Memory,
    ) -> Result<Exposed, Memory> {
        let exposed = queue_pair.expose(memory)?;
        let command = ForCommand {
            slot,
            value,
            is_withdrawn: false,
        };
        self.0.borrow_mut().insert(exposed.at.key, command);
        Ok(exposed)
    }

    /// Whether the target may use memory of the command in a slot.
    #[must_use]
    pub fn is_exposed(&self, slot: u16) -> bool {
        self.0.borrow().values().any(|of| of.slot == slot)
    }

    /// Changes the value of the first memory of the command in a slot. False if it has none.
    pub fn change(&self, slot: u16, change: impl FnOnce(&mut T)) -> bool {
        let mut all = self.0.borrow_mut();
        let first = all.values_mut().find(|of| of.slot == slot);
        first.map(|of| change(&mut of.value)).is_some()
    }

    /// Withdraws the memory of the command in a slot. It comes back as events of the queue pair.
    pub fn withdraw(&self, queue_pair: &QueuePair, slot: u16) {
        let mut chain = Vec::new();
        for (key, of) in self.0.borrow_mut().iter_mut() {
            if of.slot == slot && !std::mem::replace(&mut of.is_withdrawn, true) {
                chain.push(WorkRequest {
                    tag: Some(u64::from(key.0)),
                    work: Verb::Withdraw { key: *key },
                });
            }
        }
        queue_pair.post(&mut chain);
    }

    /// Memory came back. Returns the slot of its command and its value; `None` if the key is none of ours.
    pub fn came_back(&self, key: RemoteKey) -> Option<(u16, T)> {
        let of = self.0.borrow_mut().remove(&key)?;
        Some((of.slot, of.value))
    }
}

/// An event of a queue pair that concerns an initiator.
pub enum Arrival {
    /// A message.
    Message(Received),
    /// Memory came back without a message.
    Memory(RemoteKey, Memory),
    /// The queue pair has ended, and all memory is back.
    Ended(Ending),
}

/// Waits for the next arrival; for ever after [`Arrival::Ended`].
pub async fn arrival(queue_pair: &QueuePair) -> Arrival {
    loop {
        match queue_pair.event().await {
            QueuePairEvent::Received(message) => return Arrival::Message(message),
            // The tag of a withdrawal is its key.
            QueuePairEvent::Done {
                tag,
                returned: Returned::Memory(memory),
                ..
            } => return Arrival::Memory(RemoteKey(tag as u32), memory),
            QueuePairEvent::Released { key, memory } => return Arrival::Memory(key, memory),
            QueuePairEvent::Done { .. } => {}
            QueuePairEvent::Ended(why) => return Arrival::Ended(why),
        }
    }
}
