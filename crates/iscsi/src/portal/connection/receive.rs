//! Receiver: PDUs out of the staging area, payload straight into its buffer.
//!
//! **Owns** the parsing of the byte stream. **Called by** the turns of a connection, which poll [`receive`]. **Invariants**:
//! everything that has arrived is dispatched before the next receive; a header is checked once, and no PDU takes effect before its
//! digests were checked; data of SCSI commands goes to its buffer as it arrives; data without a destination is counted off and not
//! kept.

use super::{Connection, Core, Phase};
use crate::limits::{STAGING_MAX, STAGING_MIN};
use crate::portal::counters::CloseReason;
use crate::portal::early::Room;
use crate::portal::full_feature::Next;
use crate::portal::incoming::{Destination, Incoming, Position};
use crate::wire::Bhs;
use crate::wire::bhs::BHS_LEN;
use crate::wire::decode::{DecodeError, Decoded, HEADER_LEN_MAX, Header, decode};
use crate::wire::request::Request;
use crate::wire::response::RejectReason;
use io::net::TcpStream;
use io::{IoBuf, RecvBuf};
use session::digest::{Crc32c, DIGEST_LEN};
use session::staging::Staging;
use session::turn;
use std::sync::atomic::Ordering;

/// The receiver's next step.
enum Receive {
    /// Receive into the staging area, which must hold this many bytes in one piece.
    Staged(usize),
    /// Receive the rest of a data segment into a command's buffer from byte `at` on.
    Direct {
        slot: usize,
        buf: IoBuf,
        at: usize,
        len: usize,
    },
    /// Receive nothing until output has left.
    AfterOutput,
    /// Receive nothing in this turn: there is no buffer for the next command.
    NextTurn,
}

/// Whether much data is awaited: behind a header that announced much, and between PDUs while a command waits for data of R2Ts. The rest of
/// a short data segment is not much: the next commands come with it.
fn is_much_awaited(position: &Position, is_bulk: bool, is_transfer_due: bool) -> bool {
    match position {
        Position::Data(_) => is_bulk,
        Position::Header | Position::Trailer(_) => is_bulk || is_transfer_due,
    }
}

impl Core {
    /// Length of the staging area, bytes. It is small while much data is awaited, because data that arrives in it is copied.
    fn staging_len(&self) -> usize {
        let t = &self.transport;
        let is_transfer_due = t.link().transfer_due().is_some();
        let is_much_awaited = is_much_awaited(t.position(), t.is_bulk(), is_transfer_due);
        match &self.phase {
            Phase::FullFeature(f) if f.is_served() && !t.is_closing() && !is_much_awaited => {
                STAGING_MAX
            }
            _ => STAGING_MIN.max(HEADER_LEN_MAX),
        }
    }

