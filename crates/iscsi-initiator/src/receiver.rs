//! Receiving task of a connection: passes received PDUs to the engine.
//!
//! Small payloads are copied, large ones go straight into the task's buffer ([`initiator::inbound`]).
//!
//! **Called by** the queue. **Invariants**: a payload counts as received only after its digest was checked.

use super::connection::{ConnectionShared, Link};
use super::engine::{Arrival, DataIn, Engine};
use super::error::{Error, ProtocolError, Result};
use super::limits::STAGING_NARROW;
use super::outgoing::digest_matches;
use super::tasks::Data;
use initiator::inbound::Inbound;
use io::RecvBuf;
use iscsi::wire::decode::{Decoded, Header, decode};
use std::rc::Rc;

struct Receiver {
    queue: Rc<ConnectionShared>,
    link: Rc<Link>,
    inbound: Inbound,
}

/// A payload that has not arrived completely, or whose padding and digest have not.
struct Rest {
    data: DataIn,
    /// Offset in the task's buffer up to which it has arrived.
    at: usize,
    /// Bytes of padding and digest behind the payload.
    trailer: usize,
}

/// Receives until the connection ends, and records the reason.
pub(super) async fn run(queue: Rc<ConnectionShared>, link: Rc<Link>, staging: RecvBuf) {
    let mut receiver = Receiver {
        queue: queue.clone(),
        link,
        inbound: Inbound::new(staging, STAGING_NARROW),
    };
    let Err(cause) = receiver.run().await;
    queue.fail(cause);
}

impl Receiver {
    async fn run(&mut self) -> Result<std::convert::Infallible> {
        loop {
            let rest = self.drain()?;
            self.queue.send_if_wanted();
            match rest {
                Some(rest) => self.receive_rest(rest).await?,
                None => self.receive_more().await?,
            }
        }
    }

    async fn receive_more(&mut self) -> Result<()> {
        Ok(self.inbound.receive(&self.link.stream).await?)
    }

    /// Handles every complete PDU in the staging area. Returns a payload of which more must be received.
    fn drain(&mut self) -> Result<Option<Rest>> {
        loop {
            let bytes = self.inbound.readable();
            let header = match decode(bytes, &self.link.rules).map_err(ProtocolError::from)? {
                Decoded::NeedMore(_) => return Ok(None),
                Decoded::Header(header) => header,
            };
            let whole = header.len + header.data_len as usize + header.trailer;
            // PDUs other than Data-In are handled when they are complete. Their length is checked before that.
            let control = header.bhs.opcode() != Some(iscsi::wire::Opcode::DataIn);
            if control && bytes.len() < whole && header.data_len <= super::limits::CONTROL_DATA_MAX
            {
                return Ok(None);
            }
            let arrival = self.queue.engine.borrow_mut().header(&header)?;
            match arrival {
                Arrival::Data(data) => {
                    if let Some(rest) = self.data(data, &header)? {
                        return Ok(Some(rest));
                    }
                }
                Arrival::Control => self.control(&header, whole)?,
            }
        }
    }

    fn control(&mut self, header: &Header, whole: usize) -> Result<()> {
        let bytes = self.inbound.readable();
        let (data, trailer) = bytes[header.len..whole].split_at(header.data_len as usize);
        if self.link.rules.data_digest && !data.is_empty() && !digest_matches(trailer, data) {
            return Err(Error::DataDigest);
        }
        let handled = self.queue.control(&header.bhs, data, Engine::control);
        self.inbound.consume(whole);
        handled
    }

    /// Copies the part of a Data-In that has arrived. Returns the payload if more must be received.
    fn data(&mut self, data: DataIn, header: &Header) -> Result<Option<Rest>> {
        self.inbound.expect(header.data_len as usize);
        let mut engine = self.queue.engine.borrow_mut();
        let Data::In(buf) = &mut engine.tasks.get_mut(data.index).data else {
            unreachable!("the engine has just checked that the task reads")
        };
        let len = data.end - data.start;
        let arrived = &self.inbound.readable()[header.len..];
        let here = arrived.len().min(len);
        buf[data.start..data.start + here].copy_from_slice(&arrived[..here]);
        if arrived.len() < len + header.trailer {
            let at = data.start + here;
            drop(engine);
            self.inbound.consume(header.len + here);
            return Ok(Some(Rest {
                data,
                at,
                trailer: header.trailer,
            }));
        }
        let trailer = &arrived[len..len + header.trailer];
        let payload = &buf[data.start..data.end];
        if self.link.rules.data_digest && len > 0 && !digest_matches(trailer, payload) {
            return Err(Error::DataDigest);
        }
        engine.data_done(&data)?;
        drop(engine);
        self.inbound.consume(header.len + len + header.trailer);
        Ok(None)
    }

    /// Receives the rest of a payload into the task's buffer, and its padding and digest.
    async fn receive_rest(&mut self, rest: Rest) -> Result<()> {
        let index = rest.data.index;
        let taken = std::mem::replace(
            &mut self.queue.engine.borrow_mut().tasks.get_mut(index).data,
            Data::None,
        );
        let Data::In(buf) = taken else {
            unreachable!("a payload's task keeps its buffer")
        };
        let part = rest.at..rest.data.end;
        let (received, buf) = self.inbound.fill(&self.link.stream, buf, part).await;
        let checked = match received {
            Ok(()) => {
                self.take_trailer(rest.trailer, &buf[rest.data.start..rest.data.end])
                    .await
            }
            Err(error) => Err(error.into()),
        };
        let mut engine = self.queue.engine.borrow_mut();
        engine.tasks.get_mut(index).data = Data::In(buf);
        checked?;
        engine.data_done(&rest.data)
    }

    async fn take_trailer(&mut self, len: usize, payload: &[u8]) -> Result<()> {
        let stream = &self.link.stream;
        self.inbound.receive_at_least(stream, len).await?;
        let trailer = &self.inbound.readable()[..len];
        let wrong = self.link.rules.data_digest && !digest_matches(trailer, payload);
        self.inbound.consume(len);
        if wrong {
            Err(Error::DataDigest)
        } else {
            Ok(())
        }
    }
}
