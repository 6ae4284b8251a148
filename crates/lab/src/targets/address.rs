//! Addresses of targets: `file:PATH`, `mem:SIZE`, `nvme-tcp://HOST:PORT/NQN?ns=1`, `nvme-rdma://HOST:PORT/NQN?ns=1`,
//! `iscsi://HOST/IQN/LUN`, `nfs://HOST/PATH`, and the same over RDMA.
//!
//! **Called by** the command line and state files. **Invariants**: the text form of an [`Address`] parses to the same
//! value.

use super::iscsi_address::{self, Iscsi};
use super::nfs_address::{self, Nfs};
use super::nvme_address::{self, Nvme};
use crate::size::{parse_size, size};
use crate::{Error, Result};
use std::fmt;
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
    /// A namespace served over NVMe/TCP or NVMe/RDMA.
    Nvme(Nvme),
    /// A logical unit served over iSCSI.
    Iscsi(Iscsi),
    /// A file served over NFS.
    Nfs(Nfs),
}

const EXPECTED: &str = "expected file:PATH, a path, mem:SIZE, nvme-tcp://HOST:PORT/NQN?ns=1, nvme-rdma://HOST:PORT/NQN?ns=1, \
                        iscsi://HOST/IQN/LUN, iser://HOST/IQN/LUN, nfs://HOST/PATH or nfs-rdma://HOST/PATH";

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        let bad = |why: &str| Error::usage(format!("target {text:?}"), why);
        if let Some((transport, rest)) = nvme_address::transport_of(text) {
            let named = Nvme::parse(transport, rest);
            return named.map(Address::Nvme).map_err(|why| bad(&why));
        }
        if let Some((transport, rest)) = iscsi_address::transport_of(text) {
            let named = Iscsi::parse(transport, rest);
            return named.map(Address::Iscsi).map_err(|why| bad(&why));
        }
        if let Some((transport, rest)) = nfs_address::transport_of(text) {
            let named = Nfs::parse(transport, rest);
            return named.map(Address::Nfs).map_err(|why| bad(&why));
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
            Address::Nvme(t) => t.fmt(f),
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
            "nvme-rdma://10.0.0.7:4420/nqn.x:y?ns=7&queues=2&hostnqn=nqn.h&medium=ram",
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
            ("nvme-rdma://h:4420", "expected nvme-rdma://HOST:PORT/NQN"),
            ("nvme-rdma://h:4420/n?hdgst=1", "no digests over RDMA"),
            ("nvme-rdma://h:4420/n?ddgst=1", "no digests over RDMA"),
            ("smb://h/x", "expected file:PATH"),
        ] {
            let e = text.parse::<Address>().expect_err(text).to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
