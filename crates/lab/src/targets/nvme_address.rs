//! Addresses of namespaces: `nvme-tcp://HOST:PORT/NQN` and `nvme-rdma://HOST:PORT/NQN`, with options behind a `?`.
//!
//! **Called by** [`super::address`]. **Invariants**: the text form of an [`Nvme`], with its scheme, parses to the same value; an address
//! over RDMA asks for no digests, which are parts of TCP's framing.

use super::address_text::{flag, resolve};
use crate::Result;
pub use nvmf_initiator::Transport;
use std::fmt;
use std::net::SocketAddr;

/// A namespace served over NVMe/TCP or NVMe/RDMA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvme {
    /// The transport.
    pub transport: Transport,
    /// Host and port.
    pub host: String,
    /// The subsystem.
    pub nqn: String,
    /// The namespace.
    pub nsid: u32,
    /// I/O queues of each job.
    pub queues: u16,
    /// Header digests.
    pub header_digest: bool,
    /// Data digests.
    pub data_digest: bool,
    /// The host's own name, if not the lab's.
    pub host_nqn: Option<String>,
    /// Whether the medium is memory on purpose.
    pub ram: bool,
}

/// The scheme of a transport.
fn scheme(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "nvme-tcp://",
        Transport::Rdma => "nvme-rdma://",
    }
}

/// The transport that the scheme of `text` names, and the rest of the text; `None` for another scheme.
pub(super) fn transport_of(text: &str) -> Option<(Transport, &str)> {
    let mut all = Transport::ALL.into_iter();
    all.find_map(|t| Some((t, text.strip_prefix(scheme(t))?)))
}

impl Nvme {
    /// Namespace `nsid` of subsystem `nqn` at `host` (`HOST:PORT`), with default options.
    #[must_use]
    pub fn new(
        transport: Transport,
        host: impl Into<String>,
        nqn: impl Into<String>,
        nsid: u32,
    ) -> Nvme {
        Nvme {
            transport,
            host: host.into(),
            nqn: nqn.into(),
            nsid,
            queues: 1,
            header_digest: false,
            data_digest: false,
            host_nqn: None,
            ram: false,
        }
    }

    /// The socket address. Errors: `Target` if the name cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr> {
        resolve(&self.host)
    }

    /// The subsystem's address, without a namespace and options.
    #[must_use]
    pub fn subsystem(&self) -> String {
        format!("{}{}/{}", scheme(self.transport), self.host, self.nqn)
    }

    /// Reads the part of an address after its scheme.
    pub(super) fn parse(transport: Transport, rest: &str) -> std::result::Result<Nvme, String> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, nqn) = place
            .split_once('/')
            .ok_or_else(|| format!("expected {}HOST:PORT/NQN", scheme(transport)))?;
        if host
            .rsplit_once(':')
            .is_none_or(|(h, p)| h.is_empty() || p.parse::<u16>().is_err())
        {
            return Err(format!("expected HOST:PORT, found {host:?}"));
        }
        if nqn.is_empty() {
            return Err("expected the subsystem's NQN behind the port".into());
        }
        let mut t = Nvme::new(transport, host, nqn, 1);
        for word in query.split('&').filter(|w| !w.is_empty()) {
            let (key, value) = word
                .split_once('=')
                .ok_or(format!("expected KEY=VALUE, found {word:?}"))?;
            match key {
                "ns" => {
                    t.nsid = value
                        .parse()
                        .map_err(|_| format!("expected a namespace number, found {value:?}"))?
                }
                "queues" => match value.parse() {
                    Ok(n) if (1..=128).contains(&n) => t.queues = n,
                    _ => return Err(format!("expected 1 to 128 queues, found {value:?}")),
                },
                "hdgst" => t.header_digest = flag(value)?,
                "ddgst" => t.data_digest = flag(value)?,
                "hostnqn" => t.host_nqn = Some(value.into()),
                "medium" if value == "ram" => t.ram = true,
                _ => {
                    return Err(format!(
                        "expected ns, queues, hdgst, ddgst, hostnqn or medium=ram, found {word:?}"
                    ));
                }
            }
        }
        if transport == Transport::Rdma && (t.header_digest || t.data_digest) {
            return Err("there are no digests over RDMA: leave hdgst and ddgst out".into());
        }
        Ok(t)
    }
}

impl fmt::Display for Nvme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}?ns={}", self.subsystem(), self.nsid)?;
        if self.queues != 1 {
            write!(f, "&queues={}", self.queues)?;
        }
        if self.header_digest {
            write!(f, "&hdgst=1")?;
        }
        if self.data_digest {
            write!(f, "&ddgst=1")?;
        }
        if let Some(h) = &self.host_nqn {
            write!(f, "&hostnqn={h}")?;
        }
        match self.ram {
            true => write!(f, "&medium=ram"),
            false => Ok(()),
        }
    }
}
