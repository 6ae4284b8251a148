//! A connection as a member of its session: what normal and discovery sessions have in common in full feature phase.
//!
//! **Owns** the connection's handle in the session, the negotiated parameters, requests that arrived before their turn, retained
//! PDUs and pings. **Called by** both kinds of full feature phase. **Invariants**: a request that is not immediate is performed
//! in the order of CmdSN; nothing is retained at error recovery level 0.

mod requests;

use super::config::SessionParameters;
use super::retained::{Retained, Run};
use super::session::{Alive, ConnectionHandle, Session};
use super::text_exchange::TextExchange;
use super::transport::PortalTransport;
use super::window::Verdict;
use crate::wire::iser::IserHeader;
use crate::wire::request::Request;
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Itt, Sn, Ttt};
use io::Payload;
use io::time::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection's part in its session.
pub(crate) struct Member {
    session: Arc<Session>,
    handle: Arc<ConnectionHandle>,
    /// Held until the connection and its commands at the backend have ended.
    alive: Arc<Alive>,
    parameters: SessionParameters,
    /// Arrived before their turn, by CmdSN.
    held: BTreeMap<u32, Held>,
    next_ttt: u32,
    text: TextExchange,
    retained: Retained,
    ping: Ping,
}

/// A request or command that arrived before its turn.
pub(crate) enum Held {
    /// A SCSI command, by its slot.
    Command(usize),
    /// Any other request, with its header and data.
    Request(Bhs, Request, Vec<u8>),
}

/// Our pings (NOP-In that asks, §11.19).
enum Ping {
    /// None is outstanding.
    Idle,
    /// The initiator has sent nothing since this one.
    Sent(Instant),
}

/// CmdSN of a request that has one and is not immediate.
fn ordered_sn(request: &Request) -> Option<Sn> {
    let (immediate, sn) = match request {
        Request::NopOut(r) => (r.immediate, r.cmd_sn),
        Request::TaskManagement(r) => (r.immediate, r.cmd_sn),
        Request::Text(r) => (r.immediate, r.cmd_sn),
        Request::Logout(r) => (r.immediate, r.cmd_sn),
        Request::Scsi(_) | Request::Login(_) | Request::DataOut(_) | Request::Snack(_) => {
            return None;
        }
    };
    (!immediate).then_some(sn)
}

fn exp_stat_sn(request: &Request) -> Option<Sn> {
    Some(match request {
        Request::NopOut(r) => r.exp_stat_sn,
        Request::TaskManagement(r) => r.exp_stat_sn,
        Request::Text(r) => r.exp_stat_sn,
        Request::Logout(r) => r.exp_stat_sn,
        // The field of a SNACK acknowledges nothing while a status is missing.
        Request::Snack(_) | Request::Scsi(_) | Request::Login(_) | Request::DataOut(_) => {
            return None;
        }
    })
}

impl Member {
    /// A connection that has joined `session`.
    pub(crate) fn new(
        session: Arc<Session>,
        handle: Arc<ConnectionHandle>,
        alive: Arc<Alive>,
        parameters: SessionParameters,
    ) -> Member {
        Member {
            session,
            handle,
            alive,
            parameters,
            held: BTreeMap::new(),
            next_ttt: 0,
            text: TextExchange::default(),
            retained: Retained::default(),
            ping: Ping::Idle,
        }
    }

    /// The session.
    #[inline]
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The connection as others see it.
    pub(crate) fn handle(&self) -> &Arc<ConnectionHandle> {
        &self.handle
    }

    /// A token that a command at the backend holds until it ends.
    pub(crate) fn alive(&self) -> Arc<Alive> {
        self.alive.clone()
    }

    /// The negotiated parameters.
    #[inline]
    pub(crate) fn parameters(&self) -> &SessionParameters {
        &self.parameters
    }

    /// Whether lost PDUs are recovered within the connection (error recovery level 1).
    #[inline]
    pub(crate) fn recovers(&self) -> bool {
        self.parameters.error_recovery_level > 0
    }

    /// A target transfer tag that is not in use.
    pub(crate) fn new_tag(&mut self) -> Ttt {
        let ttt = Ttt(self.next_ttt);
        // The reserved value is left out.
        self.next_ttt = (self.next_ttt + 1) % Ttt::NONE.0;
        ttt
    }

