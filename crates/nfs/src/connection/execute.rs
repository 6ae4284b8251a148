//! Requests that are being executed, and their replies.
//!
//! **Called by** the receiver, with each whole record. **Invariants**: a request runs to its end even if its connection ends
//! before, so that its slot gets its reply; its bytes of the ledger are held until its reply was sent.

use super::framing::ReplyTo;
use super::request::{Call, Record};
use super::{Connection, Core};
use crate::access::Origin;
use crate::dispatch::{self, Outcome, ReplyLimits};
use crate::export::Security;
use crate::limits::{SMALL_REQUEST_MAX, TRANSFER_MAX};
use crate::shared::counters::CloseReason;
use crate::transport::NfsTransport;
use crate::xdr::Writer;
use io::limits::PRIVILEGED_PORTS;
use io::stage::Trail;
use session::carrier::Carrier;
use session::{Hold, HostKey};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};

impl Core {
    /// Executes a request: at once, or in a task of its own.
    pub(super) fn execute<C: Carrier + 'static>(connection: &Rc<Connection<C>>, call: Call) {
        let Call {
            record,
            hold,
            reply_to,
        } = call;
        let (shared, origin, path, waker, trail) = {
            let mut core = connection.core.borrow_mut();
            core.running += 1;
            core.link.tally().command();
            let transport = core.framing.transport();
            // NFS clients over RDMA are kernels, and bind no privileged port.
            let origin = Origin {
                peer: core.link.peer().ip(),
                transport,
                protection: core.protection.clone(),
                is_privileged: core.protection.security == Security::MutualTls
                    || core.link.peer().port() < PRIVILEGED_PORTS
                    || transport == NfsTransport::Rdma,
            };
            let waker = core.link.waker().clone();
            let (path, trail) = (core.path.clone(), Trail::begin(core.link.now()));
            (core.shared.clone(), origin, path, waker, trail)
        };
        let read_max = match &record {
            Record::Small(_) => TRANSFER_MAX,
            // The ledger granted no bytes for data that a long request reads.
            Record::Large(_) => SMALL_REQUEST_MAX as u32,
        };
        let limits = ReplyLimits {
            read_max,
            reply_max: connection.core.borrow().framing.reply_max(&reply_to),
        };
        let mut future = Box::pin(trail.follow(async move {
            let outcome = dispatch::execute(&shared, (origin, &path), &record, limits).await;
            drop(record);
            outcome
        }));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready((outcome, trail)) = polled {
            let mut core = connection.core.borrow_mut();
            return core.finish(&connection.carrier, (outcome, trail), hold, reply_to);
        }
        let connection = Rc::downgrade(connection);
        drop(io::spawn(async move {
            let ended = future.await;
            if let Some(connection) = connection.upgrade() {
                let mut core = connection.core.borrow_mut();
                core.finish(&connection.carrier, ended, hold, reply_to);
                core.link.waker().wake_by_ref();
            }
        }));
    }

    /// A request was executed: its reply is sent.
    fn finish(
        &mut self,
        carrier: &impl Carrier,
        (outcome, trail): (Outcome, Trail),
        hold: Option<Hold>,
        reply_to: ReplyTo,
    ) {
        self.running -= 1;
        self.link.command_ended(outcome.kind, trail);
        if let Some((client, minor)) = outcome.client
            && self.register.used_by(client, minor)
        {
            // The connections of a client share its part of the buffers.
            let name = format!("client {client:016x}");
            let host = HostKey::named(&name, self.link.peer().ip());
            self.link.account().belongs_to(host);
        }
        if outcome.is_established {
            self.established(carrier);
        }
        match outcome.reply {
            Some(reply) => self.send(reply, hold, reply_to),
            None => {
                self.complaint = Some("a record is no RPC call".into());
                self.link.end(CloseReason::Protocol);
            }
        }
    }

    pub(super) fn send(&mut self, reply: Writer, hold: Option<Hold>, reply_to: ReplyTo) {
        self.link.hold_until_sent(hold);
        let output = self.link.output_mut();
        let sent = self.framing.put_reply(output, reply, reply_to);
        output.count_reply();
        if let Err(complaint) = sent {
            self.fault(complaint);
        }
    }
}
