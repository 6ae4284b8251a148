//! Receiving task of a connection over iSER: PDUs, and memory that comes back.
//!
//! **Owns** the PDUs that wait for memory. **Called by** the queue. **Invariants**: the engine gets PDUs in the order in which they came; a PDU that ends
//! a task waits until the target can use no memory of the task any longer, so that the caller gets its buffer whole.

use super::connection::ConnectionShared;
use super::engine::Engine;
use super::error::{Error, ProtocolError, Result};
use super::iser::{IserLink, pdu_of};
use initiator::rdma::{Arrival, arrival};
use io::rdma::{Memory, Received, RemoteKey};
use iscsi::wire::Bhs;
use iscsi::wire::decode::Rules;
use std::collections::VecDeque;
use std::rc::Rc;

/// A PDU that was not handled.
struct Waiting {
    bhs: Bhs,
    data: Vec<u8>,
    /// The slot of the task that it ends.
    ends: Option<u16>,
}

struct Receiver {
    queue: Rc<ConnectionShared>,
    link: Rc<IserLink>,
    rules: Rules,
    waiting: VecDeque<Waiting>,
}

/// Receives until the queue pair has ended and all memory is back, and records the reason.
pub(super) async fn run(queue: Rc<ConnectionShared>, link: Rc<IserLink>, rules: Rules) {
    let mut receiver = Receiver {
        queue: queue.clone(),
        link,
        rules,
        waiting: VecDeque::new(),
    };
    loop {
        let handled = match arrival(receiver.link.queue_pair()).await {
            Arrival::Message(message) => receiver.message(message),
            Arrival::Memory(key, memory) => receiver.came_back(key, memory),
            Arrival::Ended(why) => {
                tracing::debug!(%why, "queue pair ended");
                return queue.fail(Error::Disconnected);
            }
        };
        if let Err(cause) = handled {
            queue.fail(cause);
        }
        queue.send_if_wanted();
    }
}

/// Sends what the engine wants to be sent, until the connection ends.
pub(super) async fn send(queue: Rc<ConnectionShared>, link: Rc<IserLink>) {
    loop {
        queue.send_wanted.notified().await;
        if queue.is_ending() {
            return;
        }
        let mut engine = queue.engine.borrow_mut();
        let messages = engine.take_messages();
        link.send_all(&mut engine.tasks, messages);
    }
}

impl Receiver {
    fn message(&mut self, mut message: Received) -> Result<()> {
        if self.queue.is_ending() {
            return Ok(());
        }
        let (bhs, data) = pdu_of(&message, &self.rules)?;
        let ends = self.queue.engine.borrow().ended_by(&bhs, &data);
        if let Some((key, memory)) = message.withdrawn.take() {
            let mut engine = self.queue.engine.borrow_mut();
            let of = self.link.came_back(&mut engine.tasks, key, memory);
            if of.is_none() || of != ends {
                let why = "a response that withdraws the memory of another task";
                return Err(ProtocolError::Transfer(why).into());
            }
        }
        if let Some(index) = ends.filter(|index| self.link.is_exposed(*index)) {
            self.link.withdraw(index);
        }
        self.waiting.push_back(Waiting { bhs, data, ends });
        self.handle_all()
    }

    fn came_back(&mut self, key: RemoteKey, memory: Memory) -> Result<()> {
        let mut engine = self.queue.engine.borrow_mut();
        self.link.came_back(&mut engine.tasks, key, memory);
        drop(engine);
        self.handle_all()
    }

    /// Handles the PDUs at the front whose memory is back.
    fn handle_all(&mut self) -> Result<()> {
        let is_back = |w: &mut Waiting| w.ends.is_none_or(|index| !self.link.is_exposed(index));
        while let Some(w) = self.waiting.pop_front_if(is_back) {
            if self.queue.is_ending() {
                return Ok(());
            }
            self.queue.control(&w.bhs, &w.data, Engine::iser_pdu)?;
        }
        Ok(())
    }
}
