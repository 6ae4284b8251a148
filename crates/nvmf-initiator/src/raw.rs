//! Raw access for conformance and robustness tests: sends arbitrary bytes, PDUs and commands.
//!
//! [`RawConnection`] is one connection without a queue or a task. [`submit`] sends any submission queue entry on a connected
//! controller's queue.

use std::net::SocketAddr;
use std::sync::Arc;

use io::net::{TcpOptions, TcpStream};
use io::{IoBuf, RecvBuf};
use zerocopy::IntoBytes;

use super::controller::Controller;
use super::error::{Error, Result};
use super::link::{self, Offer, ic_req};
use super::queue::{Command, Data, Replay};
use initiator::inbound::{STAGING_WIDE, receive};
use nvmf::wire::command::{Cid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{Connect, ConnectData};
use nvmf::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, Frame, HEADER_LEN_MAX, IcResp, Pda, Pdu, Phase, Receiver,
    RxRules, decode,
};
use session::digest::{DIGEST_LEN, crc32c};

/// The data of a raw command.
#[derive(Debug)]
pub enum RawData {
    /// No data.
    None,
    /// Received from the controller.
    In(IoBuf),
    /// Sent to the controller.
    Out(Arc<IoBuf>),
}

/// Sends `sqe` on queue `qid` (0: the admin queue) of a controller. The queue sets CID and SGL; every other field is sent
/// unchanged. Returns the completion, with any status, and the data.
///
/// # Errors
/// [`Error::Invalid`] if there is no such queue, and errors of the connection.
pub async fn submit(
    controller: &Controller,
    qid: u16,
    sqe: Sqe,
    data: RawData,
) -> Result<(Cqe, RawData)> {
    let queue = controller
        .inner
        .queues()
        .into_iter()
        .nth(usize::from(qid))
        .ok_or(Error::Invalid("no such queue"))?;
    let data = match data {
        RawData::None => Data::None,
        RawData::In(buf) => Data::In(buf),
        RawData::Out(buf) => Data::Out(buf),
    };
    let finished = queue
        .execute(Command {
            sqe,
            data,
            replay: Replay::No,
            untimed: false,
            whole: false,
        })
        .await;
    let data = match finished.data {
        Data::In(buf) => RawData::In(buf),
        Data::Out(buf) => RawData::Out(buf),
        Data::None | Data::Small(_) => RawData::None,
    };
    Ok((finished.result?, data))
}

/// A received PDU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPdu {
    /// Its parsed header.
    pub frame: Frame,
    /// Its data.
    pub data: Vec<u8>,
}

/// One connection that a test controls.
pub struct RawConnection {
    stream: TcpStream,
    staging: RecvBuf,
    /// The rules that received PDUs must obey.
    pub rules: RxRules,
    /// Encodes the PDUs to be sent.
    pub encoder: Encoder,
}

