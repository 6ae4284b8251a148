//! Receiver of a connection over RDMA: from messages to calls, and replies to callbacks.
//!
//! **Owns** the messages that were not dispatched, and the call that waits for memory. **Called by** the turns of a connection, which poll
//! [`receive`]. **Invariants**: calls are taken in the order of their messages; a call gets a buffer after the ledger has granted its bytes; a message
//! whose chunks cannot be used is answered with an error of the transport, and one that is no message ends the connection.

use super::super::framing::{AnyFraming, ReplyTo};
use super::super::receive::{RECORD_MAX, XID_LEN};
use super::super::request::{Call, Record};
use super::super::{Connection, Core};
use super::memory::ReplyMemory;
use super::pull::{Arriving, Pulled};
use crate::dispatch;
use crate::rpc;
use crate::rpc::rdma::assembly::Assembly;
use crate::rpc::rdma::chunks::Chunks;
use crate::rpc::rdma::{Fault, HeaderError, Kind, RdmaHeader};
use crate::shared::counters::CloseReason;
use crate::xdr::Reader;
use io::buf::{Alloc, capacity_of};
use io::rdma::Received;
use io::{IoBuf, SharedBuf};
use session::rate;
use session::rdma::arrived::{Arrivals, RdmaReason, take_arrivals};
use session::rdma::carrier::RdmaCarrier;
use session::turn::Turns;
use session::{Hold, link::Link};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The first call, while it waits.
enum Waiting {
    /// For bytes of the ledger, for the results of a call that is whole.
    Results(Record, usize, Box<ReplyMemory>),
    /// For bytes of the ledger, for the parts that are read.
    Bytes(Arriving),
    /// For a buffer.
    Buffer(Arriving, Hold, Pin<Box<Alloc>>),
}

/// The next step of a call.
enum Step {
    /// It waits.
    Later(Waiting),
    /// It is executed.
    Execute(Call),
    /// It is being read.
    Reading,
}

/// Messages that arrived, and the call whose turn it is.
#[derive(Default)]
struct Receiver {
    arrived: VecDeque<Received>,
    waiting: Option<Waiting>,
}

impl Receiver {
    /// Takes all events of the queue pair, and dispatches the messages. Returns why the connection ends, if it does.
    fn turn(
        &mut self,
        connection: &Rc<Connection<RdmaCarrier>>,
        cx: &mut Context<'_>,
    ) -> Poll<CloseReason> {
        let (ended, whole) = {
            let mut core = connection.core.borrow_mut();
            let ended = take_arrivals(&mut *core, &connection.carrier, &mut self.arrived, cx);
            (ended, core.take_whole())
        };
        for pulled in whole {
            let call = Call {
                record: Record::Large(pulled.record),
                hold: Some(pulled.hold),
                reply_to: ReplyTo::Rdma(pulled.memory),
            };
            Core::execute(connection, call);
        }
        self.dispatch(connection, cx);
        connection.core.borrow_mut().note_due();
        ended
    }

    /// Dispatches messages, until there are none, too much lies unsent, or memory is missing.
    fn dispatch(&mut self, connection: &Rc<Connection<RdmaCarrier>>, cx: &mut Context<'_>) {
        loop {
            let step = {
                let mut core = connection.core.borrow_mut();
                if core.link.ending().is_some() || core.is_busy() || core.is_congested() {
                    return;
                }
                let waiting = match self.waiting.take() {
                    Some(waiting) => waiting,
                    None => {
                        let Some(message) = self.arrived.pop_front() else {
                            return;
                        };
                        match core.message(message) {
                            Some(call) => call,
                            None => continue,
                        }
                    }
                };
                core.advance(waiting, cx)
            };
            match step {
                Step::Later(waiting) => {
                    self.waiting = Some(waiting);
                    return;
                }
                Step::Execute(call) => Core::execute(connection, call),
                Step::Reading => {}
            }
        }
    }
}

