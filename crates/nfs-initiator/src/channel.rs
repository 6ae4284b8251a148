//! A connection with one call at a time: the creation of sessions, and raw calls of tests.
//!
//! **Called by** the creation of sessions, and by tests, which choose every byte. **Invariants**: a reply is bounded; its
//! transaction number is the call's.

use super::config::Config;
use super::error::{Error, ProtocolError, Result};
use super::limits::CHANNEL_REPLY_MAX;
use super::rdma::RdmaLink;
use super::results::Results;
use initiator::inbound::{STAGING_WIDE, receive};
use io::net::{TcpOptions, TcpStream};
use io::{RecvBuf, SendBatch};
use nfs::rpc::record::{Framing, MARK_LEN, mark};
use nfs::rpc::{Call, Credential, Reply};
use nfs::service::NfsTransport;
use nfs::wire::{Header, Op, PROC_COMPOUND, PROGRAM, VERSION};
use nfs::xdr::{Reader, Writer, Xdr};
use std::net::SocketAddr;

/// See the module header.
pub struct Channel {
    pub(super) link: ChannelLink,
    credential: Credential,
    xid: u32,
}

/// The connection of a channel.
pub(super) enum ChannelLink {
    /// A byte stream, and bytes that have arrived.
    Tcp(TcpStream, RecvBuf),
    /// A queue pair.
    Rdma(RdmaLink),
}

impl Channel {
    /// Connects as a session of this configuration does.
    pub(super) async fn of(config: &Config) -> Result<Channel> {
        match config.transport {
            NfsTransport::Tcp => {
                Channel::connect(config.addr, config.credential(), &config.tcp).await
            }
            NfsTransport::Rdma => Ok(Channel {
                link: ChannelLink::Rdma(
                    RdmaLink::open(config.addr, config.remote_invalidation).await?,
                ),
                credential: config.credential(),
                xid: 0,
            }),
        }
    }

    /// Connects over TCP. Calls are made with `credential`.
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
            link: ChannelLink::Tcp(stream, RecvBuf::new(STAGING_WIDE)),
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
        match &self.link {
            ChannelLink::Tcp(stream, _) => {
                let mut batch = SendBatch::new();
                batch.put(&mark(record.len()));
                batch.put(record);
                let (sent, _) = stream.send(batch).await;
                sent.map_err(|_| Error::Disconnected)
            }
            ChannelLink::Rdma(link) => link.send(record),
        }
    }

    /// Receives the next record.
    ///
    /// # Errors
    /// [`Error::Disconnected`]; [`Error::Protocol`] if it is too long.
    pub async fn receive(&mut self) -> Result<Vec<u8>> {
        let (stream, staging) = match &mut self.link {
            ChannelLink::Tcp(stream, staging) => (stream, staging),
            ChannelLink::Rdma(link) => return link.receive().await,
        };
        let mut framing = Framing::new(CHANNEL_REPLY_MAX);
        let mut record = Vec::new();
        loop {
            while staging.readable().len() < MARK_LEN {
                receive(stream, staging).await?;
            }
            let header = staging.readable()[..MARK_LEN].try_into();
            staging.consume(MARK_LEN);
            let begun = framing.begin(header.expect("four bytes"));
            begun.map_err(ProtocolError::from)?;
            loop {
                let bytes = staging.readable();
                let len = bytes.len().min(framing.missing());
                record.extend_from_slice(&bytes[..len]);
                staging.consume(len);
                if framing.arrived(len) {
                    return Ok(record);
                }
                if framing.missing() == 0 {
                    break;
                }
                receive(stream, staging).await?;
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
