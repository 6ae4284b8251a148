//! Receiver of a connection: from messages and ends of requests to commands.
//!
//! **Owns** the messages that were not dispatched yet. **Called by** the turns of a connection, which poll [`receive`]. **Invariants**: ends of
//! requests are taken also while no command is taken; a capsule is in one message; its receive is posted again when it has been
//! dispatched, one of a shared queue also when its message has to wait; a message that is no capsule ends the connection before any part of it takes effect.

use super::framing::whole;
use crate::controller::command::takes_user_data;
use crate::controller::counters::CloseReason;
use crate::controller::exchange::Capsule;
use crate::controller::framing::AnyFraming;
use crate::controller::phase::{Connection, Core};
use crate::wire::command::{SQE_LEN, Sqe};
use crate::wire::pdu::PduError;
use io::IoBuf;
use io::buf::{Alloc, BufPool};
use io::rdma::Received;
use session::rdma::arrived::{Arrivals, RdmaReason, take_arrivals};
use session::rdma::carrier::RdmaCarrier;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use zerocopy::FromBytes;

/// Messages that arrived, and a buffer for in-capsule data.
struct Receiver {
    arrived: VecDeque<Received>,
    /// Entries of the queue: a host has no more commands outstanding.
    entries: u16,
    spare: Option<IoBuf>,
    /// Set while the first message waits for a buffer.
    alloc: Option<Pin<Box<Alloc>>>,
}

impl Receiver {
    /// Takes all events of the queue pair, and dispatches the capsules. Returns why the connection ends, if it does.
    fn turn(
        &mut self,
        core: &mut Core,
        carrier: &RdmaCarrier,
        cx: &mut Context<'_>,
    ) -> Poll<CloseReason> {
        let ended = take_arrivals(core, carrier, &mut self.arrived, cx);
        if self.arrived.len() > usize::from(self.entries) {
            // With receives of its own the device refuses the message.
            let many = PduError::sequence("more commands than the queue has entries");
            self.arrived.clear();
            core.terminate(many, &[]);
        }
        self.dispatch(core, cx);
        // A message that waits, perhaps for its own host, takes no receive from other hosts.
        for waiting in &mut self.arrived {
            waiting.release_shared();
        }
        ended
    }

    /// Dispatches capsules, until there are none, too much lies unsent, or a buffer is missing.
    fn dispatch(&mut self, core: &mut Core, cx: &mut Context<'_>) {
        while let Some(message) = self.arrived.front() {
            if core.is_congested() || core.common.link.ending().is_some() {
                return;
            }
            let Ok((sqe, data)) = Sqe::read_from_prefix(message) else {
                let short = PduError::out_of_range("a message that is shorter than a capsule");
                return core.terminate(short, &[]);
            };
            let needs_buffer = takes_user_data(sqe.opcode) && !data.is_empty();
            if needs_buffer && !make_spare(self, core.common.link.pool(), cx) {
                return;
            }
            let Some(message) = self.arrived.pop_front() else {
                return;
            };
            let capsule = Capsule {
                bytes: &message[SQE_LEN..],
                spare: self.spare.take(),
            };
            core.capsule(&sqe, capsule, true);
        }
    }
}

/// Makes sure that a buffer for the first message's in-capsule data is at hand.
fn make_spare(receiver: &mut Receiver, pool: &BufPool, cx: &mut Context<'_>) -> bool {
    let len = receiver.arrived.front().map_or(0, |m| m.len() - SQE_LEN);
    if receiver.spare.as_ref().is_some_and(|b| b.capacity() >= len) {
        return true;
    }
    if receiver.alloc.is_none() {
        receiver.spare = pool.try_alloc(len);
        if receiver.spare.is_some() {
            return true;
        }
    }
    let alloc = receiver
        .alloc
        .get_or_insert_with(|| Box::pin(pool.alloc(len)));
    match alloc.as_mut().poll(cx) {
        Poll::Ready(buf) => {
            receiver.alloc = None;
            receiver.spare = Some(buf);
            true
        }
        Poll::Pending => false,
    }
}

impl Arrivals for Core {
    fn arrived(&mut self, bytes: usize) {
        Core::arrived(self, bytes);
    }

    /// The data of the command in `slot` is here, and the command is executed.
    fn data_read(&mut self, slot: usize, buf: IoBuf) {
        let Some((exchange, common)) = self.exchange_mut() else {
            return;
        };
        if let AnyFraming::Rdma(rdma) = exchange.framing_mut() {
            rdma.chain().read_ended();
        }
        let (buf, len) = whole(buf);
        if let Some(transfer) = exchange.table_mut().transfer(slot) {
            transfer.put_back(buf, len);
        }
        common.link.data_received(len);
        common.link.tally().received(len);
        if let Some((command, data)) = exchange.transferred(common, slot) {
            self.data_received(command, data);
        }
    }
}

impl RdmaReason for CloseReason {
    const PROTOCOL: CloseReason = CloseReason::Protocol;
    const DEVICE: CloseReason = CloseReason::Device;
    const MEMORY_ACCESS: CloseReason = CloseReason::MemoryAccess;
}

/// Receives and dispatches until the connection ends.
pub(super) async fn receive(conn: &Connection, carrier: &RdmaCarrier, entries: u16) -> CloseReason {
    let mut receiver = Receiver {
        arrived: VecDeque::new(),
        entries,
        spare: None,
        alloc: None,
    };
    poll_fn(|cx| receiver.turn(&mut conn.core().borrow_mut(), carrier, cx)).await
}
