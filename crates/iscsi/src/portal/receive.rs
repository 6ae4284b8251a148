//! What a connection receives: PDUs out of the staging area, payload straight into its buffer.
//!
//! **Owns** the parsing of the byte stream. **Called by** [`super::connection`], which polls [`receive`].
//! **Invariants**: everything that has arrived is dispatched before the next receive; no PDU takes effect before its
//! digests were checked; data of SCSI commands goes to its buffer as it comes, data that nobody wants is counted off
//! without being kept.

use super::connection::{Connection, Core};
use super::counters::{CloseReason, ConnectionState};
use super::early::Room;
use crate::limits::{STAGING_MAX, STAGING_MIN, UNSENT_REPLIES_MAX};
use crate::wire::bhs::BHS_LEN;
use crate::wire::decode::{DecodeError, Decoded, HEADER_LEN_MAX, Header, decode};
use crate::wire::request::{Ahs, Request};
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Opcode};
use io::{IoBuf, RecvBuf};
use session::digest::{Crc32c, DIGEST_LEN};
use session::staging::Staging;
use session::turn;
use std::sync::atomic::Ordering;

/// Where in the byte stream the connection is.
pub(super) enum RxState {
    /// At the beginning of a PDU.
    Header,
    /// Within a data segment.
    Data(Incoming),
    /// At the padding and the digest behind a data segment.
    Trailer(Incoming),
}

/// A PDU whose data segment is arriving.
pub(super) struct Incoming {
    bhs: Bhs,
    /// Bytes of the data segment still to come.
    left: usize,
    /// Padding and digest.
    trailer: usize,
    digest: Crc32c,
    into: Into,
}

/// Where a data segment goes.
pub(super) enum Into {
    /// To the command in this slot, from byte `at` of its data on.
    Command { slot: usize, at: usize },
    /// To memory of its own: text, ping data.
    Memory(Vec<u8>),
    /// Nowhere.
    Nothing,
}

/// What the receiver does next.
pub(super) enum Next {
    /// Receive into the staging area, which must hold `.0` bytes in one piece.
    Receive(usize),
    /// Receive the rest of a data segment into a command's buffer from byte `at` on.
    Direct {
        slot: usize,
        buf: IoBuf,
        at: usize,
        len: usize,
    },
    /// Take nothing more until replies have left.
    Wait,
    /// Take nothing more in this turn: there is no room for what comes next.
    Later,
}

impl Core {
    /// Whether the receiver holds back because too much lies unsent. What is kept of commands never holds it back: the
    /// data that they wait for may be behind what is not taken.
    pub(super) fn is_congested(&self) -> bool {
        self.link.output().replies() > UNSENT_REPLIES_MAX
            || self.link.output().payload() > 2 * self.target().config.connection_budget
    }

    /// How large the staging area is to be. While data of R2Ts is awaited, and while commands bring much, it is small,
    /// because what lands here must be copied.
    fn staging_len(&self) -> usize {
        match self.state() {
            ConnectionState::FullFeature if self.link.transfer_due().is_none() && !self.bulk => {
                STAGING_MAX
            }
            _ => STAGING_MIN.max(HEADER_LEN_MAX),
        }
    }

