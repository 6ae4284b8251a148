//! Receiving task of a connection: passes records to the engine.
//!
//! Small records arrive in the staging area, and data is copied from there. The rest of large data is received straight into
//! the call's buffer. The staging area is narrow then, so that little of the next record lands in it.
//!
//! **Called by** the session. **Invariants**: a record is at most [`REPLY_MAX`] bytes long; only records that are longer than
//! the staging area, or have several fragments, are collected elsewhere.

use super::connection::ConnectionShared;
use super::engine::Arrival;
use super::error::{Error, ProtocolError, Result};
use super::limits::{LARGE_PAYLOAD, REPLY_MAX, STAGING_NARROW, STAGING_WIDE};
use super::reply::ReadData;
use initiator::receive;
use initiator::slots::Data;
use io::net::TcpStream;
use io::{IoBuf, RecvBuf};
use nfs::rpc::record::{Framing, MARK_LEN};
use nfs::xdr::padding;
use std::rc::Rc;

struct Receiver {
    shared: Rc<ConnectionShared>,
    stream: Rc<TcpStream>,
    staging: RecvBuf,
    /// Empty staging area of the other size.
    other: RecvBuf,
    /// Whether the last data was large.
    is_large: bool,
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
pub(super) async fn run(shared: Rc<ConnectionShared>, connection: usize, staging: RecvBuf) {
    let mut receiver = Receiver {
        stream: shared.streams[connection].clone(),
        shared: shared.clone(),
        staging,
        other: RecvBuf::new(STAGING_NARROW),
        is_large: false,
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
        self.fit_staging();
        Ok(receive(&self.stream, &mut self.staging).await?)
    }

    /// Swaps the staging area for the one of the size that data needs, if it is empty.
    fn fit_staging(&mut self) {
        let is_narrow = self.staging.capacity() < STAGING_WIDE;
        if self.is_large != is_narrow && self.staging.readable().is_empty() {
            std::mem::swap(&mut self.staging, &mut self.other);
        }
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
                let bytes = self.staging.readable();
                let here = bytes.len().min(len);
                let is_short = here < len;
                let arrival = self.shared.engine.borrow().arrival(&bytes[..here], len)?;
                match arrival {
                    Arrival::Data(index, data) => match self.data(index, data) {
                        Some(rest) => return Ok(Some(rest)),
                        None => continue,
                    },
                    Arrival::Whole if !is_short => {
                        self.is_large = false;
                        self.shared.engine.borrow_mut().reply(&bytes[..len])?;
                        self.staging.consume(len);
                        self.framing.arrived(len);
                        self.next();
                        continue;
                    }
                    Arrival::More | Arrival::Whole if len <= self.staging.capacity() => {
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
        let Some(header) = self.staging.readable().first_chunk::<MARK_LEN>() else {
            return Ok(false);
        };
        let begun = self.framing.begin(*header);
        begun.map_err(ProtocolError::from)?;
        self.staging.consume(MARK_LEN);
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
        let bytes = self.staging.readable();
        let here = bytes.len().min(self.framing.missing());
        self.collected.extend_from_slice(&bytes[..here]);
        self.staging.consume(here);
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
        self.is_large = data.len >= LARGE_PAYLOAD;
        let mut engine = self.shared.engine.borrow_mut();
        let Data::In(buf) = &mut engine.calls.get_mut(index).data else {
            unreachable!("the engine has just checked that the call reads")
        };
        let pad = padding(data.len);
        let arrived = &self.staging.readable()[data.start..];
        let at = arrived.len().min(data.len);
        buf[..at].copy_from_slice(&arrived[..at]);
        if arrived.len() < data.len + pad {
            drop(engine);
            self.staging.consume(data.start + at);
            return Some(Rest { index, data, at });
        }
        engine.read_done(index, &data);
        drop(engine);
        self.staging.consume(data.start + data.len + pad);
        self.next();
        None
    }

    /// Receives the rest of a READ's data into its buffer, and the padding.
    async fn receive_rest(&mut self, mut rest: Rest) -> Result<()> {
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
        let (received, buf) = self.receive_into(buf, &mut rest).await;
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
        while self.staging.readable().len() < pad {
            self.receive_more().await?;
        }
        self.staging.consume(pad);
        let mut engine = self.shared.engine.borrow_mut();
        engine.read_done(rest.index, &rest.data);
        drop(engine);
        self.next();
        Ok(())
    }

    async fn receive_into(&mut self, mut buf: IoBuf, rest: &mut Rest) -> (Result<()>, IoBuf) {
        let len = buf.len();
        // Bytes behind the data belong to the staging area, not to the rest of the buffer.
        buf.set_len(rest.data.len);
        let mut result = Ok(());
        while rest.at < rest.data.len && result.is_ok() {
            self.fit_staging();
            let staging = std::mem::replace(&mut self.staging, RecvBuf::new(0));
            let (received, back, staging) = self.stream.recv_direct(buf, rest.at, staging).await;
            (buf, self.staging) = (back, staging);
            match received {
                Ok(n @ 1..) => rest.at = rest.data.len.min(rest.at + n),
                Ok(0) | Err(_) => result = Err(Error::Disconnected),
            }
        }
        buf.set_len(len);
        (result, buf)
    }
}
