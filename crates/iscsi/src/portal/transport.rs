//! The transport of one connection in both directions, in all of the connection's phases.
//!
//! **Owns** the link of the session core, the receiver's position, StatSN and the framing of PDUs that are sent, and how the
//! connection ends. **Called by** every phase, with each PDU that it sends. **Invariants**: payload is sent from where it lies,
//! and copied only to take a digest of bytes that may change; StatSN grows by one with each PDU that carries a status
//! (§4.2.2.2) and with nothing else; the first reason to close stays.

use super::config::IscsiTransport;
use super::counters::{CloseReason, ConnectionState};
use super::framing::{AnyFraming, IserFraming};
use super::incoming::Position;
use super::session::Session;
use super::shared::PortalShared;
use crate::limits::{STAGING_MAX, UNSENT_REPLIES_MAX};
use crate::login::Offer;
use crate::wire::bhs::padding;
use crate::wire::decode::Rules;
use crate::wire::iser::{Advertised, IserHeader};
use crate::wire::{Bhs, Sn};
use io::time::Instant;
use io::{IoBuf, Payload};
use session::Hold;
use session::digest::{Crc32c, crc32c};
use session::link::{Link, is_broken};
use session::output::stable;
use session::rdma::chain::WorkChain;
use std::sync::Arc;

/// The transport of a connection.
pub(crate) struct PortalTransport {
    shared: Arc<PortalShared>,
    link: Link<CloseReason>,
    framing: AnyFraming,
    course: Course,
    /// The state that the service's counters count this connection in.
    counted: ConnectionState,
    rules: Rules,
    position: Position,
    /// Whether the last header announced more data than is to be copied.
    is_bulk: bool,
    /// StatSN of the next status.
    stat_sn: Sn,
    window: CommandWindow,
    /// When bytes last arrived.
    heard_at: Instant,
    /// What was wrong, for the log.
    complaint: Option<&'static str>,
}

/// Whether a connection goes on.
#[derive(Clone, Copy)]
enum Course {
    /// It goes on.
    Open,
    /// Nothing more is taken. Waiting output leaves, and commands in flight may still answer.
    Closing { why: CloseReason, since: Instant },
}

/// Where ExpCmdSN and MaxCmdSN of a sent PDU come from.
enum CommandWindow {
    /// The last login request.
    Login(Sn, Sn),
    /// The session's window.
    Session(Arc<Session>),
}

impl PortalTransport {
    /// The transport of a connection that was accepted just now.
    pub(crate) fn new(
        shared: Arc<PortalShared>,
        link: Link<CloseReason>,
        framing: AnyFraming,
    ) -> PortalTransport {
        PortalTransport {
            shared,
            link,
            framing,
            course: Course::Open,
            counted: ConnectionState::Login,
            rules: Rules::LOGIN,
            position: Position::Header,
            is_bulk: false,
            stat_sn: Sn(io::rng::u64() as u32),
            window: CommandWindow::Login(Sn(0), Sn(0)),
            heard_at: io::time::now(),
            complaint: None,
        }
    }

    /// State that all connections share.
    #[inline]
    pub(crate) fn shared(&self) -> &Arc<PortalShared> {
        &self.shared
    }

    /// The part of the connection that is the same for every protocol.
    #[inline]
    pub(crate) fn link(&self) -> &Link<CloseReason> {
        &self.link
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn link_mut(&mut self) -> &mut Link<CloseReason> {
        &mut self.link
    }

    /// The transport's kind.
    pub(crate) fn kind(&self) -> IscsiTransport {
        self.framing.transport()
    }

    /// Whether PDUs are messages (iSER).
    #[inline]
    pub(crate) fn is_iser(&self) -> bool {
        matches!(self.framing, AnyFraming::Iser(_))
    }

    /// Our offer in negotiations.
    pub(crate) fn offer(&self) -> Offer {
        let offer = self.shared.config.offer.clone();
        match self.framing {
            AnyFraming::Tcp => offer,
            AnyFraming::Iser(_) => offer.over_rdma(),
        }
    }

    /// When this turn began.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.link.now()
    }

