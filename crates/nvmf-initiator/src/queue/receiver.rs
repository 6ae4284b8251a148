//! Receiving task of a connection: parses PDUs and completes commands.
//!
//! Small payloads are copied, large ones go straight into the command's buffer ([`initiator::inbound`]).

use std::rc::Rc;

use io::RecvBuf;

use super::shared::{End, QueueShared};
use super::slots::{Data, find, put_data};
use crate::error::Error;
use crate::limits::STAGING_NARROW;
use crate::link::Link;
use initiator::inbound::Inbound;
use nvmf::wire::command::Cid;
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::{
    DataPdu, Decoded, FatalErrorStatus, Frame, HEADER_LEN_MAX, Pdu, PduError, R2t, decode,
};
use nvmf::wire::status::Status;
use session::digest::{DIGEST_LEN, crc32c};

struct Receiver {
    queue: Rc<QueueShared>,
    link: Rc<Link>,
    inbound: Inbound,
}

/// A payload that has not arrived completely, or whose digest has not.
struct Rest {
    index: u16,
    data: DataPdu,
    /// Offset of the payload in the command's buffer; `at` is how far it has arrived.
    start: usize,
    at: usize,
    end: usize,
}

/// Receives until the connection ends, and records the reason.
pub(super) async fn run(queue: Rc<QueueShared>, link: Rc<Link>, staging: RecvBuf) {
    let mut receiver = Receiver {
        queue: queue.clone(),
        link,
        inbound: Inbound::new(staging, STAGING_NARROW),
    };
    match receiver.run().await {
        End::Violation(error, offender) => queue.terminate(error, &offender),
        End::Cause(error) => queue.fail(error),
    }
}

impl Receiver {
    async fn run(&mut self) -> End {
        loop {
            let rest = match self.drain() {
                Ok(rest) => rest,
                Err(end) => return end,
            };
            let more = match rest {
                Some(rest) => self.receive_rest(rest).await,
                None => self.receive_more().await,
            };
            if let Err(end) = more {
                return end;
            }
        }
    }

    async fn receive_more(&mut self) -> Result<(), End> {
        let received = self.inbound.receive(&self.link.stream).await;
        received.map_err(|e| End::Cause(e.into()))
    }

    /// Handles every complete PDU in the staging area. Returns a payload of which more must be received.
    fn drain(&mut self) -> Result<Option<Rest>, End> {
        loop {
            let bytes = self.inbound.readable();
            let frame = match decode(bytes, &self.link.rules) {
                Ok(Decoded::NeedMore(_)) => return Ok(None),
                Ok(Decoded::Frame(frame)) => frame,
                Err(error) => return Err(self.violation(error)),
            };
            let handled = match frame.pdu {
                Pdu::CapsuleResp(cqe) => self.response(cqe),
                Pdu::C2hData(data) => match self.data(data, &frame)? {
                    None => continue,
                    rest => return Ok(rest),
                },
                Pdu::R2t(r2t) => self.ready_to_transfer(r2t),
                Pdu::C2hTermReq(term) => {
                    let why = FatalErrorStatus::from_code(term.fes);
                    tracing::warn!(
                        queue = self.queue.qid,
                        fes = term.fes,
                        ?why,
                        fei = term.fei,
                        "terminated by the peer"
                    );
                    return Err(End::Cause(Error::Terminated {
                        fes: term.fes,
                        fei: term.fei,
                    }));
                }
                Pdu::IcReq(_)
                | Pdu::IcResp(_)
                | Pdu::H2cTermReq(_)
                | Pdu::CapsuleCmd(_)
                | Pdu::H2cData(_) => {
                    unreachable!("a connected host decodes no such PDU")
                }
            };
            handled.map_err(|error| self.violation(error))?;
            self.inbound.consume(frame.data_offset);
        }
    }

    fn violation(&self, error: PduError) -> End {
        let bytes = self.inbound.readable();
        End::Violation(error, bytes[..bytes.len().min(HEADER_LEN_MAX)].to_vec())
    }

    fn response(&self, cqe: Cqe) -> Result<(), PduError> {
        let index = find(&self.queue.slots.borrow(), cqe.cid())?;
        self.queue.finish(index, cqe)
    }

