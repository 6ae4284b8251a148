//! A connection with one call at a time: the creation of sessions, and raw calls of tests.
//!
//! **Called by** the creation of sessions, and by tests, which choose every byte. **Invariants**: a reply is bounded; its
//! transaction number is the call's.

use super::error::{Error, ProtocolError, Result};
use super::limits::CHANNEL_REPLY_MAX;
use super::results::Results;
use initiator::inbound::{STAGING_WIDE, receive};
use io::net::{TcpOptions, TcpStream};
use io::{RecvBuf, SendBatch};
use nfs::rpc::record::{Framing, MARK_LEN, mark};
use nfs::rpc::{Call, Credential, Reply};
use nfs::wire::{Header, Op, PROC_COMPOUND, PROGRAM, VERSION};
use nfs::xdr::{Reader, Writer, Xdr};
use std::net::SocketAddr;

/// See the module header.
pub struct Channel {
    pub(super) stream: TcpStream,
    pub(super) staging: RecvBuf,
    credential: Credential,
    xid: u32,
}

impl Channel {
    /// Connects. Calls are made with `credential`.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn connect(
        addr: SocketAddr,
        credential: Credential,
        tcp: &TcpOptions,
    ) -> Result<Channel> {
        let stream = TcpStream::connect_privileged(addr).await;
        let stream = stream.map_err(Error::Unreachable)?;
        stream.set_options(tcp).map_err(Error::Unreachable)?;
        Ok(Channel {
            stream,
            staging: RecvBuf::new(STAGING_WIDE),
            credential,
            xid: 0,
        })
    }

    /// Begins a call: its header is written, its arguments come next.
    pub fn begin(&mut self, program: u32, version: u32, procedure: u32) -> Writer {
        self.xid = self.xid.wrapping_add(1);
        let mut writer = Writer::new();
        Call {
            xid: self.xid,
            program,
            version,
            procedure,
            credential: self.credential.clone(),
        }
        .encode(&mut writer);
        writer
    }

    /// Sends a record of these bytes.
    pub async fn send(&mut self, record: &[u8]) -> Result<()> {
        let mut batch = SendBatch::new();
        batch.put(&mark(record.len()));
        batch.put(record);
        let (sent, _) = self.stream.send(batch).await;
        sent.map_err(|_| Error::Disconnected)
    }

    /// Receives the next record.
    ///
    /// # Errors
    /// [`Error::Disconnected`]; [`Error::Protocol`] if it is too long.
    pub async fn receive(&mut self) -> Result<Vec<u8>> {
        let mut framing = Framing::new(CHANNEL_REPLY_MAX);
        let mut record = Vec::new();
        loop {
            while self.staging.readable().len() < MARK_LEN {
                receive(&self.stream, &mut self.staging).await?;
            }
            let header = self.staging.readable()[..MARK_LEN].try_into();
            self.staging.consume(MARK_LEN);
            let begun = framing.begin(header.expect("four bytes"));
            begun.map_err(ProtocolError::from)?;
            loop {
                let bytes = self.staging.readable();
                let len = bytes.len().min(framing.missing());
                record.extend_from_slice(&bytes[..len]);
                self.staging.consume(len);
                if framing.arrived(len) {
                    return Ok(record);
                }
                if framing.missing() == 0 {
                    break;
                }
                receive(&self.stream, &mut self.staging).await?;
            }
        }
    }

    /// Sends the call that was begun last, and receives its reply: the bytes behind the header of a successful one.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Disconnected`], [`Error::Protocol`].
    pub async fn call(&mut self, call: Writer) -> Result<Vec<u8>> {
        self.send(&call.to_vec()).await?;
        let record = self.receive().await?;
        let mut reader = Reader::new(&record);
        let (xid, reply) = Reply::decode(&mut reader)?;
        if xid != self.xid {
            return Err(ProtocolError::NoCall.into());
        }
        match reply {
            Reply::Success => Ok(reader.rest().to_vec()),
            refused => Err(Error::Refused(refused)),
        }
    }

    /// Executes a COMPOUND as it is.
    ///
    /// # Errors
    /// As [`Channel::call`]; statuses of operations are in the results.
    pub async fn compound(&mut self, minor: u32, operations: &[Op<'_>]) -> Result<Results> {
        let mut call = self.begin(PROGRAM, VERSION, PROC_COMPOUND);
        Header {
            tag: b"",
            minor,
            operations: u32::try_from(operations.len()).expect("a COMPOUND is short"),
        }
        .encode(&mut call);
        operations.iter().for_each(|op| op.encode(&mut call));
        let reply = self.call(call).await?;
        Results::of(&mut Reader::new(&reply))
    }
}