    /// When bytes last arrived.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// `bytes` bytes arrived.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        self.link.tally().received(bytes);
        self.heard_at = self.link.now();
    }

    /// Counts the connection in this state from now on.
    pub(crate) fn enter(&mut self, state: ConnectionState) {
        let counters = &self.shared.connections.counters;
        counters.moved(Some(self.counted), Some(state));
        self.counted = state;
    }

    /// The state that the connection is counted in.
    pub(crate) fn counted(&self) -> ConnectionState {
        self.counted
    }

    /// Notes what was wrong, for the log.
    pub(crate) fn complain(&mut self, complaint: &'static str) {
        self.complaint = Some(complaint);
    }

    /// Notes what was wrong unless something was noted before.
    pub(crate) fn complain_first(&mut self, complaint: &'static str) {
        self.complaint.get_or_insert(complaint);
    }

    /// What was wrong, for the log; empty if nothing was.
    pub(crate) fn complaint(&self) -> &'static str {
        self.complaint.unwrap_or("")
    }

    /// Ends the connection; the first reason stays. A connection that breaks while it is closing ends for the reason that it
    /// is closed for.
    pub(crate) fn end(&mut self, why: CloseReason) {
        let why = match self.course {
            Course::Closing { why: real, .. } if is_broken(why) => real,
            Course::Open | Course::Closing { .. } => why,
        };
        self.link.end(why);
    }

    /// Lets waiting output leave, then ends the connection.
    pub(crate) fn close_after_output(&mut self, why: CloseReason) {
        if !self.is_closing() {
            let since = self.now();
            self.course = Course::Closing { why, since };
            self.enter(ConnectionState::Closing);
        }
    }

    /// Whether nothing more is taken from the initiator.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.course, Course::Closing { .. })
    }

    /// Why and since when the connection closes, if it does.
    pub(crate) fn closing(&self) -> Option<(CloseReason, Instant)> {
        match self.course {
            Course::Open => None,
            Course::Closing { why, since } => Some((why, since)),
        }
    }

    /// Whether the receiver must wait because too much output lies unsent. Data of commands does not count: commands may wait
    /// for data that follows in the byte stream.
    pub(crate) fn is_congested(&self) -> bool {
        self.link.output().replies() > UNSENT_REPLIES_MAX
            || self.link.output().payload() > 2 * self.shared.config.connection_budget
    }

    /// Digests and longest data segment of arriving PDUs.
    #[inline]
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Applies the negotiated digests and lengths.
    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Takes the receiver's position, which becomes the beginning of a PDU.
    #[inline]
    pub(crate) fn take_position(&mut self) -> Position {
        std::mem::replace(&mut self.position, Position::Header)
    }

    /// Sets the receiver's position.
    #[inline]
    pub(crate) fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// The receiver's position.
    #[inline]
    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// The receiver's position, to go on from it.
    #[inline]
    pub(crate) fn position_mut(&mut self) -> &mut Position {
        &mut self.position
    }

    /// A header announced `len` bytes of data.
    #[inline]
    pub(crate) fn announced(&mut self, len: u32) {
        self.is_bulk = len as usize > STAGING_MAX / 2;
    }

    /// Whether the last header announced more data than is to be copied.
    #[inline]
    pub(crate) fn is_bulk(&self) -> bool {
        self.is_bulk
    }

    /// Sent PDUs carry this window of CmdSN until a session has one.
    pub(crate) fn set_login_window(&mut self, exp: Sn, max: Sn) {
        self.window = CommandWindow::Login(exp, max);
    }

    /// Sent PDUs carry the window of this session.
    pub(crate) fn set_session_window(&mut self, session: Arc<Session>) {
        self.window = CommandWindow::Session(session);
    }

    /// Stamps a PDU with the next StatSN and uses it up.
    pub(crate) fn stamp_status(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stat_sn = self.stat_sn.next();
        self.stamp_window(bhs);
    }

    /// Stamps a PDU with the next StatSN without using it up (R2T, NOP-In that asks).
    pub(crate) fn stamp_next(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stamp_window(bhs);
    }

    /// Stamps a PDU with ExpCmdSN and MaxCmdSN.
    pub(crate) fn stamp_window(&self, bhs: &mut Bhs) {
        let (exp, max) = match &self.window {
            CommandWindow::Session(session) => session.edges(),
            CommandWindow::Login(exp, max) => (*exp, *max),
        };
        bhs.set_window(exp, max);
    }

    /// Longest data segment to be sent, bytes, where `negotiated` was negotiated.
    pub(crate) fn data_max(&self, negotiated: u32) -> usize {
        let most = match &self.framing {
            AnyFraming::Tcp => negotiated,
            AnyFraming::Iser(iser) => negotiated.min(iser.data_max()),
        };
        most as usize
    }

    /// The work chain with the link that counts it, over RDMA.
    pub(crate) fn chain(&mut self) -> Option<(&mut WorkChain, &mut Link<CloseReason>)> {
        match &mut self.framing {
            AnyFraming::Tcp => None,
            AnyFraming::Iser(iser) => Some((iser.chain(), &mut self.link)),
        }
    }

    /// The messages of a connection over RDMA.
    pub(crate) fn iser_mut(&mut self) -> Option<&mut IserFraming> {
        match &mut self.framing {
            AnyFraming::Tcp => None,
            AnyFraming::Iser(iser) => Some(iser),
        }
    }

    /// Memory that the message advertises which is dispatched now; none over TCP.
    pub(crate) fn advertised(&self) -> IserHeader {
        match &self.framing {
            AnyFraming::Tcp => IserHeader::default(),
            AnyFraming::Iser(iser) => iser.advertised(),
        }
    }

    /// Sends read data by a WRITE, `offset` bytes behind the beginning of the initiator's memory.
    pub(crate) fn write(&mut self, payload: Payload, to: Option<Advertised>, offset: u32) {
        // A command that reads was checked to name memory.
        if let (AnyFraming::Iser(iser), Some(to)) = (&mut self.framing, to) {
            iser.write(self.link.output_mut(), payload, (to, offset));
        }
    }

    /// Reads data of the write in `slot` into `into.0[into.1..]`, from `offset` bytes behind the beginning of the initiator's memory.
    pub(crate) fn read(
        &mut self,
        slot: usize,
        into: (IoBuf, usize),
        (from, offset): (Advertised, u32),
    ) {
        if let AnyFraming::Iser(iser) = &mut self.framing {
            iser.read(slot, into, (from, offset));
        }
    }

    fn put_header(&mut self, bhs: &Bhs) {
        self.link.output_mut().put(&bhs.0);
        if self.rules.header_digest {
            self.link.output_mut().put(&crc32c(&bhs.0).to_le_bytes());
        }
    }

    /// Sends a PDU with a short data segment.
    pub(crate) fn send(&mut self, bhs: Bhs, data: &[u8]) {
        self.send_response(bhs, data, IserHeader::default());
    }

    /// Sends the response to a command that advertised `memory`, with a short data segment.
    pub(crate) fn send_response(&mut self, mut bhs: Bhs, data: &[u8], memory: IserHeader) {
        bhs.set_data_len(data.len() as u32);
        self.link.output_mut().count_reply();
        if let AnyFraming::Iser(iser) = &mut self.framing {
            return iser.send(self.link.output_mut(), &bhs, data, memory);
        }
        self.put_header(&bhs);
        if data.is_empty() {
            return;
        }
        let pad = &[0; 3][..padding(data.len() as u32)];
        self.link.output_mut().put(data);
        self.link.output_mut().put(pad);
        if self.rules.data_digest {
            let mut digest = Crc32c::new();
            digest.update(data);
            digest.update(pad);
            self.link.output_mut().put(&digest.value().to_le_bytes());
        }
    }

    /// Sends a PDU whose data is a payload, over TCP. The header has its length.
    pub(crate) fn send_payload(&mut self, bhs: &Bhs, payload: Payload) {
        let len = payload.len();
        self.put_header(bhs);
        self.link.output_mut().count_reply();
        let pad = &[0; 3][..padding(len as u32)];
        if self.rules.data_digest && len > 0 {
            let stable = stable(self.link.pool(), payload);
            let mut digest = Crc32c::new();
            digest.update(stable.as_slice().unwrap_or_default());
            digest.update(pad);
            self.link.output_mut().put_payload(stable);
            self.link.output_mut().put(pad);
            self.link.output_mut().put(&digest.value().to_le_bytes());
        } else {
            self.link.output_mut().put_payload(payload);
            self.link.output_mut().put(pad);
        }
    }

    /// Holds buffer bytes until the payload that is sent next has left.
    pub(crate) fn hold_until_sent(&mut self, hold: Option<Hold>) {
        self.link.hold_until_sent(hold);
    }
}
