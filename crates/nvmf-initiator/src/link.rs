//! Link: one initialized NVMe/TCP connection, with socket and negotiated parameters.
//!
//! **Owns** the exchange of ICReq and ICResp (TCP 3.4). **Called by** queues and by [`super::raw`].

use std::net::SocketAddr;

use initiator::inbound::{STAGING_WIDE, receive};
use io::net::{TcpInfo, TcpOptions, TcpStream};
use io::rdma::RdmaInfo;
use io::{RecvBuf, SendBatch};

use super::error::{Error, Result};
use nvmf::wire::pdu::{
    Decoded, Digests, Encoder, HEADER_LEN_MAX, IcReq, IcResp, Pda, Pdu, Phase, Receiver, RxRules,
    decode, encode,
};

/// Parameters that an initiator offers when it connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Digests to request.
    pub digests: Digests,
    /// HPDA: alignment of data that the controller sends.
    pub hpda: Pda,
    /// MAXR2T: R2Ts that may be outstanding per command, at least 1.
    pub max_r2t: u32,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            digests: Digests::default(),
            hpda: Pda::DWORD,
            max_r2t: 4,
        }
    }
}

/// An initialized connection.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    pub(crate) encoder: Encoder,
    pub(crate) rules: RxRules,
    /// Most data in one H2CData, bytes.
    pub(crate) max_h2c_data: u32,
    /// R2Ts that may be outstanding per command.
    pub(crate) max_r2t: u32,
}

/// Negotiated parameters of a connection, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Digests in use.
    pub digests: Digests,
    /// CPDA.
    pub cpda: Pda,
    /// MAXH2CDATA, bytes.
    pub max_h2c_data: u32,
    /// TCP statistics of the kernel; zeroes over RDMA.
    pub tcp: TcpInfo,
    /// The numbers of the queue pair, over RDMA.
    pub rdma: Option<RdmaInfo>,
}

impl Link {
    /// Waits until the controller closes the connection. Discards what it still sends.
    pub(crate) async fn ended(&self) {
        let mut staging = RecvBuf::new(STAGING_WIDE);
        while receive(&self.stream, &mut staging).await.is_ok() {
            staging.consume(staging.readable().len());
        }
    }

    /// Connects and initializes. The returned staging area has the bytes received after ICResp.
    pub(crate) async fn open(
        addr: SocketAddr,
        tcp: &TcpOptions,
        offer: &Offer,
    ) -> Result<(Self, RecvBuf)> {
        let stream = TcpStream::connect(addr).await.map_err(Error::Unreachable)?;
        // A command that is repeated on the next connection must not also arrive, later, on this one.
        let options = TcpOptions {
            abort_on_close: true,
            ..tcp.clone()
        };
        stream.set_options(&options).map_err(Error::Unreachable)?;
        send(&stream, &ic_req(offer)).await?;
        let mut staging = RecvBuf::new(STAGING_WIDE);
        let resp = receive_ic_resp(&stream, &mut staging).await?;
        if resp.digests != resp.digests.and(offer.digests) {
            let what = "ICResp turns on a digest that was not asked for";
            return Err(Error::Protocol(nvmf::wire::pdu::PduError::field(11, what)));
        }
        let rules = RxRules {
            receiver: Receiver::Host,
            phase: Phase::Established,
            digests: resp.digests,
            pda: offer.hpda,
            capsule_data_max: 0,
            data_max: u32::MAX,
        };
        let encoder = Encoder {
            digests: resp.digests,
            pda: resp.cpda,
        };
        let max_h2c_data = resp.max_h2c_data;
        Ok((
            Self {
                stream,
                encoder,
                rules,
                max_h2c_data,
                max_r2t: offer.max_r2t.max(1),
            },
            staging,
        ))
    }

    /// The negotiated parameters.
    pub(crate) fn info(&self) -> LinkInfo {
        LinkInfo {
            digests: self.encoder.digests,
            cpda: self.encoder.pda,
            max_h2c_data: self.max_h2c_data,
            tcp: self.stream.info().unwrap_or_default(),
            rdma: None,
        }
    }
}

/// Encodes an ICReq.
pub(crate) fn ic_req(offer: &Offer) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN_MAX];
    let max_r2t = u64::from(offer.max_r2t.max(1));
    let len = encode::ic_req(
        &IcReq {
            hpda: offer.hpda,
            digests: offer.digests,
            max_r2t,
        },
        &mut out,
    );
    out.truncate(len);
    out
}

/// Sends `bytes` unchanged.
pub(crate) async fn send(stream: &TcpStream, bytes: &[u8]) -> Result<()> {
    let mut batch = SendBatch::new();
    batch.put(bytes);
    stream.send(batch).await.0.map_err(|_| Error::Disconnected)
}

async fn receive_ic_resp(stream: &TcpStream, staging: &mut RecvBuf) -> Result<IcResp> {
    let rules = RxRules::connecting(Receiver::Host);
    loop {
        match decode(staging.readable(), &rules)? {
            Decoded::NeedMore(_) => receive(stream, staging).await?,
            Decoded::Frame(frame) => {
                staging.consume(frame.data_offset);
                return match frame.pdu {
                    Pdu::IcResp(resp) => Ok(resp),
                    Pdu::C2hTermReq(term) => Err(Error::Terminated {
                        fes: term.fes,
                        fei: term.fei,
                    }),
                    _ => unreachable!("a host that is connecting decodes no other PDU"),
                };
            }
        }
    }
}