impl RawConnection {
    /// Connects without sending anything.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.map_err(Error::Unreachable)?;
        stream
            .set_options(&TcpOptions::default())
            .map_err(Error::Unreachable)?;
        Ok(Self {
            stream,
            staging: RecvBuf::new(STAGING_WIDE),
            rules: RxRules::connecting(Receiver::Host),
            encoder: Encoder {
                digests: Digests::default(),
                pda: Pda::DWORD,
            },
        })
    }

    /// Sends `bytes` unchanged.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        link::send(&self.stream, bytes).await
    }

    /// Exchanges ICReq and ICResp, and applies the negotiated parameters.
    ///
    /// # Errors
    /// As [`RawConnection::receive`]; [`Error::Terminated`].
    pub async fn initialize(&mut self, offer: &Offer) -> Result<IcResp> {
        self.send(&ic_req(offer)).await?;
        let resp = match self.receive().await?.frame.pdu {
            Pdu::IcResp(resp) => resp,
            Pdu::C2hTermReq(term) => {
                return Err(Error::Terminated {
                    fes: term.fes,
                    fei: term.fei,
                });
            }
            _ => unreachable!("a connecting host decodes no other PDU"),
        };
        self.encoder = Encoder {
            digests: resp.digests,
            pda: resp.cpda,
        };
        self.rules = RxRules {
            phase: Phase::Established,
            digests: resp.digests,
            pda: offer.hpda,
            data_max: STAGING_WIDE as u32 * 16,
            ..self.rules
        };
        Ok(resp)
    }

    /// Receives the next PDU with its data.
    ///
    /// # Errors
    /// [`Error::Disconnected`] at the end of the stream, [`Error::Protocol`], [`Error::DataDigest`].
    pub async fn receive(&mut self) -> Result<RawPdu> {
        let frame = loop {
            match decode(self.staging.readable(), &self.rules)? {
                Decoded::NeedMore(_) => receive(&self.stream, &mut self.staging).await?,
                Decoded::Frame(frame) => break frame,
            }
        };
        self.staging.consume(frame.data_offset);
        let data = self.take(frame.data_len as usize).await?;
        if frame.data_digest && self.take(DIGEST_LEN).await? != crc32c(&data).to_le_bytes() {
            return Err(Error::DataDigest);
        }
        Ok(RawPdu { frame, data })
    }

    /// Waits for the end of the stream. Discards bytes that arrive before it.
    pub async fn closed(&mut self) {
        while receive(&self.stream, &mut self.staging).await.is_ok() {
            self.staging.consume(self.staging.readable().len());
        }
    }

    /// Sends a command capsule with in-capsule `data`. The caller sets CID and all other fields.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub async fn capsule(&mut self, sqe: &Sqe, data: &[u8]) -> Result<()> {
        let mut pdu = vec![0; HEADER_LEN_MAX];
        let len = self.encoder.capsule_cmd(sqe, data.len() as u32, &mut pdu);
        pdu.truncate(len);
        self.put_data(&mut pdu, data);
        self.send(&pdu).await
    }

    /// Sends an H2CData PDU with `data`.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub async fn h2c_data(&mut self, header: &DataPdu, data: &[u8]) -> Result<()> {
        let mut pdu = vec![0; HEADER_LEN_MAX];
        let len = self.encoder.h2c_data(header, data.len() as u32, &mut pdu);
        pdu.truncate(len);
        self.put_data(&mut pdu, data);
        self.send(&pdu).await
    }

    /// Sends a command with in-capsule `data` (its SGL must describe it), collects C2HData, and waits for the response
    /// capsule. A C2HData with SUCCESS counts as the response.
    ///
    /// # Errors
    /// As [`RawConnection::receive`]; [`Error::Terminated`].
    pub async fn command(&mut self, mut sqe: Sqe, cid: Cid, data: &[u8]) -> Result<(Cqe, Vec<u8>)> {
        sqe.cid = cid.0.into();
        if !data.is_empty() {
            sqe.sgl = SglDescriptor::new(Sgl::InCapsule {
                offset: 0,
                length: data.len() as u32,
            });
        }
        self.capsule(&sqe, data).await?;
        let mut collected = Vec::new();
        loop {
            let RawPdu { frame, data } = self.receive().await?;
            match frame.pdu {
                Pdu::CapsuleResp(cqe) => return Ok((cqe, collected)),
                Pdu::C2hData(header) => {
                    collected.extend(data);
                    if header.success {
                        return Ok((
                            Cqe::new(cid, nvmf::wire::status::Status::SUCCESS),
                            collected,
                        ));
                    }
                }
                Pdu::C2hTermReq(term) => {
                    return Err(Error::Terminated {
                        fes: term.fes,
                        fei: term.fei,
                    });
                }
                _ => return Err(Error::Invalid("a raw command does not answer R2T")),
            }
        }
    }

    /// Sends a fabrics Connect with CID 0 and waits for its completion.
    ///
    /// # Errors
    /// As [`RawConnection::command`].
    pub async fn connect(&mut self, connect: &Connect, data: &ConnectData) -> Result<Cqe> {
        let (cqe, _) = self
            .command(connect.to_sqe(), Cid(0), data.as_bytes())
            .await?;
        Ok(cqe)
    }

    async fn take(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            if self.staging.readable().is_empty() {
                receive(&self.stream, &mut self.staging).await?;
            }
            let n = self.staging.readable().len().min(len - bytes.len());
            bytes.extend_from_slice(&self.staging.readable()[..n]);
            self.staging.consume(n);
        }
        Ok(bytes)
    }

    fn put_data(&self, pdu: &mut Vec<u8>, data: &[u8]) {
        pdu.extend_from_slice(data);
        if self.encoder.data_digest() && !data.is_empty() {
            pdu.extend_from_slice(&crc32c(data).to_le_bytes());
        }
    }
}
