//! Receiving task of a connection over RDMA: replies, and memory that comes back.
//!
//! **Owns** the replies that wait for memory. **Called by** the session. **Invariants**: the engine gets replies in the order in which they came; a reply
//! waits until the server can use no memory of its call any longer.

use super::super::connection::ConnectionShared;
use super::super::error::{Error, ProtocolError, Result};
use super::{NOT_A_REPLY, RdmaLink, header_of};
use initiator::rdma::{Arrival, arrival};
use io::rdma::{Memory, Received, RemoteKey};
use nfs::rpc::rdma::Kind;
use nfs::rpc::rdma::chunks::len_of;
use std::collections::VecDeque;
use std::rc::Rc;

/// A reply that was not handled.
struct Waiting {
    /// The slot of its call.
    index: u16,
    body: Body,
}

enum Body {
    /// The record, and the bytes that were written to the buffer of a READ.
    Inline(Vec<u8>, Option<usize>),
    /// The record has these bytes of the memory for long replies.
    Memory(usize),
}

struct Receiver {
    shared: Rc<ConnectionShared>,
    link: Rc<RdmaLink>,
    connection: usize,
    waiting: VecDeque<Waiting>,
}

/// Receives until the queue pair has ended and all memory is back, and records the reason.
pub(in super::super) async fn run(
    shared: Rc<ConnectionShared>,
    link: Rc<RdmaLink>,
    connection: usize,
) {
    let mut receiver = Receiver {
        shared: shared.clone(),
        link,
        connection,
        waiting: VecDeque::new(),
    };
    loop {
        let handled = match arrival(receiver.link.queue_pair()).await {
            Arrival::Message(message) => receiver.message(message),
            Arrival::Memory(key, memory) => receiver.came_back(key, memory),
            Arrival::Ended(why) => {
                tracing::debug!(%why, "queue pair ended");
                return shared.end(Error::Disconnected);
            }
        };
        if let Err(cause) = handled {
            shared.end(cause);
        }
    }
}

/// Sends the calls of a connection, until the session ends.
pub(in super::super) async fn send(
    shared: Rc<ConnectionShared>,
    link: Rc<RdmaLink>,
    connection: usize,
) {
    loop {
        shared.send_wanted[connection].notified().await;
        if shared.is_ending() {
            return;
        }
        let mut engine = shared.engine.borrow_mut();
        let messages = engine.take_messages(connection);
        link.send_all(&mut engine, messages);
    }
}

impl Receiver {
    fn message(&mut self, mut message: Received) -> Result<()> {
        if self.shared.is_ending() {
            return Ok(());
        }
        let (header, at) = header_of(&message)?;
        let index = self.shared.engine.borrow().find_call(header.xid)?;
        self.link.replied(header.credits);
        let body = match header.kind {
            Kind::Inline(chunks) => {
                let written = chunks.writes.first().map(|chunk| len_of(chunk));
                Body::Inline(message[at..].to_vec(), written)
            }
            Kind::Chunked(chunks) => {
                let reply = chunks.reply.ok_or(ProtocolError::Transfer(NOT_A_REPLY))?;
                Body::Memory(len_of(&reply))
            }
            Kind::Error(_) => {
                let why = "the server refused the memory of a call";
                return Err(ProtocolError::Transfer(why).into());
            }
            Kind::Done => return Err(ProtocolError::Transfer(NOT_A_REPLY).into()),
        };
        if let Some((key, memory)) = message.withdrawn.take() {
            let mut engine = self.shared.engine.borrow_mut();
            if self.link.came_back(&mut engine, key, memory) != Some(index) {
                let why = "a reply that withdraws the memory of another call";
                return Err(ProtocolError::Transfer(why).into());
            }
        }
        self.link.withdraw(index);
        self.waiting.push_back(Waiting { index, body });
        self.shared.send_wanted[self.connection].notify();
        self.handle_all()
    }

    fn came_back(&mut self, key: RemoteKey, memory: Memory) -> Result<()> {
        if self.shared.is_ending() {
            // The calls have failed already.
            return Ok(());
        }
        let mut engine = self.shared.engine.borrow_mut();
        self.link.came_back(&mut engine, key, memory);
        drop(engine);
        self.handle_all()
    }

    /// Handles the replies at the front whose memory is back.
    fn handle_all(&mut self) -> Result<()> {
        while let Some(next) = self
            .waiting
            .pop_front_if(|next| !self.link.is_exposed(next.index))
        {
            let reply = self.link.take_reply(next.index);
            let mut engine = self.shared.engine.borrow_mut();
            match next.body {
                Body::Inline(record, written) => engine.reply_apart(&record, written)?,
                Body::Memory(len) => {
                    let record = reply.as_deref().and_then(|memory| memory.get(..len));
                    let record = record.ok_or(ProtocolError::Transfer(NOT_A_REPLY))?;
                    engine.reply(record)?;
                }
            }
        }
        Ok(())
    }
}
