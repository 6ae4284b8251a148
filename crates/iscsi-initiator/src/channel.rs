//! A connection without tasks, for logins and discovery: one PDU at a time.
//!
//! **Called by** [`super::recovery`] and [`super::discovery`]. **Invariants**: a data segment is received only if it is no
//! longer than the length that we declared; bytes behind a login's last PDU stay in the staging area.

use super::config::Config;
use super::error::{Error, ProtocolError, Result};
use super::iser::{IserLink, IserSizes};
use super::limits::REDIRECTIONS_MAX;
use super::login::{LoggedIn, Login, Next, Purpose};
use super::outgoing::{digest_matches, put_pdu};
use initiator::inbound::{STAGING_WIDE, receive};
use io::net::address::socket_address;
use io::net::{TcpOptions, TcpStream};
use io::{RecvBuf, SendBatch};
use iscsi::limits::CHAP_CHALLENGE_LEN;
use iscsi::portal::IscsiTransport;
use iscsi::wire::Bhs;
use iscsi::wire::decode::{Decoded, Rules, decode};
use std::net::{IpAddr, SocketAddr};

/// The port of a TargetAddress without one (§13.8).
const DEFAULT_PORT: u16 = 3260;

/// See the module header.
pub(super) struct Channel {
    pub(super) carrier: Carrier,
    pub(super) rules: Rules,
}

/// The connection of a transport.
pub(super) enum Carrier {
    /// Over TCP, with received bytes.
    Tcp(TcpStream, RecvBuf),
    /// Over RDMA.
    Iser(IserLink),
}

/// How to connect.
#[derive(Clone)]
pub(super) enum Way {
    /// Over TCP, with these socket options.
    Tcp(TcpOptions),
    /// Over RDMA.
    Iser(IserSizes),
}

impl Way {
    /// The way of a session.
    pub(super) fn of(config: &Config) -> Way {
        match config.transport {
            IscsiTransport::Tcp => Way::Tcp(config.tcp.clone()),
            IscsiTransport::Iser => Way::Iser(IserSizes::of(config)),
        }
    }
}

impl Channel {
    /// Connects. Fails with `Unreachable`, over RDMA also with `NotAccepted`.
    async fn open(addr: SocketAddr, way: &Way) -> Result<Channel> {
        let tcp = match way {
            Way::Tcp(tcp) => tcp,
            Way::Iser(sizes) => {
                let link = IserLink::open(addr, *sizes).await?;
                return Ok(Channel {
                    carrier: Carrier::Iser(link),
                    rules: Rules::LOGIN,
                });
            }
        };
        let stream = TcpStream::connect(addr).await.map_err(Error::Unreachable)?;
        // A task that is repeated on the next connection must not also arrive, later, on this one.
        let options = TcpOptions {
            abort_on_close: true,
            ..tcp.clone()
        };
        stream.set_options(&options).map_err(Error::Unreachable)?;
        Ok(Channel {
            carrier: Carrier::Tcp(stream, RecvBuf::new(STAGING_WIDE)),
            rules: Rules::LOGIN,
        })
    }

    /// Sends a PDU.
    pub(super) async fn send(&self, bhs: Bhs, data: &[u8]) -> Result<()> {
        let stream = match &self.carrier {
            Carrier::Tcp(stream, _) => stream,
            Carrier::Iser(link) => {
                link.send(bhs, data);
                return Ok(());
            }
        };
        let mut batch = SendBatch::new();
        put_pdu(&mut batch, &self.rules, bhs, data);
        stream.send(batch).await.0.map_err(|_| Error::Disconnected)
    }

    /// Receives a PDU.
    pub(super) async fn receive(&mut self) -> Result<(Bhs, Vec<u8>)> {
        let (stream, staging) = match &mut self.carrier {
            Carrier::Tcp(stream, staging) => (&*stream, staging),
            Carrier::Iser(link) => return link.receive(&self.rules).await,
        };
        let header = loop {
            match decode(staging.readable(), &self.rules).map_err(ProtocolError::from)? {
                Decoded::NeedMore(_) => receive(stream, staging).await?,
                Decoded::Header(header) => break header,
            }
        };
        let len = header.data_len as usize;
        staging.consume(header.len);
        let mut data = Vec::new();
        while data.len() < len {
            let here = staging.readable();
            let n = here.len().min(len - data.len());
            data.extend_from_slice(&here[..n]);
            staging.consume(n);
            if data.len() < len {
                receive(stream, staging).await?;
            }
        }
        while staging.readable().len() < header.trailer {
            receive(stream, staging).await?;
        }
        let trailer = &staging.readable()[..header.trailer];
        if self.rules.data_digest && len > 0 && !digest_matches(trailer, &data) {
            return Err(Error::DataDigest);
        }
        staging.consume(header.trailer);
        Ok((header.bhs, data))
    }

    /// Logs in at `addr`, and follows redirections. Fails with the error of the login, without a retry.
    pub(super) async fn log_in(
        addr: SocketAddr,
        purpose: &Purpose,
        way: &Way,
    ) -> Result<(Channel, LoggedIn)> {
        let mut addr = addr;
        for _ in 0..=REDIRECTIONS_MAX {
            let mut channel = Channel::open(addr, way).await?;
            let mut random = [0; CHAP_CHALLENGE_LEN + 1];
            io::rng::fill(&mut random);
            let mut login = Login::new(purpose.clone(), random);
            let (mut request, mut text) = login.begin();
            let moved = loop {
                channel.send(request.build(), &text).await?;
                let (bhs, data) = channel.receive().await?;
                match login.take(&bhs, &data)? {
                    Next::Send(r, t) => (request, text) = (r, t),
                    Next::Moved(address) => break address,
                    Next::Done(logged_in) => {
                        channel.rules = Rules {
                            header_digest: logged_in.parameters.header_digest,
                            data_digest: logged_in.parameters.data_digest,
                            data_max: logged_in.parameters.max_recv_data,
                        };
                        return Ok((channel, logged_in));
                    }
                }
            };
            addr = target_address(&moved)
                .ok_or(Error::Malformed("the address that the target moved to"))?;
        }
        Err(ProtocolError::Limit("redirections without end").into())
    }
}

impl Purpose {
    /// A login to a normal session with the target of `config`.
    pub(super) fn of(config: &Config) -> Purpose {
        Purpose {
            initiator: config.initiator.clone(),
            target: Some(config.target.clone()),
            isid: config.isid,
            chap: config.chap.clone(),
            proposal: config.proposal.clone(),
            transport: config.transport,
        }
    }
}

/// Parses `address[:port][,portal-group-tag]` (§13.8). `None` for host names, which are not resolved.
pub(super) fn target_address(text: &str) -> Option<SocketAddr> {
    let text = text.split_once(',').map_or(text, |(address, _)| address);
    if let Ok(addr) = socket_address(text) {
        return Some(addr);
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']');
    Some(SocketAddr::new(
        ip.parse::<IpAddr>().ok()?.to_canonical(),
        DEFAULT_PORT,
    ))
}
