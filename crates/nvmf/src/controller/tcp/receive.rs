//! Receiver of a connection: PDUs out of the staging area, payload straight into its buffer.
//!
//! **Owns** the position in the byte stream. **Called by** the turns of a connection, which poll [`receive`]. **Invariants**:
//! everything that has arrived is dispatched before the next receive; a capsule is dispatched when it is whole, data of an R2T
//! goes to its buffer as it arrives; an invalid PDU ends the connection with the fatal error status that TCP 3.5 names, before
//! any part of the PDU takes effect.

use super::framing::{Framing, capsule_len_max};
use crate::controller::command::takes_user_data;
use crate::controller::counters::CloseReason;
use crate::controller::exchange::{Capsule, Exchange};
use crate::controller::framing::AnyFraming;
use crate::controller::phase::{Connection, Core};
use crate::wire::command::Sqe;
use crate::wire::pdu::{
    Decoded, Frame, IcReq, IcResp, Pda, Pdu, PduError, Receiver, RxRules, decode,
};
use io::buf::BufPool;
use io::{IoBuf, RecvBuf};
use session::carrier::ByteStream;
use session::digest::{DIGEST_LEN, crc32c};
use session::staging::Staging;
use session::turn;

/// The position in the byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
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
enum Next {
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
    /// Take no further command until replies have left.
    Wait,
}

/// Parses the byte stream of one connection.
struct Parser {
    position: Position,
    /// A buffer for the next in-capsule data.
    spare: Option<IoBuf>,
}