    /// Dispatches everything in `staging`.
    pub(super) fn parse(&mut self, staging: &mut RecvBuf) -> Next {
        loop {
            if self.state() == ConnectionState::Closing {
                staging.consume(staging.readable().len());
                return Next::Receive(1);
            }
            let next = match std::mem::replace(&mut self.rx, RxState::Header) {
                RxState::Header => self.parse_header(staging),
                RxState::Data(incoming) => self.parse_data(staging, incoming),
                RxState::Trailer(incoming) => self.parse_trailer(staging, incoming),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn parse_header(&mut self, staging: &mut RecvBuf) -> Option<Next> {
        let bytes = staging.readable();
        if bytes.is_empty() {
            return Some(Next::Receive(1));
        }
        let busy = self.state() == ConnectionState::Reinstating;
        if busy || self.is_congested() || self.ending().is_some() {
            return Some(Next::Wait);
        }
        let header = match decode(bytes, &self.rules) {
            Ok(Decoded::Header(header)) => header,
            Ok(Decoded::NeedMore(n)) => return Some(Next::Receive(n)),
            Err(e) => {
                self.undecodable(e, bytes);
                return None;
            }
        };
        let room = self.early_room(&header);
        if room == Room::Later {
            return Some(Next::Later);
        }
        let ahs = bytes[BHS_LEN..BHS_LEN + header.ahs_len].to_vec();
        staging.consume(header.len);
        self.bulk = header.data_len as usize > STAGING_MAX / 2;
        let into = self.route(&header, &ahs, room);
        // A command that was refused needs none.
        drop(self.early.take());
        let incoming = Incoming {
            bhs: header.bhs,
            left: header.data_len as usize,
            trailer: header.trailer,
            digest: Crc32c::new(),
            into,
        };
        if incoming.left > 0 {
            self.rx = RxState::Data(incoming);
        } else {
            self.pdu_arrived(incoming, true);
        }
        None
    }

    fn undecodable(&mut self, e: DecodeError, bytes: &[u8]) {
        match e {
            // §7.8: the length cannot be trusted, so nothing after it can be found.
            DecodeError::HeaderDigest => {
                let counters = &self.target().counters;
                counters
                    .header_digest_errors
                    .fetch_add(1, Ordering::Relaxed);
                self.complaint = Some("a header digest does not match");
                self.end(CloseReason::Digest);
            }
            DecodeError::DataTooLong { .. } => {
                self.complaint = Some("a data segment is longer than was declared");
                if let (false, Some(bhs)) = (self.login.is_some(), bytes.first_chunk()) {
                    self.reject(RejectReason::PROTOCOL_ERROR, &Bhs(*bhs));
                }
                self.close_after_output(CloseReason::Protocol);
            }
        }
    }

    /// Where a PDU's data goes. SCSI PDUs are looked at before their data arrives, others after it.
    fn route(&mut self, header: &Header, ahs: &[u8], room: Room) -> Into {
        let bhs = &header.bhs;
        let full_feature = self.login.is_none();
        match bhs.opcode() {
            Some(Opcode::ScsiCommand) if full_feature => match Ahs::parse(ahs) {
                Ok(ahs) => self.command_header(bhs, ahs, header.data_len, room),
                Err(reason) => self.reject_unseen(reason, bhs),
            },
            Some(Opcode::DataOut) if full_feature => self.data_header(bhs, header.data_len),
            _ if header.data_len > 0 => Into::Memory(Vec::with_capacity(header.data_len as usize)),
            _ => Into::Memory(Vec::new()),
        }
    }

    /// Refuses a PDU whose data has not arrived.
    pub(super) fn reject_unseen(&mut self, reason: RejectReason, bhs: &Bhs) -> Into {
        self.reject(reason, bhs);
        Into::Nothing
    }

    fn parse_data(&mut self, staging: &mut RecvBuf, mut incoming: Incoming) -> Option<Next> {
        let here = staging.readable().len().min(incoming.left);
        if here > 0 {
            let bytes = &staging.readable()[..here];
            if self.rules.data_digest {
                incoming.digest.update(bytes);
            }
            match &mut incoming.into {
                Into::Command { slot, at } => {
                    self.put_data(*slot, *at, bytes);
                    *at += here;
                }
                Into::Memory(memory) => memory.extend_from_slice(bytes),
                Into::Nothing => {}
            }
            staging.consume(here);
            incoming.left -= here;
        }
        if incoming.left == 0 {
            self.rx = RxState::Trailer(incoming);
            return None;
        }
        let direct = match incoming.into {
            Into::Command { slot, at } => {
                self.await_data(slot);
                self.take_buffer(slot, at)
                    .map(|(buf, room)| (slot, buf, at, room))
            }
            Into::Memory(_) | Into::Nothing => None,
        };
        let left = incoming.left;
        self.rx = RxState::Data(incoming);
        Some(match direct {
            Some((slot, buf, at, room)) => Next::Direct {
                slot,
                buf,
                at,
                len: left.min(room),
            },
            None => Next::Receive(1),
        })
    }

    /// A receive into a command's buffer ended after `n` bytes of it.
    fn direct_received(&mut self, slot: usize, buf: IoBuf, begun: usize, n: usize) {
        if let RxState::Data(incoming) = &mut self.rx {
            if self.rules.data_digest {
                incoming.digest.update(&buf[begun..begun + n]);
            }
            incoming.left -= n;
            if let Into::Command { at, .. } = &mut incoming.into {
                *at += n;
                self.link.data_received(n);
                self.put_buffer(slot, buf);
            }
        }
    }

    /// The command in this slot is gone: what still comes for it goes nowhere.
    pub(super) fn disown(&mut self, gone: usize) {
        if let RxState::Data(i) | RxState::Trailer(i) = &mut self.rx
            && matches!(i.into, Into::Command { slot, .. } if slot == gone)
        {
            i.into = Into::Nothing;
        }
    }

    fn parse_trailer(&mut self, staging: &mut RecvBuf, mut incoming: Incoming) -> Option<Next> {
        let bytes = staging.readable();
        if bytes.len() < incoming.trailer {
            let need = incoming.trailer;
            self.rx = RxState::Trailer(incoming);
            return Some(Next::Receive(need));
        }
        let mut intact = true;
        if self.rules.data_digest {
            let (pad, digest) = bytes[..incoming.trailer].split_at(incoming.trailer - DIGEST_LEN);
            incoming.digest.update(pad);
            let sent = digest.first_chunk().map(|d| u32::from_le_bytes(*d));
            intact = sent == Some(incoming.digest.value());
        }
        staging.consume(incoming.trailer);
        self.pdu_arrived(incoming, intact);
        None
    }

    /// A PDU is here, whole.
    fn pdu_arrived(&mut self, incoming: Incoming, intact: bool) {
        let bhs = incoming.bhs;
        if !intact {
            return self.damaged(&bhs, incoming.into);
        }
        match incoming.into {
            Into::Nothing => {}
            Into::Command { slot, .. } if bhs.opcode() == Some(Opcode::ScsiCommand) => {
                self.command_arrived(slot);
            }
            Into::Command { slot, .. } => self.data_arrived(slot, &bhs, true),
            Into::Memory(data) if self.login.is_some() => self.login_pdu(&bhs, &data),
            Into::Memory(data) => match Request::parse(&bhs) {
                Ok(request) => self.request(&bhs, request, data),
                Err(reason) => self.reject(reason, &bhs),
            },
        }
    }

    /// A data digest did not match (§7.8).
    fn damaged(&mut self, bhs: &Bhs, into: Into) {
        let counters = &self.target().counters;
        counters.data_digest_errors.fetch_add(1, Ordering::Relaxed);
        self.reject(RejectReason::DATA_DIGEST_ERROR, bhs);
        if self.parameters.error_recovery_level == 0 {
            self.complaint = Some("a data digest does not match");
            return self.close_after_output(CloseReason::Digest);
        }
        if let Into::Command { slot, .. } = into {
            match bhs.opcode() {
                // The initiator sends the command again.
                Some(Opcode::ScsiCommand) => self.forget(slot),
                _ => self.data_arrived(slot, bhs, false),
            }
        }
    }
}

/// Receives and dispatches until the connection ends.
pub(super) async fn receive(conn: &Connection) -> CloseReason {
    let mut staging = Staging::new(conn.core.borrow().staging_len());
    loop {
        let next = conn.core.borrow_mut().parse(staging.area());
        let result = match next {
            Next::Receive(whole) => {
                staging.resize(conn.core.borrow().staging_len());
                staging.receive(&conn.stream, whole).await
            }
            Next::Direct { slot, buf, at, len } => {
                staging.resize(conn.core.borrow().staging_len());
                let (result, buf, n) = staging.receive_into(&conn.stream, buf, at, len).await;
                conn.core.borrow_mut().direct_received(slot, buf, at, n);
                result
            }
            Next::Later => {
                // The ledger makes a turn when there is room.
                turn::next_turn().await;
                continue;
            }
            Next::Wait => {
                turn::until_drained(&conn.core, |core: &Core| {
                    core.state() == ConnectionState::Reinstating
                })
                .await;
                continue;
            }
        };
        match result {
            Ok(n) => conn.core.borrow_mut().arrived(n),
            Err(why) => return why,
        }
    }
}
