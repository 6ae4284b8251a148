//! What a connection receives: PDUs out of the staging area, payload straight into its buffer.
//!
//! **Owns** the parsing of the byte stream. **Called by** [`super::connection`], which polls [`receive`].
//! **Invariants**: everything that has arrived is dispatched before the next receive; a capsule is dispatched when it
//! is whole, data of an R2T goes to its buffer as it comes; what is not valid ends the connection with the fatal error
//! status that TCP 3.5 names, before any of it takes effect.

use super::connection::{Connection, Core};
use super::counters::{CloseReason, ConnectionState};
use super::limits::{ADMIN_IN_CAPSULE, ADMIN_UNSENT_MAX, STAGING_MAX};
use crate::wire::command::Sqe;
use crate::wire::pdu::{
    Decoded, Encoder, Frame, HEADER_LEN_MAX, IcReq, IcResp, Pda, Pdu, PduError, Phase, RxRules,
    decode,
};
use crate::wire::status::Status;
use io::{IoBuf, RecvBuf};
use session::digest::{DIGEST_LEN, crc32c};
use session::staging::Staging;
use session::turn;

/// Where in the byte stream the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RxState {
    /// At the beginning of a PDU.
    Header,
    /// Within the data of an H2CData: it belongs to command slot `slot`, `left` bytes of this PDU are to come.
    Data {
        slot: usize,
        left: usize,
        last: bool,
    },
    /// At the data digest behind the data of an H2CData.
    DataDigest { slot: usize, last: bool },
}

/// What the receiver does next.
pub(super) enum Next {
    /// Receive into the staging area, which must hold `.0` bytes in one piece.
    Receive(usize),
    /// Receive the rest of a command's data into its buffer from byte `at` on.
    Direct {
        slot: usize,
        buf: IoBuf,
        at: usize,
        len: usize,
    },
    /// Wait for a buffer of this many bytes.
    Buffer(usize),
    /// Take nothing more until replies have left.
    Wait,
}

impl Core {
    /// Whether the receiver holds back because too much lies unsent.
    pub(super) fn is_congested(&self) -> bool {
        let depth = self.queue.as_ref().map_or(32, |q| usize::from(q.size));
        let is_io = self.queue.as_ref().is_some_and(|q| q.qid > 0);
        let unsent_max = if is_io {
            2 * self.target().config.connection_budget
        } else {
            ADMIN_UNSENT_MAX
        };
        self.link.output().replies() > 2 * depth + 32 || self.link.output().payload() > unsent_max
    }

    /// The longest PDU that must lie in the staging area whole.
    fn capsule_len_max(&self) -> usize {
        HEADER_LEN_MAX + DIGEST_LEN + self.rules.capsule_data_max.max(ADMIN_IN_CAPSULE) as usize
    }

    /// How large the staging area is to be: one capsule, or several where many are likely to come. While data of
    /// R2Ts is awaited it is small, because what lands here must be copied.
    fn staging_len(&self) -> usize {
        let capsule = self.capsule_len_max();
        match &self.queue {
            Some(q) if q.qid > 0 && self.link.transfer_due().is_none() => (capsule
                * usize::from(q.size))
            .min(STAGING_MAX)
            .max(capsule),
            _ => capsule,
        }
    }

