//! Receiving task of a connection: passes records to the engine.
//!
//! The data of small records is copied, and that of large ones goes straight into the call's buffer ([`initiator::inbound`]).
//!
//! **Called by** the session. **Invariants**: a record is at most [`REPLY_MAX`] bytes long; only records that are longer than
//! the staging area, or have several fragments, are collected elsewhere.

use super::connection::ConnectionShared;
use super::engine::Arrival;
use super::error::{Error, ProtocolError, Result};
use super::limits::{REPLY_MAX, STAGING_NARROW};
use super::reply::ReadData;
use initiator::inbound::Inbound;
use initiator::slots::Data;
use io::RecvBuf;
use io::net::TcpStream;
use nfs::rpc::record::{Framing, MARK_LEN};
use nfs::xdr::padding;
use std::rc::Rc;

struct Receiver {
    shared: Rc<ConnectionShared>,
    stream: Rc<TcpStream>,
    inbound: Inbound,
    framing: Framing,
    /// Whether a fragment's header was taken, and its bytes were not.
    is_begun: bool,
    /// A record that does not fit the staging area, as far as it arrived.
    collected: Vec<u8>,
}

/// Data of a READ of which more must be received.
struct Rest {
    index: u16,
    data: ReadData,
    /// Bytes that have arrived.
    at: usize,
}

/// Receives until the session ends, and records the reason.
pub(super) async fn run(shared: Rc<ConnectionShared>, stream: Rc<TcpStream>, staging: RecvBuf) {
    let mut receiver = Receiver {
        stream,
        shared: shared.clone(),
        inbound: Inbound::new(staging, STAGING_NARROW),
        framing: Framing::new(REPLY_MAX as usize),
        is_begun: false,
        collected: Vec::new(),
    };
    let Err(cause) = receiver.run().await;
    shared.end(cause);
}

impl Receiver {
    async fn run(&mut self) -> Result<std::convert::Infallible> {
        loop {
            match self.drain()? {
                Some(rest) => self.receive_rest(rest).await?,
                None => self.receive_more().await?,
            }
        }
    }

    async fn receive_more(&mut self) -> Result<()> {
        Ok(self.inbound.receive(&self.stream).await?)
    }

    /// Handles every complete record in the staging area. Returns data of which more must be received.
    fn drain(&mut self) -> Result<Option<Rest>> {
        loop {
            if !self.is_begun && !self.begin()? {
                return Ok(None);
            }
            let len = self.framing.missing();
            let is_only = self.framing.is_last() && self.framing.len() == len;
            if is_only && self.collected.is_empty() {
                let bytes = self.inbound.readable();
                let here = bytes.len().min(len);
                let is_short = here < len;
                let arrival = self.shared.engine.borrow().arrival(&bytes[..here], len)?;
                match arrival {
                    Arrival::Data(index, data) => match self.data(index, data) {
                        Some(rest) => return Ok(Some(rest)),
                        None => continue,
                    },
                    Arrival::Whole if !is_short => {
                        self.shared.engine.borrow_mut().reply(&bytes[..len])?;
                        self.inbound.consume(len);
                        self.inbound.expect(0);
                        self.framing.arrived(len);
                        self.next();
                        continue;
                    }
                    Arrival::More | Arrival::Whole if len <= self.inbound.capacity() => {
                        return Ok(None);
                    }
                    Arrival::More | Arrival::Whole => {}
                }
            }
            if !self.collect()? {
                return Ok(None);
            }
        }
    }

    /// Takes the header of a fragment. Returns whether it has arrived.
    fn begin(&mut self) -> Result<bool> {
        let Some(header) = self.inbound.readable().first_chunk::<MARK_LEN>() else {
            return Ok(false);
        };
        let begun = self.framing.begin(*header);
        begun.map_err(ProtocolError::from)?;
        self.inbound.consume(MARK_LEN);
        self.is_begun = true;
        Ok(true)
    }

    /// The next record begins.
    fn next(&mut self) {
        self.framing.reset();
        self.is_begun = false;
        self.collected.clear();
    }

    /// Moves bytes of the present fragment out of the staging area. Returns whether the fragment is complete.
    fn collect(&mut self) -> Result<bool> {
        let bytes = self.inbound.readable();
        let here = bytes.len().min(self.framing.missing());
        self.collected.extend_from_slice(&bytes[..here]);
        self.inbound.consume(here);
        if self.framing.arrived(here) {
            self.shared.engine.borrow_mut().reply(&self.collected)?;
            self.next();
            return Ok(true);
        }
        if self.framing.missing() == 0 {
            self.is_begun = false;
            return Ok(true);
        }
        Ok(false)
    }

    /// Copies the data that has arrived. Returns it if more must be received.
    fn data(&mut self, index: u16, data: ReadData) -> Option<Rest> {
        self.inbound.expect(data.len);
        let mut engine = self.shared.engine.borrow_mut();
        let Data::In(buf) = &mut engine.calls.get_mut(index).data else {
            unreachable!("the engine has just checked that the call reads")
        };
        let pad = padding(data.len);
        let arrived = &self.inbound.readable()[data.start..];
        let at = arrived.len().min(data.len);
        buf[..at].copy_from_slice(&arrived[..at]);
        if arrived.len() < data.len + pad {
            drop(engine);
            self.inbound.consume(data.start + at);
            return Some(Rest { index, data, at });
        }
        engine.read_done(index, &data);
        drop(engine);
        self.inbound.consume(data.start + data.len + pad);
        self.next();
        None
    }

    /// Receives the rest of a READ's data into its buffer, and the padding.
    async fn receive_rest(&mut self, rest: Rest) -> Result<()> {
        let taken = std::mem::replace(
            &mut self
                .shared
                .engine
                .borrow_mut()
                .calls
                .get_mut(rest.index)
                .data,
            Data::None,
        );
        let Data::In(buf) = taken else {
            unreachable!("a call that reads keeps its buffer")
        };
        let part = rest.at..rest.data.len;
        let (received, buf) = self.inbound.fill(&self.stream, buf, part).await;
        self.shared
            .engine
            .borrow_mut()
            .calls
            .get_mut(rest.index)
            .data = Data::In(buf);
        received?;
        if self.shared.is_ending() {
            return Err(Error::Disconnected);
        }
        let pad = padding(rest.data.len);
        self.inbound.receive_at_least(&self.stream, pad).await?;
        self.inbound.consume(pad);
        let mut engine = self.shared.engine.borrow_mut();
        engine.read_done(rest.index, &rest.data);
        drop(engine);
        self.next();
        Ok(())
    }
}
