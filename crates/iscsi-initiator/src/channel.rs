//! A connection without tasks, for logins and discovery: one PDU at a time.
//!
//! **Called by** [`super::recovery`] and [`super::discovery`]. **Invariants**: a data segment is received only if it is no
//! longer than the length that we declared; bytes behind a login's last PDU stay in the staging area.

use super::config::Config;
use super::error::{Error, ProtocolError, Result};
use super::limits::REDIRECTIONS_MAX;
use super::login::{LoggedIn, Login, Next, Purpose};
use initiator::inbound::{STAGING_WIDE, receive};
use io::net::address::socket_address;
use io::net::{TcpOptions, TcpStream};
use io::{RecvBuf, SendBatch};
use iscsi::limits::CHAP_CHALLENGE_LEN;
use iscsi::wire::Bhs;
use iscsi::wire::bhs::padding;
use iscsi::wire::decode::{Decoded, Rules, decode};
use session::digest::{Crc32c, DIGEST_LEN, crc32c};
use std::net::{IpAddr, SocketAddr};

/// The port of a TargetAddress without one (§13.8).
const DEFAULT_PORT: u16 = 3260;

/// See the module header.
pub(super) struct Channel {
    pub(super) stream: TcpStream,
    pub(super) staging: RecvBuf,
    pub(super) rules: Rules,
}

impl Channel {
    /// Connects. Fails with `Unreachable`.
    pub(super) async fn open(addr: SocketAddr, tcp: &TcpOptions) -> Result<Channel> {
        let stream = TcpStream::connect(addr).await.map_err(Error::Unreachable)?;
        // A task that is repeated on the next connection must not also arrive, later, on this one.
        let options = TcpOptions {
            abort_on_close: true,
            ..tcp.clone()
        };
        stream.set_options(&options).map_err(Error::Unreachable)?;
        Ok(Channel {
            stream,
            staging: RecvBuf::new(STAGING_WIDE),
            rules: Rules::LOGIN,
        })
    }

    /// Sends a PDU.
    pub(super) async fn send(&self, bhs: Bhs, data: &[u8]) -> Result<()> {
        let mut batch = SendBatch::new();
        put_pdu(&mut batch, &self.rules, bhs, data);
        self.stream
            .send(batch)
            .await
            .0
            .map_err(|_| Error::Disconnected)
    }

    /// Receives a PDU.
    pub(super) async fn receive(&mut self) -> Result<(Bhs, Vec<u8>)> {
        let header = loop {
            match decode(self.staging.readable(), &self.rules).map_err(ProtocolError::from)? {
                Decoded::NeedMore(_) => receive(&self.stream, &mut self.staging).await?,
                Decoded::Header(header) => break header,
            }
        };
        let len = header.data_len as usize;
        self.staging.consume(header.len);
        let mut data = Vec::new();
        while data.len() < len {
            let here = self.staging.readable();
            let n = here.len().min(len - data.len());
            data.extend_from_slice(&here[..n]);
            self.staging.consume(n);
            if data.len() < len {
                receive(&self.stream, &mut self.staging).await?;
            }
        }
        while self.staging.readable().len() < header.trailer {
            receive(&self.stream, &mut self.staging).await?;
        }
        let trailer = &self.staging.readable()[..header.trailer];
        if self.rules.data_digest && len > 0 && !digest_matches(trailer, &data) {
            return Err(Error::DataDigest);
        }
        self.staging.consume(header.trailer);
        Ok((header.bhs, data))
    }

    /// Logs in at `addr`, and follows redirections. Fails with the error of the login, without a retry.
    pub(super) async fn log_in(
        addr: SocketAddr,
        purpose: &Purpose,
        tcp: &TcpOptions,
    ) -> Result<(Channel, LoggedIn)> {
        let mut addr = addr;
        for _ in 0..=REDIRECTIONS_MAX {
            let mut channel = Channel::open(addr, tcp).await?;
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

/// Appends a PDU with a short data segment to the batch.
pub(super) fn put_pdu(batch: &mut SendBatch, rules: &Rules, mut bhs: Bhs, data: &[u8]) {
    bhs.set_data_len(data.len() as u32);
    put_header(batch, rules, &bhs);
    if data.is_empty() {
        return;
    }
    batch.put(data);
    put_trailer(batch, rules, data);
}

/// Appends a header and its digest to the batch.
pub(super) fn put_header(batch: &mut SendBatch, rules: &Rules, bhs: &Bhs) {
    batch.put(&bhs.0);
    if rules.header_digest {
        batch.put(&crc32c(&bhs.0).to_le_bytes());
    }
}

/// Appends padding and digest of the data segment `data` to the batch.
pub(super) fn put_trailer(batch: &mut SendBatch, rules: &Rules, data: &[u8]) {
    let pad = &[0; 3][..padding(data.len() as u32)];
    if !pad.is_empty() {
        batch.put(pad);
    }
    if rules.data_digest {
        batch.put(&digest(data, pad).to_le_bytes());
    }
}

fn digest(data: &[u8], pad: &[u8]) -> u32 {
    if pad.is_empty() {
        return crc32c(data);
    }
    let mut digest = Crc32c::new();
    digest.update(data);
    digest.update(pad);
    digest.value()
}

/// Whether `trailer`, padding and digest, ends with the digest of `data` and padding.
pub(super) fn digest_matches(trailer: &[u8], data: &[u8]) -> bool {
    let Some((pad, sent)) = trailer.split_last_chunk::<DIGEST_LEN>() else {
        return false;
    };
    u32::from_le_bytes(*sent) == digest(data, pad)
}