    /// Dispatches everything in `staging`.
    pub(super) fn parse(&mut self, staging: &mut RecvBuf) -> Next {
        loop {
            if self.state() == ConnectionState::Terminating {
                staging.consume(staging.readable().len());
                return Next::Receive(1);
            }
            let next = match self.rx {
                RxState::Header => self.parse_header(staging),
                RxState::Data { slot, left, last } => self.parse_data(staging, slot, left, last),
                RxState::DataDigest { slot, last } => self.parse_digest(staging, slot, last),
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
        if self.is_congested() || self.ending().is_some() {
            return Some(Next::Wait);
        }
        let frame = match decode(bytes, &self.rules) {
            Ok(Decoded::Frame(frame)) => frame,
            Ok(Decoded::NeedMore(n)) => return Some(Next::Receive(bytes.len() + n)),
            Err(e) => {
                self.refuse(e, bytes);
                return None;
            }
        };
        match frame.pdu {
            Pdu::CapsuleCmd(sqe) => return self.parse_capsule(&sqe, &frame, staging),
            Pdu::H2cData(data) => match self.data_arrives(&data, frame.data_len) {
                Ok(slot) => {
                    self.rx = RxState::Data {
                        slot,
                        left: frame.data_len as usize,
                        last: data.last,
                    };
                    staging.consume(frame.data_offset);
                }
                Err(e) => self.refuse(e, staging.readable()),
            },
            Pdu::IcReq(req) => {
                staging.consume(frame.data_offset);
                self.initialize(&req);
            }
            Pdu::H2cTermReq(_) => self.end(CloseReason::HostTerminated),
            // The decoder lets nothing else through to a controller.
            Pdu::IcResp(_)
            | Pdu::C2hTermReq(_)
            | Pdu::CapsuleResp(_)
            | Pdu::C2hData(_)
            | Pdu::R2t(_) => {
                self.refuse(
                    PduError::field(0, "PDU type of the other direction"),
                    staging.readable(),
                );
            }
        }
        None
    }

    fn refuse(&mut self, error: PduError, bytes: &[u8]) {
        let header = bytes
            .get(2)
            .map_or(0, |hlen| usize::from(*hlen))
            .min(bytes.len());
        self.fatal(error, &bytes[..header]);
    }

    /// ICReq (TCP 3.4, 3.6.2.2): answers with what is in use from here on.
    fn initialize(&mut self, req: &IcReq) {
        let config = &self.target().config;
        let mut digests = req.digests;
        digests.header &= config.header_digest;
        digests.data &= config.data_digest;
        let max_h2c_data = config.mdts;
        self.rules = RxRules {
            phase: Phase::Established,
            digests,
            pda: Pda::DWORD,
            capsule_data_max: ADMIN_IN_CAPSULE,
            data_max: max_h2c_data,
            ..self.rules
        };
        self.encoder = Encoder {
            digests,
            pda: req.hpda,
        };
        self.put_ic_resp(&IcResp {
            cpda: Pda::DWORD,
            digests,
            max_h2c_data,
        });
        self.enter(ConnectionState::AwaitConnect);
    }

    fn parse_capsule(&mut self, sqe: &Sqe, frame: &Frame, staging: &mut RecvBuf) -> Option<Next> {
        let len = frame.pdu_len();
        let bytes = staging.readable();
        if bytes.len() < len {
            return Some(Next::Receive(len));
        }
        let data_end = frame.data_offset + frame.data_len as usize;
        let data = &bytes[frame.data_offset..data_end];
        if Core::wants_buffer(sqe) && !data.is_empty() && !self.make_spare(data.len()) {
            return Some(Next::Buffer(data.len()));
        }
        let intact = !frame.data_digest || digest_at(bytes, data_end) == crc32c(data);
        self.capsule(sqe, data, intact);
        // A command that was refused has not taken it.
        self.spare = None;
        staging.consume(len);
        None
    }

    /// Makes sure that a buffer for in-capsule data is at hand.
    fn make_spare(&mut self, len: usize) -> bool {
        if self.spare.as_ref().is_some_and(|b| b.capacity() >= len) {
            return true;
        }
        self.spare = self.link.pool().try_alloc(len);
        self.spare.is_some()
    }

    fn parse_data(
        &mut self,
        staging: &mut RecvBuf,
        slot: usize,
        left: usize,
        last: bool,
    ) -> Option<Next> {
        let here = staging.readable().len().min(left);
        if here > 0 {
            self.put_data(slot, &staging.readable()[..here]);
            staging.consume(here);
        }
        let left = left - here;
        if left == 0 {
            self.rx = RxState::Header;
            if self.rules.digests.data {
                self.rx = RxState::DataDigest { slot, last };
            } else {
                self.pdu_received(slot, last, None);
            }
            return None;
        }
        self.rx = RxState::Data { slot, left, last };
        let (buf, at) = self.take_buffer(slot)?;
        Some(Next::Direct {
            slot,
            buf,
            at,
            len: left,
        })
    }

    /// A receive into a command's buffer ended after `n` bytes of it.
    fn direct_received(&mut self, slot: usize, buf: IoBuf, n: usize) {
        self.put_buffer(slot, buf, n);
        if let RxState::Data { left, last, .. } = self.rx {
            self.rx = RxState::Data {
                slot,
                left: left - n,
                last,
            };
        }
    }

    fn parse_digest(&mut self, staging: &mut RecvBuf, slot: usize, last: bool) -> Option<Next> {
        if staging.readable().len() < DIGEST_LEN {
            return Some(Next::Receive(DIGEST_LEN));
        }
        let digest = digest_at(staging.readable(), 0);
        staging.consume(DIGEST_LEN);
        self.rx = RxState::Header;
        self.pdu_received(slot, last, Some(digest));
        None
    }

    /// A command capsule is here, whole (TCP 3.6.2.6). Data that is not `intact` fails the command and not the
    /// connection (TCP 3.3.1.1).
    fn capsule(&mut self, sqe: &Sqe, data: &[u8], intact: bool) {
        if self.state() == ConnectionState::Draining {
            // Never answered, so the host sends it again when it has connected again.
            return;
        }
        self.link.tally().command();
        self.begin(sqe);
        if let Some(q) = &mut self.queue {
            q.head = (q.head + 1) % q.size;
        }
        if self.cids.contains(sqe.cid()) && !self.take_over_event_request(sqe) {
            return self.fail(sqe, Status::COMMAND_ID_CONFLICT.dnr());
        }
        if self.outstanding() >= self.queue.as_ref().map_or(1, |q| usize::from(q.size)) {
            return self.fatal(
                PduError::limit("more commands outstanding than the queue has entries"),
                &[],
            );
        }
        if !intact {
            self.target()
                .counters
                .data_digest_errors
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return self.fail(sqe, Status::TRANSIENT_TRANSPORT_ERROR);
        }
        self.dispatch(sqe, data);
    }
}

/// The digest at a place that was checked to be there.
fn digest_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|b| b.first_chunk::<DIGEST_LEN>())
        .map_or(0, |d| u32::from_le_bytes(*d))
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
                let (result, buf, n) = staging.receive_into(&conn.stream, buf, at, len).await;
                conn.core.borrow_mut().direct_received(slot, buf, n);
                result
            }
            Next::Buffer(len) => {
                let pool = conn.core.borrow().link.pool().clone();
                let buf = pool.alloc(len).await;
                conn.core.borrow_mut().spare = Some(buf);
                continue;
            }
            Next::Wait => {
                turn::until_drained(&conn.core, |_| false).await;
                continue;
            }
        };
        match result {
            Ok(n) => conn.core.borrow_mut().arrived(n),
            Err(why) => return why,
        }
    }
}