    /// Dispatches everything in `staging`.
    fn parse(&mut self, staging: &mut RecvBuf) -> Receive {
        loop {
            if self.transport.is_closing() {
                staging.consume(staging.readable().len());
                return Receive::Staged(1);
            }
            let next = match self.transport.take_position() {
                Position::Header => self.parse_header(staging),
                Position::Data(incoming) => self.parse_data(staging, incoming),
                Position::Trailer(incoming) => self.parse_trailer(staging, incoming),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn parse_header(&mut self, staging: &mut RecvBuf) -> Option<Receive> {
        let bytes = staging.readable();
        if bytes.is_empty() {
            return Some(Receive::Staged(1));
        }
        let t = &self.transport;
        if self.is_reinstating() || t.is_congested() || t.link().ending().is_some() {
            return Some(Receive::AfterOutput);
        }
        let header = match decode(bytes, t.rules()) {
            Ok(Decoded::Header(header)) => header,
            Ok(Decoded::NeedMore(n)) => return Some(Receive::Staged(n)),
            Err(e) => {
                self.undecodable(e, bytes);
                return None;
            }
        };
        let request = Request::parse(&header.bhs);
        let room = self.reserve_early(&header, &request);
        if room == Room::Later {
            return Some(Receive::NextTurn);
        }
        let ahs = bytes[BHS_LEN..BHS_LEN + header.ahs_len].to_vec();
        staging.consume(header.len);
        self.transport.announced(header.data_len);
        let destination = self.route(&header, &ahs, request, room);
        let incoming = Incoming {
            bhs: header.bhs,
            missing: header.data_len as usize,
            trailer: header.trailer,
            digest: Crc32c::new(),
            destination,
        };
        if incoming.missing > 0 {
            self.transport.set_position(Position::Data(incoming));
        } else {
            self.pdu_arrived(incoming, true);
        }
        None
    }

    /// Reserves a buffer for the unsolicited data of a command whose header is here.
    pub(super) fn reserve_early(
        &mut self,
        header: &Header,
        request: &Result<Request, RejectReason>,
    ) -> Room {
        match (&mut self.phase, request) {
            (Phase::FullFeature(f), Ok(Request::Scsi(command))) => {
                f.reserve_early(&mut self.transport, header, command)
            }
            _ => Room::Ready,
        }
    }

    pub(super) fn undecodable(&mut self, e: DecodeError, bytes: &[u8]) {
        match e {
            // §7.8: the length cannot be trusted, so the next PDU cannot be found.
            DecodeError::HeaderDigest => {
                let counters = &self.transport.shared().counters;
                counters
                    .header_digest_errors
                    .fetch_add(1, Ordering::Relaxed);
                self.transport.complain("a header digest does not match");
                self.end(CloseReason::Digest);
            }
            DecodeError::DataTooLong { .. } => {
                self.transport
                    .complain("a data segment is longer than was declared");
                if let Some(bhs) = bytes.first_chunk() {
                    self.reject(RejectReason::PROTOCOL_ERROR, &Bhs(*bhs));
                }
                self.transport.close_after_output(CloseReason::Protocol);
            }
        }
    }

    /// Finds the destination of a PDU's data. SCSI PDUs take effect before their data arrives, other PDUs after it.
    pub(super) fn route(
        &mut self,
        header: &Header,
        ahs: &[u8],
        request: Result<Request, RejectReason>,
        room: Room,
    ) -> Destination {
        let transport = &mut self.transport;
        let (destination, next) = match &mut self.phase {
            Phase::FullFeature(f) => f.route(transport, header, ahs, request, room),
            Phase::Discovery(d) => (d.route(transport, header, ahs, request), Next::Idle),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Over => {
                let memory = Vec::with_capacity(header.data_len as usize);
                (Destination::Login(memory), Next::Idle)
            }
        };
        self.go_on(next);
        if let Phase::FullFeature(f) = &mut self.phase {
            // A command that was refused needs none.
            f.forget_early();
        }
        destination
    }

    /// Copies bytes of a data segment to their destination.
    pub(super) fn deposit(&mut self, destination: &mut Destination, bytes: &[u8]) {
        match destination {
            Destination::Command { slot, at } | Destination::DataOut { slot, at, .. } => {
                if let Phase::FullFeature(f) = &mut self.phase {
                    f.put_data(&self.transport, *slot, *at, bytes);
                }
                *at += bytes.len();
            }
            Destination::Request(_, memory) | Destination::Login(memory) => {
                memory.extend_from_slice(bytes);
            }
            Destination::Nothing => {}
        }
    }

    fn parse_data(&mut self, staging: &mut RecvBuf, mut incoming: Incoming) -> Option<Receive> {
        let arrived = staging.readable().len().min(incoming.missing);
        if arrived > 0 {
            let bytes = &staging.readable()[..arrived];
            if self.transport.rules().data_digest {
                incoming.digest.update(bytes);
            }
            self.deposit(&mut incoming.destination, bytes);
            staging.consume(arrived);
            incoming.missing -= arrived;
        }
        if incoming.missing == 0 {
            self.transport.set_position(Position::Trailer(incoming));
            return None;
        }
        let direct = self.receive_direct(&incoming);
        self.transport.set_position(Position::Data(incoming));
        Some(direct.unwrap_or(Receive::Staged(1)))
    }

    /// Lends the buffer of the command that data is arriving for, if it has one.
    fn receive_direct(&mut self, incoming: &Incoming) -> Option<Receive> {
        let (slot, at) = incoming.destination.command()?;
        let Phase::FullFeature(f) = &mut self.phase else {
            return None;
        };
        f.await_data(&mut self.transport, slot);
        let (buf, room) = f.lend_buffer(slot, at)?;
        Some(Receive::Direct {
            slot,
            buf,
            at,
            len: incoming.missing.min(room),
        })
    }

    /// A receive into a command's buffer ended after `n` bytes.
    fn direct_received(&mut self, slot: usize, buf: IoBuf, begun: usize, n: usize) {
        let digests = self.transport.rules().data_digest;
        let Position::Data(incoming) = self.transport.position_mut() else {
            return;
        };
        if digests {
            incoming.digest.update(&buf[begun..begun + n]);
        }
        incoming.missing -= n;
        if incoming.destination.command().is_some() {
            incoming.destination.advance(n);
            if let Phase::FullFeature(f) = &mut self.phase {
                f.return_buffer(&self.transport, slot, buf, n);
            }
        }
    }

    fn parse_trailer(&mut self, staging: &mut RecvBuf, mut incoming: Incoming) -> Option<Receive> {
        let bytes = staging.readable();
        if bytes.len() < incoming.trailer {
            let need = incoming.trailer;
            self.transport.set_position(Position::Trailer(incoming));
            return Some(Receive::Staged(need));
        }
        let mut intact = true;
        if self.transport.rules().data_digest {
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
    pub(super) fn pdu_arrived(&mut self, incoming: Incoming, intact: bool) {
        let Incoming {
            bhs, destination, ..
        } = incoming;
        if !intact && !self.survives_damage(&bhs) {
            return;
        }
        let transport = &mut self.transport;
        let next = match (&mut self.phase, destination) {
            (Phase::FullFeature(f), Destination::Command { slot, .. }) if intact => {
                f.command_arrived(transport, slot)
            }
            (Phase::FullFeature(f), Destination::Command { slot, .. }) => {
                // The initiator sends the command again.
                f.forget(transport, slot);
                Next::Idle
            }
            (Phase::FullFeature(f), Destination::DataOut { slot, pdu, .. }) => {
                f.data_arrived(transport, slot, &pdu, bhs.data_len(), intact)
            }
            (_, Destination::Login(data)) => {
                self.login_pdu(&bhs, &data);
                Next::Idle
            }
            (_, Destination::Request(Err(reason), _)) if intact => {
                self.reject(reason, &bhs);
                Next::Idle
            }
            (Phase::FullFeature(f), Destination::Request(Ok(request), data)) if intact => {
                f.request(transport, &bhs, request, data)
            }
            (Phase::Discovery(d), Destination::Request(Ok(request), data)) if intact => {
                d.request(transport, &bhs, request, data);
                Next::Idle
            }
            _ => Next::Idle,
        };
        self.go_on(next);
    }

    /// A data digest did not match (§7.8). Returns whether the connection goes on: at error recovery level 1.
    fn survives_damage(&mut self, bhs: &Bhs) -> bool {
        let counters = &self.transport.shared().counters;
        counters.data_digest_errors.fetch_add(1, Ordering::Relaxed);
        self.reject(RejectReason::DATA_DIGEST_ERROR, bhs);
        let survives = self.phase.member().is_some_and(|m| m.recovers());
        if !survives {
            self.transport.complain("a data digest does not match");
            self.transport.close_after_output(CloseReason::Digest);
        }
        survives
    }
}

/// Receives and dispatches until the connection ends.
pub(super) async fn receive(conn: &Connection, stream: &TcpStream) -> CloseReason {
    let mut staging = Staging::new(conn.core.borrow().staging_len());
    loop {
        let next = conn.core.borrow_mut().parse(staging.area());
        let result = match next {
            Receive::Staged(whole) => {
                staging.resize(conn.core.borrow().staging_len());
                staging.receive(stream, whole).await
            }
            Receive::Direct { slot, buf, at, len } => {
                staging.resize(conn.core.borrow().staging_len());
                let (result, buf, n) = staging.receive_into(stream, buf, at, len).await;
                conn.core.borrow_mut().direct_received(slot, buf, at, n);
                result
            }
            Receive::NextTurn => {
                // The ledger makes a turn when it has bytes for the command.
                turn::next_turn().await;
                continue;
            }
            Receive::AfterOutput => {
                turn::until_drained(&conn.core, Core::is_reinstating).await;
                continue;
            }
        };
        match result {
            Ok(n) => conn.core.borrow_mut().arrived(n),
            Err(why) => return why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_come_with_the_rest_of_a_short_segment_find_room() {
        let data = || {
            Position::Data(Incoming {
                bhs: Bhs([0; BHS_LEN]),
                missing: 48,
                trailer: 0,
                digest: Crc32c::new(),
                destination: Destination::Nothing,
            })
        };
        // the command whose segment is cut off waits for its data
        assert!(!is_much_awaited(&data(), false, true));
        assert!(is_much_awaited(&data(), true, true));
        assert!(is_much_awaited(&Position::Header, false, true));
        assert!(!is_much_awaited(&Position::Header, false, false));
    }
}
