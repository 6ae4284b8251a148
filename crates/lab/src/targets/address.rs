//! Addresses of targets: `file:PATH`, `mem:SIZE`, `nvme-tcp://HOST:PORT/NQN?ns=1`, `iscsi://HOST/IQN/LUN`, `nfs://HOST/PATH`.
//!
//! **Called by** the command line and state files. **Invariants**: the text form of an [`Address`] parses to the same
//! value.

use super::address_text::{flag, resolve};
use super::iscsi_address::{self, Iscsi};
use super::nfs_address::{self, Nfs};
use crate::size::{parse_size, size};
use crate::{Error, Result};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A local file or block device. O_DIRECT unless `buffered`.
    File {
        /// Its path.
        path: PathBuf,
        /// Use the page cache.
        buffered: bool,
        /// Another process (a server) may have it open at the same time.
        shared: bool,
    },
    /// Memory of this process, bytes.
    Memory(u64),
    /// A namespace served over NVMe/TCP.
    NvmeTcp(NvmeTcp),
    /// A logical unit served over iSCSI.
    Iscsi(Iscsi),
    /// A file served over NFS.
    Nfs(Nfs),
}

/// A namespace served over NVMe/TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeTcp {
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

impl NvmeTcp {
    /// The socket address. Errors: `Target` if the name cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr> {
        resolve(&self.host)
    }
}

const EXPECTED: &str = "expected file:PATH, a path, mem:SIZE, nvme-tcp://HOST:PORT/NQN?ns=1, iscsi://HOST/IQN/LUN or nfs://HOST/PATH";

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        let bad = |why: &str| Error::usage(format!("target {text:?}"), why);
        if let Some(rest) = text.strip_prefix("nvme-tcp://") {
            return nvme(rest).map(Address::NvmeTcp).map_err(|why| bad(&why));
        }
        if let Some(rest) = text.strip_prefix(iscsi_address::SCHEME) {
            return rest
                .parse()
                .map(Address::Iscsi)
                .map_err(|why: String| bad(&why));
        }
        if let Some(rest) = text.strip_prefix(nfs_address::SCHEME) {
            return rest
                .parse()
                .map(Address::Nfs)
                .map_err(|why: String| bad(&why));
        }
        if let Some(rest) = text.strip_prefix("mem:") {
            return Ok(Address::Memory(parse_size(rest)?));
        }
        let path = match text.strip_prefix("file:") {
            Some(rest) => rest,
            None if text.contains('/') && !text.contains("://") => text,
            None => return Err(bad(EXPECTED)),
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (mut buffered, mut shared) = (false, false);
        for word in query.split('&').filter(|w| !w.is_empty()) {
            match word {
                "buffered" => buffered = true,
                "shared" => shared = true,
                _ => return Err(bad("expected ?buffered or ?shared")),
            }
        }
        if path.is_empty() {
            return Err(bad(EXPECTED));
        }
        Ok(Address::File {
            path: path.into(),
            buffered,
            shared,
        })
    }
}

fn nvme(rest: &str) -> std::result::Result<NvmeTcp, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, nqn) = place
        .split_once('/')
        .ok_or("expected nvme-tcp://HOST:PORT/NQN")?;
    if host
        .rsplit_once(':')
        .is_none_or(|(h, p)| h.is_empty() || p.parse::<u16>().is_err())
    {
        return Err(format!("expected HOST:PORT, found {host:?}"));
    }
    if nqn.is_empty() {
        return Err("expected the subsystem's NQN behind the port".into());
    }
    let mut t = NvmeTcp {
        host: host.into(),
        nqn: nqn.into(),
        nsid: 1,
        queues: 1,
        header_digest: false,
        data_digest: false,
        host_nqn: None,
        ram: false,
    };
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
    Ok(t)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::File {
                path,
                buffered,
                shared,
            } => {
                let query = match (buffered, shared) {
                    (false, false) => "",
                    (true, false) => "?buffered",
                    (false, true) => "?shared",
                    (true, true) => "?buffered&shared",
                };
                write!(f, "file:{}{query}", path.display())
            }
            Address::Memory(bytes) => write!(f, "mem:{}", size(*bytes)),
            Address::Iscsi(t) => t.fmt(f),
            Address::Nfs(t) => t.fmt(f),
            Address::NvmeTcp(t) => {
                write!(f, "nvme-tcp://{}/{}?ns={}", t.host, t.nqn, t.nsid)?;
                if t.queues != 1 {
                    write!(f, "&queues={}", t.queues)?;
                }
                if t.header_digest {
                    write!(f, "&hdgst=1")?;
                }
                if t.data_digest {
                    write!(f, "&ddgst=1")?;
                }
                if let Some(h) = &t.host_nqn {
                    write!(f, "&hostnqn={h}")?;
                }
                if t.ram {
                    write!(f, "&medium=ram")
                } else {
                    Ok(())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_being_printed_and_read() {
        for text in [
            "file:/tmp/a disk",
            "file:/dev/nvme0n1?buffered",
            "file:x?shared",
            "mem:256M",
            "nvme-tcp://127.0.0.1:4420/nqn.2026-01.org.example:d?ns=1",
            "nvme-tcp://[::1]:4420/nqn.x:y?ns=7&queues=2&hdgst=1&ddgst=1&hostnqn=nqn.h&medium=ram",
        ] {
            let a: Address = text.parse().expect(text);
            assert_eq!(a.to_string(), text);
        }
        assert_eq!(
            "/dev/sda".parse::<Address>().expect("a path").to_string(),
            "file:/dev/sda"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("disk", "expected file:PATH"),
            ("file:", "expected file:PATH"),
            ("file:x?fast", "expected ?buffered"),
            ("mem:lots", "expected a number"),
            ("nvme-tcp://host/nqn", "expected HOST:PORT"),
            ("nvme-tcp://h:4420", "expected nvme-tcp://HOST:PORT/NQN"),
            ("nvme-tcp://h:4420/", "expected the subsystem's NQN"),
            ("nvme-tcp://h:4420/n?ns=x", "expected a namespace number"),
            ("nvme-tcp://h:4420/n?speed=9", "expected ns, queues"),
            ("nvme-tcp://h:4420/n?queues=0", "expected 1 to 128 queues"),
            ("smb://h/x", "expected file:PATH"),
        ] {
            let e = text.parse::<Address>().expect_err(text).to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