    /// Bytes arrived from the initiator: no ping is outstanding.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.ping = Ping::Idle;
    }

    /// When the outstanding ping was sent.
    pub(crate) fn ping_sent_at(&self) -> Option<Instant> {
        match self.ping {
            Ping::Idle => None,
            Ping::Sent(at) => Some(at),
        }
    }

    /// Takes a request that has arrived whole, with its data. Returns it if it is to be performed now. A request before its
    /// turn is held; one outside of the command window is ignored.
    pub(crate) fn admit(
        &mut self,
        transport: &PortalTransport,
        bhs: &Bhs,
        request: Request,
        data: Vec<u8>,
    ) -> Option<(Request, Vec<u8>)> {
        if let Some(sn) = ordered_sn(&request) {
            match self.session.arrived(sn) {
                Verdict::Deliver { .. } => self.session.command_ended(),
                Verdict::Hold => {
                    self.held.insert(sn.0, Held::Request(*bhs, request, data));
                    return None;
                }
                Verdict::Ignore => {
                    let counters = &transport.shared().counters;
                    counters.ignored_commands.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
            }
        }
        Some((request, data))
    }

    /// Holds the command in `slot` until its turn.
    pub(crate) fn hold_command(&mut self, sn: Sn, slot: usize) {
        self.held.insert(sn.0, Held::Command(slot));
    }

    /// CmdSNs of the held requests and commands whose turn has come, in order.
    pub(crate) fn due(&self) -> Vec<Sn> {
        let (exp, _) = self.session.edges();
        let held = self.held.keys().map(|sn| Sn(*sn));
        let mut due: Vec<Sn> = held.filter(|sn| sn.is_before(exp)).collect();
        due.sort_by_key(|sn| std::cmp::Reverse(exp.since(*sn)));
        due
    }

    /// Releases the held request or command with this CmdSN.
    pub(crate) fn release(&mut self, sn: Sn) -> Option<Held> {
        let held = self.held.remove(&sn.0)?;
        if let Held::Request(..) = held {
            self.session.command_ended();
        }
        Some(held)
    }

    /// The connection leaves its session; the CmdSNs of held requests and commands count as ended.
    pub(crate) fn leave(&mut self, transport: &PortalTransport) {
        for sn in self.held.keys() {
            tracing::trace!(sn, "a command that arrived early ends with its connection");
            self.session.command_ended();
        }
        self.held.clear();
        transport.shared().left(&self.session, &self.handle);
    }

    /// The initiator has every PDU before this StatSN.
    #[inline]
    pub(crate) fn acknowledged(&mut self, exp_stat_sn: Sn) {
        self.retained.acknowledge(exp_stat_sn);
    }

    /// Sends a PDU that was stamped with a StatSN.
    pub(crate) fn send_status(&mut self, transport: &mut PortalTransport, bhs: Bhs, data: &[u8]) {
        self.send_response(transport, (bhs, IserHeader::default()), data);
    }

    /// Sends a SCSI Response that was stamped with a StatSN, with the memory that its command advertised.
    pub(crate) fn send_response(
        &mut self,
        transport: &mut PortalTransport,
        (bhs, memory): (Bhs, IserHeader),
        data: &[u8],
    ) {
        if self.recovers() {
            self.retained.keep_status(bhs, data);
        }
        transport.send_response(bhs, data, memory);
    }

    /// Sends a Data-In PDU, over TCP.
    pub(crate) fn send_data(
        &mut self,
        transport: &mut PortalTransport,
        itt: Itt,
        bhs: Bhs,
        mut data: Payload,
    ) {
        if self.recovers() {
            let bytes = io::buf::capacity_of(data.len());
            // Without buffer bytes the PDU counts as dropped from the retained ones.
            if let Some(mut hold) = transport.link().account().try_hold(bytes) {
                hold.to_peer(transport.now());
                self.retained.keep_data(itt, bhs, data.fork(), hold);
            }
        }
        transport.send_payload(&bhs, data);
    }

    /// Refuses a PDU (§11.17); its header goes back to the initiator.
    pub(crate) fn reject(
        &mut self,
        transport: &mut PortalTransport,
        reason: RejectReason,
        bad: &Bhs,
    ) {
        transport.shared().counters.rejected(reason);
        let mut bhs = crate::wire::response::reject(reason);
        transport.stamp_status(&mut bhs);
        self.send_status(transport, bhs, &bad.0);
    }

    /// Sends retained statuses again. Returns whether there were any, or the run has no end.
    pub(crate) fn repeat_statuses(&mut self, transport: &mut PortalTransport, run: Run) -> bool {
        let statuses = self.retained.statuses(run);
        let parts = self.retained.data_with_status(run);
        let any = !statuses.is_empty() || !parts.is_empty() || run.count == 0;
        for (mut bhs, data) in statuses {
            transport.stamp_window(&mut bhs);
            transport.send(bhs, &data);
        }
        repeat(transport, parts);
        any
    }

    /// Sends retained read data of a task again. Returns whether there was any.
    pub(crate) fn repeat_data(
        &mut self,
        transport: &mut PortalTransport,
        itt: Itt,
        run: Run,
    ) -> bool {
        let parts = self.retained.data_of(itt, run);
        let any = !parts.is_empty();
        repeat(transport, parts);
        any
    }
}

fn repeat(transport: &mut PortalTransport, parts: Vec<(Bhs, Payload)>) {
    for (mut bhs, data) in parts {
        transport.stamp_window(&mut bhs);
        transport.send_payload(&bhs, data);
    }
}