    /// Copies the part of a C2HData that has arrived. Returns the payload if more must be received.
    fn data(&mut self, data: DataPdu, frame: &Frame) -> Result<Option<Rest>, End> {
        let mut slots = self.queue.slots.borrow_mut();
        let checked = find(&slots, data.cccid).and_then(|index| {
            let slot = slots.get(index);
            let fits = data.offset == slot.moved && frame.data_len <= slot.data_len - slot.moved;
            if !matches!(slot.data, Data::In(_)) {
                return Err(PduError::sequence("data for a command that reads none"));
            }
            if !fits {
                return Err(PduError::out_of_range(
                    "data outside the command's, or out of order",
                ));
            }
            Ok(index)
        });
        let index = match checked {
            Ok(index) => index,
            Err(error) => {
                drop(slots);
                return Err(self.violation(error));
            }
        };
        self.inbound.expect(frame.data_len as usize);
        let slot = slots.get_mut(index);
        let Data::In(buf) = &mut slot.data else {
            unreachable!("just checked")
        };
        let start = data.offset as usize;
        let end = start + frame.data_len as usize;
        let arrived = &self.inbound.readable()[frame.data_offset..];
        let here = arrived.len().min(end - start);
        buf[start..start + here].copy_from_slice(&arrived[..here]);
        if arrived.len() < frame.data_len as usize + frame.trailer_len() {
            drop(slots);
            self.inbound.consume(frame.data_offset + here);
            return Ok(Some(Rest {
                index,
                data,
                start,
                at: start + here,
                end,
            }));
        }
        if frame.data_digest && !digest_matches(&arrived[here..], &buf[start..end]) {
            return Err(End::Cause(Error::DataDigest));
        }
        slot.moved += frame.data_len;
        drop(slots);
        self.payload_done(index, &data)?;
        self.inbound.consume(frame.pdu_len());
        Ok(None)
    }

    /// Receives the rest of a payload into the command's buffer, and checks its digest.
    async fn receive_rest(&mut self, rest: Rest) -> Result<(), End> {
        let taken = std::mem::replace(
            &mut self.queue.slots.borrow_mut().get_mut(rest.index).data,
            Data::None,
        );
        let Data::In(buf) = taken else {
            unreachable!("a payload's command keeps its buffer")
        };
        let part = rest.at..rest.end;
        let (received, buf) = self.inbound.fill(&self.link.stream, buf, part).await;
        let digest_ok = match received {
            Ok(()) if self.link.rules.digests.data => {
                self.check_digest(&buf[rest.start..rest.end]).await
            }
            other => other.map_err(|e| End::Cause(e.into())),
        };
        let mut slots = self.queue.slots.borrow_mut();
        let slot = slots.get_mut(rest.index);
        slot.data = Data::In(buf);
        digest_ok?;
        slot.moved += (rest.end - rest.start) as u32;
        drop(slots);
        self.payload_done(rest.index, &rest.data)
    }

    async fn check_digest(&mut self, payload: &[u8]) -> Result<(), End> {
        let stream = &self.link.stream;
        let received = self.inbound.receive_at_least(stream, DIGEST_LEN).await;
        received.map_err(|e| End::Cause(e.into()))?;
        let matches = digest_matches(self.inbound.readable(), payload);
        self.inbound.consume(DIGEST_LEN);
        if matches {
            Ok(())
        } else {
            Err(End::Cause(Error::DataDigest))
        }
    }

    /// Handles a complete C2HData. With SUCCESS it completes the command.
    fn payload_done(&self, index: u16, data: &DataPdu) -> Result<(), End> {
        if data.success {
            self.queue
                .finish(index, Cqe::new(data.cccid, Status::SUCCESS))?;
        }
        Ok(())
    }

    /// Answers an R2T: puts the requested data into the batch, in H2CData of at most MAXH2CDATA bytes.
    fn ready_to_transfer(&self, r2t: R2t) -> Result<(), PduError> {
        let mut slots = self.queue.slots.borrow_mut();
        let index = find(&slots, r2t.cccid)?;
        let slot = slots.get_mut(index);
        if slot.data.outgoing().is_none() {
            return Err(PduError::sequence("R2T for a command that writes none"));
        }
        if r2t.offset != slot.moved || r2t.length > slot.data_len - slot.moved {
            return Err(PduError::out_of_range(
                "R2T outside the command's data, or out of order",
            ));
        }
        let batch_number = self.queue.batch_number.get();
        // R2Ts that one batch answers were outstanding together: the controller had received none of their data.
        let (batch_of_last, count) = slot.r2t_batch;
        let outstanding = if batch_of_last == batch_number {
            count + 1
        } else {
            1
        };
        if outstanding > u64::from(self.link.max_r2t) {
            return Err(PduError::limit("more R2Ts outstanding than MAXR2T"));
        }
        slot.r2t_batch = (batch_number, outstanding);
        let mut batch = self.queue.batch.borrow_mut();
        let (mut offset, end) = (r2t.offset, r2t.offset + r2t.length);
        while offset < end {
            let len = (end - offset).min(self.link.max_h2c_data);
            let last = offset + len == end;
            let data = DataPdu {
                cccid: Cid(r2t.cccid.0),
                ttag: r2t.ttag,
                offset,
                last,
                success: false,
            };
            let mut header = [0; HEADER_LEN_MAX];
            let n = self.link.encoder.h2c_data(&data, len, &mut header);
            batch.put(&header[..n]);
            put_data(
                &mut batch,
                &slot.data,
                offset,
                len,
                self.link.encoder.data_digest(),
            );
            offset += len;
        }
        slot.moved = end;
        self.queue.send_wanted.notify();
        Ok(())
    }
}

/// Whether the first bytes of `trailer` are the digest of `payload`.
fn digest_matches(trailer: &[u8], payload: &[u8]) -> bool {
    trailer
        .first_chunk::<DIGEST_LEN>()
        .is_some_and(|d| u32::from_le_bytes(*d) == crc32c(payload))
}
