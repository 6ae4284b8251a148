//! A namespace over NVMe/TCP or NVMe/RDMA, through the userspace initiator.
//!
//! **Owns** one controller per job: an admin queue and the job's own I/O queues, on the job's shard. **Invariants**:
//! over TCP, the congestion control is set on every socket and read back; requests that the server did not grant are in
//! [`Transport::fallbacks`].

use super::nvme_address::{Nvme, Transport as Over};
use super::{CONGESTION, Facts, Session, Target, Transport, congestion_of, whole};
use crate::{Error, Result};
use io::IoBuf;
use io::net::{TcpInfo, TcpOptions};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{Config, Controller, LinkState, Namespace, Reconnect, WriteOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Default name of this host.
const HOST_NQN: &str = "nqn.2026-01.io.wirepool:lab";
/// Most commands in flight on one queue.
const DEPTH_MAX: u16 = nvmf_initiator::limits::QUEUE_DEPTH_MAX;

/// Time limits of an initiator that differ from its defaults.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Keep-alive timeout: silence of the server after which a connection is given up.
    pub keep_alive: Duration,
    /// Time limit of one attempt to connect.
    pub connect: Duration,
    /// How a broken connection is restored.
    pub reconnect: Reconnect,
}

/// A namespace of a subsystem.
#[derive(Clone)]
pub struct NvmeTarget {
    address: Nvme,
    at: SocketAddr,
    host_id: HostId,
    facts: Facts,
    patience: Option<Patience>,
}

impl NvmeTarget {
    /// Connects to the namespace once. Errors: `Target`.
    pub async fn open(address: &Nvme) -> Result<NvmeTarget> {
        let at = address.resolve()?;
        let description = match address.transport {
            Over::Tcp => "NVMe/TCP, userspace initiator",
            Over::Rdma => {
                io::rdma::support().map_err(|why| Error::target(address, why))?;
                "NVMe/RDMA, userspace initiator"
            }
        };
        let mut id = [0; 16];
        io::rng::fill(&mut id);
        let facts = Facts::remote(at, address.ram, description);
        let mut target = NvmeTarget {
            address: address.clone(),
            at,
            host_id: HostId(id),
            facts,
            patience: None,
        };
        let probe = target.connect(1).await?;
        target.facts = probe.facts();
        probe.close().await;
        Ok(target)
    }

    /// The target with other time limits, for sessions that are connected from now on.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> NvmeTarget {
        NvmeTarget {
            patience: Some(patience),
            ..self
        }
    }

    fn config(&self, depth: u32) -> Result<Config> {
        let name = |text: &str| {
            Nqn::new(text).map_err(|e| Error::usage(format!("NQN {text:?}"), e.to_string()))
        };
        let host = name(self.address.host_nqn.as_deref().unwrap_or(HOST_NQN))?;
        let mut c = Config::new(self.at, name(&self.address.nqn)?, host, self.host_id);
        c.transport = self.address.transport;
        c.io_queues = self.address.queues;
        c.queue_depth = u16::try_from(depth.div_ceil(self.address.queues.into()))
            .unwrap_or(DEPTH_MAX)
            .min(DEPTH_MAX);
        c.offer.digests = Digests {
            header: self.address.header_digest,
            data: self.address.data_digest,
        };
        c.tcp = TcpOptions {
            congestion: Some(CONGESTION.into()),
            ..TcpOptions::default()
        };
        if let Some(patience) = self.patience {
            c.keep_alive = patience.keep_alive;
            c.connect_timeout = patience.connect;
            c.reconnect = patience.reconnect;
        }
        Ok(c)
    }

    /// The properties of the controller's I/O connections, and fallbacks from the requested ones.
    fn transport(&self, c: &Controller, depth: u32) -> Transport {
        let (queues, granted) = c.io_queues();
        let links = c.links();
        let link = links.get(1).or(links.first());
        let digests = link.map_or((false, false), |l| (l.digests.header, l.digests.data));
        let mut fallbacks = Vec::new();
        if queues < self.address.queues {
            fallbacks.push(format!(
                "{queues} I/O queues granted, {} asked for",
                self.address.queues
            ));
        }
        let room = u32::from(granted) * u32::from(queues);
        if room < depth {
            fallbacks.push(format!(
                "the queues accept {room} commands, {depth} were requested"
            ));
        }
        for (name, wanted, got) in [
            ("header", self.address.header_digest, digests.0),
            ("data", self.address.data_digest, digests.1),
        ] {
            if wanted && !got {
                fallbacks.push(format!("no {name} digests, although requested"));
            }
        }
        let is_tcp = self.address.transport == Over::Tcp;
        let over_tcp = |text: &str| {
            if is_tcp {
                text.to_owned()
            } else {
                String::new()
            }
        };
        Transport {
            kind: if is_tcp { "tcp" } else { "rdma" }.into(),
            rdma: link.and_then(|l| l.rdma.clone()),
            congestion: over_tcp(link.map_or("", |l| &l.tcp.congestion)),
            congestion_wanted: over_tcp(CONGESTION),
            congestion_server: is_tcp.then(|| congestion_of(self.at)).flatten(),
            digests,
            queues: queues.into(),
            depth: granted.into(),
            fallbacks,
        }
    }
}

impl Target for NvmeTarget {
    type Session = NvmeSession;

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    async fn connect(&self, depth: u32) -> Result<NvmeSession> {
        let name = self.address.subsystem();
        let controller = Controller::connect(self.config(depth)?)
            .await
            .map_err(|e| Error::target(&name, e))?;
        let found = controller.namespace(Nsid(self.address.nsid)).await;
        let namespace =
            found.map_err(|e| Error::target(format!("{name}?ns={}", self.address.nsid), e))?;
        let facts = Facts {
            size: namespace.blocks() * u64::from(namespace.block_size()),
            block_size: namespace.block_size(),
            transfer_max: namespace.transfer_max(),
            transport: Some(self.transport(&controller, depth)),
            ..self.facts.clone()
        };
        Ok(NvmeSession {
            controller,
            namespace,
            facts,
        })
    }
}

/// A job's controller and its namespace.
pub struct NvmeSession {
    controller: Controller,
    namespace: Namespace,
    facts: Facts,
}

impl NvmeSession {
    /// State of the controller's connections.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.controller.state()
    }

    fn block(&self, offset: u64) -> u64 {
        offset / u64::from(self.namespace.block_size())
    }

    /// One Keep Alive on the admin queue.
    pub(super) async fn keep_alive(&self) -> Result<()> {
        self.controller.keep_alive().await.map_err(answered)
    }

    /// Statistics of the first I/O queue's connection; `None` over RDMA.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        let links = self.controller.links();
        let link = links.into_iter().nth(1)?;
        link.rdma.is_none().then_some(link.tcp)
    }
}

fn answered(e: nvmf_initiator::Error) -> Error {
    Error::Status(e.to_string())
}

impl Session for NvmeSession {
    async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let (r, buf) = self.namespace.read(self.block(offset), buf).await;
        (r.map_err(answered), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        let data = Arc::new(buf);
        let r = self
            .namespace
            .write(
                self.block(offset),
                data.clone(),
                WriteOptions { fua: durable },
            )
            .await;
        (r.map_err(answered), whole(data).await)
    }

    async fn flush(&self) -> Result<()> {
        self.namespace.flush().await.map_err(answered)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn epoch(&self) -> u64 {
        self.controller.stats().reconnects
    }

    async fn close(self) {
        self.controller.shutdown().await;
    }
}