impl Parser {
    /// Dispatches everything in `staging`.
    fn parse(&mut self, core: &mut Core, staging: &mut RecvBuf) -> Next {
        loop {
            if core.is_terminating() {
                staging.consume(staging.readable().len());
                return Next::Receive(1);
            }
            let next = match self.position {
                Position::Header => self.parse_header(core, staging),
                Position::Data { slot, left, last } => {
                    self.parse_data(core, staging, (slot, left, last))
                }
                Position::DataDigest { slot, last } => self.parse_digest(core, staging, slot, last),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    #[inline]
    fn parse_header(&mut self, core: &mut Core, staging: &mut RecvBuf) -> Option<Next> {
        let bytes = staging.readable();
        if bytes.is_empty() {
            return Some(Next::Receive(1));
        }
        if core.is_congested() || core.common.link.ending().is_some() {
            return Some(Next::Wait);
        }
        let decoded = match core.exchange().and_then(Exchange::tcp) {
            Some(framing) => decode(bytes, framing.rules()),
            None => decode(bytes, &RxRules::connecting(Receiver::Controller)),
        };
        let frame = match decoded {
            Ok(Decoded::Frame(frame)) => frame,
            Ok(Decoded::NeedMore(n)) => return Some(Next::Receive(bytes.len() + n)),
            Err(e) => {
                refuse(core, e, bytes);
                return None;
            }
        };
        match frame.pdu {
            Pdu::CapsuleCmd(sqe) => return self.parse_capsule(core, &sqe, &frame, staging),
            Pdu::H2cData(data) => {
                let announced = match core.exchange_mut() {
                    Some((exchange, _)) => exchange.data_announced(&data, frame.data_len),
                    None => Err(PduError::field(0, "H2CData before ICReq")),
                };
                match announced {
                    Ok(slot) => {
                        self.position = Position::Data {
                            slot,
                            left: frame.data_len as usize,
                            last: data.last,
                        };
                        staging.consume(frame.data_offset);
                    }
                    Err(e) => refuse(core, e, staging.readable()),
                }
            }
            Pdu::IcReq(req) => {
                staging.consume(frame.data_offset);
                initialize(core, &req);
            }
            Pdu::H2cTermReq(_) => core.end(CloseReason::HostTerminated),
            // The decoder lets no other PDU through to a controller.
            Pdu::IcResp(_)
            | Pdu::C2hTermReq(_)
            | Pdu::CapsuleResp(_)
            | Pdu::C2hData(_)
            | Pdu::R2t(_) => {
                let error = PduError::field(0, "PDU type of the other direction");
                refuse(core, error, staging.readable());
            }
        }
        None
    }

    #[inline]
    fn parse_capsule(
        &mut self,
        core: &mut Core,
        sqe: &Sqe,
        frame: &Frame,
        staging: &mut RecvBuf,
    ) -> Option<Next> {
        let len = frame.pdu_len();
        let bytes = staging.readable();
        if bytes.len() < len {
            return Some(Next::Receive(len));
        }
        let data_end = frame.data_offset + frame.data_len as usize;
        let data = &bytes[frame.data_offset..data_end];
        if takes_user_data(sqe.opcode)
            && !data.is_empty()
            && !self.make_spare(core.common.link.pool(), data.len())
        {
            return Some(Next::Buffer(data.len()));
        }
        let is_intact = !frame.data_digest || digest_at(bytes, data_end) == crc32c(data);
        let capsule = Capsule {
            bytes: data,
            spare: self.spare.take(),
        };
        core.capsule(sqe, capsule, is_intact);
        staging.consume(len);
        None
    }

    /// Makes sure that a buffer for in-capsule data is at hand.
    fn make_spare(&mut self, pool: &BufPool, len: usize) -> bool {
        if self.spare.as_ref().is_some_and(|b| b.capacity() >= len) {
            return true;
        }
        self.spare = pool.try_alloc(len);
        self.spare.is_some()
    }

    fn parse_data(
        &mut self,
        core: &mut Core,
        staging: &mut RecvBuf,
        (slot, left, last): (usize, usize, bool),
    ) -> Option<Next> {
        let (exchange, common) = core.exchange_mut()?;
        let here = staging.readable().len().min(left);
        if here > 0 {
            exchange.put_data(common, slot, &staging.readable()[..here]);
            staging.consume(here);
        }
        let left = left - here;
        if left == 0 {
            self.position = Position::Header;
            if exchange.framing().digests().data {
                self.position = Position::DataDigest { slot, last };
            } else {
                core.pdu_received(slot, last, None);
            }
            return None;
        }
        self.position = Position::Data { slot, left, last };
        let (buf, at) = exchange.lend_buffer(slot)?;
        Some(Next::Direct {
            slot,
            buf,
            at,
            len: left,
        })
    }

    /// A receive into a command's buffer ended after `n` bytes of it.
    fn direct_received(&mut self, core: &mut Core, slot: usize, buf: IoBuf, n: usize) {
        if let Some((exchange, common)) = core.exchange_mut() {
            exchange.put_buffer(common, slot, buf, n);
        }
        if let Position::Data { left, last, .. } = self.position {
            self.position = Position::Data {
                slot,
                left: left - n,
                last,
            };
        }
    }

    fn parse_digest(
        &mut self,
        core: &mut Core,
        staging: &mut RecvBuf,
        slot: usize,
        last: bool,
    ) -> Option<Next> {
        if staging.readable().len() < DIGEST_LEN {
            return Some(Next::Receive(DIGEST_LEN));
        }
        let digest = digest_at(staging.readable(), 0);
        staging.consume(DIGEST_LEN);
        self.position = Position::Header;
        core.pdu_received(slot, last, Some(digest));
        None
    }
}

impl Core {
    /// Size of the staging area, bytes.
    fn staging_len(&self) -> usize {
        match self.exchange().and_then(Exchange::tcp) {
            Some(framing) => {
                let is_data_awaited = self.common.link.transfer_due().is_some();
                framing.staging_len(is_data_awaited)
            }
            None => capsule_len_max(0),
        }
    }

    /// All data of an H2CData is here, and its digest if there is one. With the last PDU of its command, the command is
    /// executed.
    fn pdu_received(&mut self, slot: usize, last: bool, digest: Option<u32>) {
        let Some((exchange, common)) = self.exchange_mut() else {
            return;
        };
        if let Some((command, data)) = exchange.pdu_received(common, slot, last, digest) {
            self.data_received(command, data);
        }
    }
}

fn refuse(core: &mut Core, error: PduError, bytes: &[u8]) {
    let header = bytes
        .get(2)
        .map_or(0, |hlen| usize::from(*hlen))
        .min(bytes.len());
    core.terminate(error, &bytes[..header]);
}

/// ICReq (TCP 3.4, 3.6.2.2): answers with the digests and limits that hold from here on.
fn initialize(core: &mut Core, req: &IcReq) {
    let config = &core.common.target().config;
    let mut digests = req.digests;
    digests.header &= config.header_digest;
    digests.data &= config.data_digest;
    let max_h2c_data = config.mdts;
    core.common.put_ic_resp(&IcResp {
        cpda: Pda::DWORD,
        digests,
        max_h2c_data,
    });
    let framing = Framing::new(digests, req.hpda, max_h2c_data);
    core.await_connect(Exchange::new(AnyFraming::Tcp(framing)));
}

/// The digest at a place that was checked to be there.
fn digest_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|b| b.first_chunk::<DIGEST_LEN>())
        .map_or(0, |d| u32::from_le_bytes(*d))
}

/// Receives and dispatches until the connection ends.
pub(super) async fn receive(conn: &Connection, stream: &impl ByteStream) -> CloseReason {
    let core = conn.core();
    let mut staging = Staging::new(core.borrow().staging_len());
    let mut parser = Parser {
        position: Position::Header,
        spare: None,
    };
    loop {
        let next = parser.parse(&mut core.borrow_mut(), staging.area());
        let result = match next {
            Next::Receive(whole) => {
                staging.resize(core.borrow().staging_len());
                staging.receive(stream, whole).await
            }
            Next::Direct { slot, buf, at, len } => {
                let (result, buf, n) = staging.receive_into(stream, buf, at, len).await;
                parser.direct_received(&mut core.borrow_mut(), slot, buf, n);
                result
            }
            Next::Buffer(len) => {
                let pool = core.borrow().common.link.pool().clone();
                parser.spare = Some(pool.alloc(len).await);
                continue;
            }
            Next::Wait => {
                turn::until_drained(core, |_| false).await;
                continue;
            }
        };
        match result {
            Ok(n) => core.borrow_mut().arrived(n),
            Err(why) => return why,
        }
    }
}
