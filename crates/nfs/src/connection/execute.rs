//! Requests that are being executed, and their replies.
//!
//! **Called by** the receiver, with each whole record. **Invariants**: a request runs to its end even if its connection ends
//! before, so that its slot gets its reply; its bytes of the ledger are held until its reply was sent.

use super::receive::Record;
use super::{Connection, Core};
use crate::access::Origin;
use crate::dispatch::{self, Outcome};
use crate::export::Security;
use crate::limits::{SMALL_REQUEST_MAX, TRANSFER_MAX};
use crate::rpc::record::mark;
use crate::shared::counters::CloseReason;
use crate::xdr::{Part, Writer};
use io::Payload;
use io::limits::PRIVILEGED_PORTS;
use io::stage::Trail;
use session::carrier::Carrier;
use session::{Hold, HostKey};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Bytes of a reply that are copied into the output; longer parts are sent from their own memory.
const COPY_MAX: usize = 2048;

impl Core {
    /// Executes a record: at once, or in a task of its own.
    pub(super) fn execute(connection: &Rc<Connection>, record: Record, hold: Option<Hold>) {
        let (shared, origin, path, waker, me, trail) = {
            let mut core = connection.core.borrow_mut();
            core.running += 1;
            core.link.tally().command();
            let origin = Origin {
                peer: core.link.peer().ip(),
                protection: core.protection.clone(),
                is_privileged: core.protection.security == Security::MutualTls
                    || core.link.peer().port() < PRIVILEGED_PORTS,
            };
            let waker = core.link.waker().clone();
            let (path, trail) = (core.path.clone(), Trail::begin(core.link.now()));
            let me = core.me.clone();
            (core.shared.clone(), origin, path, waker, me, trail)
        };
        let read_max = match &record {
            Record::Small(_) => TRANSFER_MAX,
            // The ledger granted no bytes for data that a long request reads.
            Record::Large(_) => SMALL_REQUEST_MAX as u32,
        };
        let mut future = Box::pin(trail.follow(async move {
            let outcome = dispatch::execute(&shared, (origin, &path), &record, read_max).await;
            drop(record);
            outcome
        }));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready((outcome, trail)) = polled {
            let mut core = connection.core.borrow_mut();
            return core.finish(&connection.stream, outcome, hold, trail);
        }
        drop(io::spawn(async move {
            let (outcome, trail) = future.await;
            if let Some(connection) = me.upgrade() {
                let mut core = connection.core.borrow_mut();
                core.finish(&connection.stream, outcome, hold, trail);
                core.link.waker().wake_by_ref();
            }
        }));
    }

    /// A request was executed: its reply is sent.
    fn finish(
        &mut self,
        carrier: &impl Carrier,
        outcome: Outcome,
        hold: Option<Hold>,
        trail: Trail,
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
            Some(reply) => self.send(reply, hold),
            None => {
                self.complaint = Some("a record is no RPC call".into());
                self.link.end(CloseReason::Protocol);
            }
        }
    }

    pub(super) fn send(&mut self, reply: Writer, hold: Option<Hold>) {
        self.link.hold_until_sent(hold);
        let output = self.link.output_mut();
        output.put(&mark(reply.len()));
        reply.into_parts(|part| match part {
            Part::Bytes(bytes) if bytes.len() > COPY_MAX => {
                output.put_payload(Payload::from(bytes.to_vec()));
            }
            Part::Bytes(bytes) => output.put(bytes),
            Part::Payload(payload) => output.put_payload(payload),
        });
        output.count_reply();
    }
}