impl Core {
    fn take_whole(&mut self) -> Vec<Pulled> {
        match &mut self.framing {
            AnyFraming::Stream => Vec::new(),
            AnyFraming::Rdma(rdma) => rdma.pulls.take_whole(),
        }
    }

    /// Sets the deadline of the calls that are being read.
    fn note_due(&mut self) {
        if let AnyFraming::Rdma(rdma) = &self.framing {
            self.link.set_transfer_due(rdma.pulls.next_due());
        }
    }

    /// Takes a message. Returns the call in it, if it is one.
    fn message(&mut self, message: Received) -> Option<Waiting> {
        let mut reader = Reader::new(&message);
        let header = match RdmaHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => {
                self.undecodable(error);
                return None;
            }
        };
        let inline = reader.rest();
        let inline_at = message.len() - inline.len();
        let (chunks, inline) = match header.kind {
            Kind::Inline(chunks) => (chunks, inline),
            // Bytes behind the header have no meaning.
            Kind::Chunked(chunks) => (chunks, &[][..]),
            // It must be ignored.
            Kind::Done => return None,
            Kind::Error(_) => {
                // The callback ends without a reply that can be read.
                self.answered(header.xid, header.credits, Vec::new());
                return None;
            }
        };
        if chunks.is_empty()
            && let Some(xid) = rpc::reply_number(inline)
        {
            self.answered(xid, header.credits, inline[XID_LEN..].to_vec());
            return None;
        }
        let inline = inline_at..inline_at + inline.len();
        self.call(header.xid, chunks, (message, inline))
    }

    /// A call arrived, of which `inline` is in its message.
    fn call(
        &mut self,
        xid: u32,
        chunks: Chunks,
        (message, inline): (Received, Range<usize>),
    ) -> Option<Waiting> {
        let assembly = match Assembly::of(&chunks, inline.len()) {
            Ok(assembly) if assembly.len <= RECORD_MAX => assembly,
            Ok(_) => return self.refuse(xid, "a call that is longer than a request may be"),
            Err(error) => {
                self.refuse(xid, error);
                return None;
            }
        };
        let AnyFraming::Rdma(rdma) = &mut self.framing else {
            return None;
        };
        if !rdma.call_arrived() {
            self.complaint = Some("more calls than the client has credits".into());
            self.link.end(CloseReason::Protocol);
            return None;
        }
        let memory = Box::new(ReplyMemory {
            xid,
            key: chunks.only_key(),
            writes: chunks.writes,
            whole: chunks.reply,
        });
        if assembly.reads.is_empty() {
            let record = Record::Small(SharedBuf::from(&message[inline]));
            let cost = dispatch::cost(&record);
            return Some(Waiting::Results(record, cost, memory));
        }
        Some(Waiting::Bytes(Arriving {
            message,
            inline_at: inline.start,
            assembly,
            memory,
        }))
    }

    /// The next step of the call whose turn it is.
    fn advance(&mut self, waiting: Waiting, cx: &mut Context<'_>) -> Step {
        let mut waiting = waiting;
        loop {
            waiting = match waiting {
                Waiting::Results(record, cost, memory) => {
                    let Some(hold) = held(&mut self.link, cost) else {
                        return Step::Later(Waiting::Results(record, cost, memory));
                    };
                    return Step::Execute(Call {
                        record,
                        hold,
                        reply_to: ReplyTo::Rdma(memory),
                    });
                }
                Waiting::Bytes(call) => {
                    let bytes = capacity_of(call.assembly.len);
                    let Some(hold) = self.link.hold(bytes) else {
                        return Step::Later(Waiting::Bytes(call));
                    };
                    let alloc = Box::pin(self.link.pool().alloc(call.assembly.len));
                    Waiting::Buffer(call, hold, alloc)
                }
                Waiting::Buffer(call, hold, mut alloc) => {
                    let Poll::Ready(buf) = alloc.as_mut().poll(cx) else {
                        return Step::Later(Waiting::Buffer(call, hold, alloc));
                    };
                    self.begin_reading(call, (buf, hold));
                    return Step::Reading;
                }
            };
        }
    }

    fn begin_reading(&mut self, call: Arriving, (buf, mut hold): (IoBuf, Hold)) {
        let now = self.link.now();
        hold.to_peer(now);
        let timeout = self.shared.config.data_timeout;
        let due = rate::deadline(now, timeout, call.assembly.len);
        if let AnyFraming::Rdma(rdma) = &mut self.framing {
            let (chain, pulls) = rdma.chain_and_pulls();
            pulls.begin(call, (buf, hold), due, chain);
        }
    }

    /// A reply to a callback arrived, which may allow more callbacks.
    fn answered(&mut self, xid: u32, credits: u32, reply: Vec<u8>) {
        if !self.path.answered(xid, reply) {
            self.complaint = Some("a message is a reply to no callback".into());
            return self.link.end(CloseReason::Protocol);
        }
        if let AnyFraming::Rdma(rdma) = &mut self.framing {
            rdma.callback_ended(credits);
        }
        self.send_callbacks();
    }

    fn undecodable(&mut self, error: HeaderError) {
        let (xid, fault) = match error {
            HeaderError::Short => {
                self.complaint = Some(error.to_string());
                return self.link.end(CloseReason::Protocol);
            }
            HeaderError::Version(xid) => (xid, Fault::Version),
            HeaderError::Procedure(xid) | HeaderError::Chunks(xid, _) => (xid, Fault::Chunk),
        };
        self.put_fault(xid, fault);
        self.fault(error);
    }

    /// Answers a call whose chunks cannot be used.
    fn refuse(&mut self, xid: u32, complaint: impl std::fmt::Display) -> Option<Waiting> {
        self.put_fault(xid, Fault::Chunk);
        self.fault(complaint);
        None
    }

    fn put_fault(&mut self, xid: u32, fault: Fault) {
        if let AnyFraming::Rdma(rdma) = &mut self.framing {
            rdma.put_fault(self.link.output_mut(), xid, fault);
            self.link.output_mut().count_reply();
        }
    }

    /// The client was answered with an error of the transport.
    pub(in crate::connection) fn fault(&self, complaint: impl std::fmt::Display) {
        let faults = &self.shared.counters.rdma_faults;
        faults.fetch_add(1, Ordering::Relaxed);
        let log = &self.shared.connections.counters.log;
        if log.may_log(self.link.now()) {
            let peer = self.link.peer();
            tracing::warn!(%peer, "a call of NFS over RDMA was refused: {complaint}");
        }
    }
}

/// Bytes of the ledger: none are needed for a `cost` of 0. `None` while there are none.
fn held(link: &mut Link<CloseReason>, cost: usize) -> Option<Option<Hold>> {
    match cost {
        0 => Some(None),
        bytes => link.hold(bytes).map(Some),
    }
}

impl Arrivals for Core {
    fn arrived(&mut self, bytes: usize) {
        self.link.tally().received(bytes);
    }

    fn data_read(&mut self, slot: usize, buf: IoBuf) {
        let AnyFraming::Rdma(rdma) = &mut self.framing else {
            return;
        };
        let (chain, pulls) = rdma.chain_and_pulls();
        chain.read_ended();
        let bytes = pulls.read_ended(slot, buf, chain);
        self.link.tally().received(bytes);
        self.link.data_received(bytes);
    }
}

impl RdmaReason for CloseReason {
    const PROTOCOL: CloseReason = CloseReason::Protocol;
    const DEVICE: CloseReason = CloseReason::Device;
    const MEMORY_ACCESS: CloseReason = CloseReason::MemoryAccess;
}

/// Receives and executes until the connection ends.
pub(super) async fn receive(connection: &Rc<Connection<RdmaCarrier>>) -> CloseReason {
    let mut receiver = Receiver::default();
    poll_fn(|cx| receiver.turn(connection, cx)).await
}
