//! Registration with rpcbind (RFC 1833), for clients that ask it for the ports of NFS and MOUNT.
//!
//! **Owns** [`Registry`]: the entries that this service has made. **Called by** [`crate::service::Service`]. **Invariants**: a failure is a line
//! in the log and nothing else; an entry of another service is neither replaced nor removed. rpcbind takes entries only over its
//! UNIX socket, or from a privileged port: the socket is used.

use crate::limits::{RPCBIND_REPLY_MAX, RPCBIND_TIMEOUT};
use crate::rpc::record::{MARK_LEN, mark};
use crate::rpc::{Call, Credential, Reply};
use crate::transport::NfsTransport;
use crate::v3::wire::{self as wire3, mount};
use crate::wire;
use crate::xdr::{Reader, Writer};
use io::linux::LocalStream;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where rpcbind listens on Linux.
pub const SOCKET: &str = "/run/rpcbind.sock";
/// Program number.
pub const PROGRAM: u32 = 100_000;
/// The version of rpcbind's protocol.
pub const VERSION: u32 = 4;
/// `RPCBPROC_SET`, `RPCBPROC_UNSET`, `RPCBPROC_GETADDR`.
const SET: u32 = 1;
const UNSET: u32 = 2;
const GETADDR: u32 = 3;
/// The owner of our entries. rpcbind puts the user of the process in its place.
const OWNER: &[u8] = b"wirepool";
/// The programs and versions that are registered.
const SERVED: [(u32, u32); 3] = [
    (wire::PROGRAM, wire3::VERSION),
    (wire::PROGRAM, wire::VERSION),
    (mount::PROGRAM, mount::VERSION),
];

/// An entry (`rpcb`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    program: u32,
    version: u32,
    /// Network: `tcp`, `tcp6`, `rdma` or `rdma6` (RFC 8166, section 9).
    network: &'static str,
    /// Address and port, as text (RFC 5665, section 5.2.3).
    address: String,
}

/// Why rpcbind did not answer as it should.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("rpcbind sent no valid reply")]
    Reply,
}

impl From<crate::xdr::XdrError> for Failure {
    fn from(_: crate::xdr::XdrError) -> Self {
        Failure::Reply
    }
}

/// The entries that this service has made.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    socket: PathBuf,
    entries: Vec<Entry>,
}

impl Entry {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.program);
        writer.u32(self.version);
        writer.opaque(self.network.as_bytes());
        writer.opaque(self.address.as_bytes());
        writer.opaque(OWNER);
    }
}

/// The network of a transport for addresses of IPv4 and of IPv6.
fn networks_of(transport: NfsTransport) -> (&'static str, &'static str) {
    match transport {
        NfsTransport::Tcp => ("tcp", "tcp6"),
        NfsTransport::Rdma => ("rdma", "rdma6"),
    }
}

/// The programs that clients look for on a transport: they mount over TCP what they use over RDMA.
fn served_over(transport: NfsTransport) -> &'static [(u32, u32)] {
    match transport {
        NfsTransport::Tcp => &SERVED,
        NfsTransport::Rdma => &SERVED[..2],
    }
}

/// The entries for these listeners: the first one of each network counts. A listener on every IPv6 address has the IPv4 ones, too.
fn entries_of(listeners: &[(SocketAddr, NfsTransport)]) -> Vec<Entry> {
    let mut networks: Vec<(&'static str, NfsTransport, String)> = Vec::new();
    let mut add = |network, transport, ip: IpAddr, port: u16| {
        let [high, low] = port.to_be_bytes();
        if !networks.iter().any(|(other, ..)| *other == network) {
            networks.push((network, transport, format!("{ip}.{high}.{low}")));
        }
    };
    for (listener, transport) in listeners {
        let (four, six) = networks_of(*transport);
        let network = if listener.is_ipv4() { four } else { six };
        add(network, *transport, listener.ip(), listener.port());
    }
    for (listener, transport) in listeners
        .iter()
        .filter(|(l, _)| l.is_ipv6() && l.ip().is_unspecified())
    {
        let (network, _) = networks_of(*transport);
        add(network, *transport, IpAddr::from([0; 4]), listener.port());
    }
    let of_network = |(network, transport, address): &(&'static str, NfsTransport, String)| {
        let entry = |(program, version): &(u32, u32)| Entry {
            program: *program,
            version: *version,
            network,
            address: address.clone(),
        };
        let served = served_over(*transport).iter();
        served.map(entry).collect::<Vec<_>>()
    };
    networks.iter().flat_map(of_network).collect()
}

/// Calls a procedure with an entry, and returns its results.
fn call(
    stream: &mut LocalStream,
    xid: u32,
    procedure: u32,
    entry: &Entry,
) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::new();
    let header = Call {
        xid,
        program: PROGRAM,
        version: VERSION,
        procedure,
        credential: Credential::None,
    };
    header.encode(&mut writer);
    entry.encode(&mut writer);
    let record = writer.to_vec();
    stream.send(&mark(record.len()))?;
    stream.send(&record)?;
    let mut header = [0; MARK_LEN];
    stream.receive(&mut header)?;
    // rpcbind sends each reply in one fragment.
    let len = (u32::from_be_bytes(header) & (u32::MAX >> 1)) as usize;
    if len > RPCBIND_REPLY_MAX {
        return Err(Failure::Reply);
    }
    let mut record = vec![0; len];
    stream.receive(&mut record)?;
    let mut reader = Reader::new(&record);
    match Reply::decode(&mut reader)? {
        (found, Reply::Success) if found == xid => Ok(reader.rest().to_vec()),
        _ => Err(Failure::Reply),
    }
}

/// Makes one entry, or finds it. Returns the address of another service that has its place.
fn set(stream: &mut LocalStream, xid: u32, entry: &Entry) -> Result<Option<String>, Failure> {
    let made = call(stream, xid, SET, entry)?;
    if Reader::new(&made).bool()? {
        return Ok(None);
    }
    let found = call(stream, xid + 1, GETADDR, entry)?;
    let found = Reader::new(&found).opaque(RPCBIND_REPLY_MAX)?.to_vec();
    // An earlier process of ours that was killed may have left the same entry.
    let is_same = found == entry.address.as_bytes();
    Ok((!is_same).then(|| String::from_utf8_lossy(&found).into_owned()))
}

/// Makes the entries. `made` gets each entry that is there then, also if a later one fails.
fn set_all(socket: &Path, entries: Vec<Entry>, made: &mut Vec<Entry>) -> Result<(), Failure> {
    let mut stream = LocalStream::connect(socket, RPCBIND_TIMEOUT)?;
    let mut others = Vec::new();
    for (at, entry) in (0u32..).step_by(2).zip(entries) {
        match set(&mut stream, at, &entry)? {
            None => made.push(entry),
            Some(other) => {
                let (program, version) = (entry.program, entry.version);
                let (network, other) = (entry.network, other.escape_default());
                others.push(format!("{program} version {version} {network} at {other}"));
            }
        }
    }
    if !others.is_empty() {
        tracing::warn!(
            others = others.join(", "),
            "rpcbind has another service for NFS programs; clients that ask rpcbind will not find this server"
        );
    }
    Ok(())
}

fn unset_all(socket: &Path, entries: &[Entry]) -> Result<(), Failure> {
    let mut stream = LocalStream::connect(socket, RPCBIND_TIMEOUT)?;
    for (xid, entry) in (0..).zip(entries) {
        call(&mut stream, xid, UNSET, entry)?;
    }
    Ok(())
}

impl Registry {
    /// Makes entries for the listeners.
    pub(crate) async fn register(
        socket: &Path,
        listeners: &[(SocketAddr, NfsTransport)],
    ) -> Registry {
        let (path, entries) = (socket.to_path_buf(), entries_of(listeners));
        let done = io::blocking(move || {
            let mut made = Vec::new();
            let done = set_all(&path, entries, &mut made);
            (made, done)
        });
        let (entries, done) = match done.await {
            Ok(done) => done,
            Err(error) => (Vec::new(), Err(error.into())),
        };
        match done {
            Ok(()) => {}
            Err(Failure::Io(io::Error::NotFound)) => {
                tracing::debug!("no rpcbind runs: NFS is not registered");
            }
            Err(error) => tracing::warn!(%error, "NFS was not registered with rpcbind"),
        }
        Registry {
            socket: socket.to_path_buf(),
            entries,
        }
    }

    /// Removes the entries. Returns their number.
    pub(crate) async fn unregister(self) -> usize {
        let count = self.entries.len();
        if count == 0 {
            return 0;
        }
        let done = io::blocking(move || unset_all(&self.socket, &self.entries)).await;
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "NFS is still registered with rpcbind");
        }
        count
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_tcp(text: &str) -> (SocketAddr, NfsTransport) {
        (text.parse().expect("an address"), NfsTransport::Tcp)
    }

    fn entries(listeners: &[&str]) -> Vec<(&'static str, String)> {
        let listeners: Vec<_> = listeners.iter().map(|text| over_tcp(text)).collect();
        let all = entries_of(&listeners);
        assert_eq!(all.len() % SERVED.len(), 0);
        let firsts = all.iter().step_by(SERVED.len());
        firsts.map(|e| (e.network, e.address.clone())).collect()
    }

    #[test]
    fn each_network_has_one_address() {
        let any4 = ("tcp", "0.0.0.0.8.1".to_string());
        let any6 = ("tcp6", "::.8.1".to_string());
        assert_eq!(entries(&["0.0.0.0:2049"]).first(), Some(&any4));
        assert_eq!(entries(&["[::]:2049"]), [any6.clone(), any4.clone()]);
        assert_eq!(entries(&["[::]:2049", "0.0.0.0:2049"]), [any6, any4]);
        let two = entries(&["10.0.0.1:20490", "10.0.0.2:1", "[fd00::1]:257"]);
        let expected = [
            ("tcp", "10.0.0.1.80.10".to_string()),
            ("tcp6", "fd00::1.1.1".into()),
        ];
        assert_eq!(two, expected);
        assert_eq!(entries(&[]), []);
    }

    #[test]
    fn over_rdma_there_is_nfs_only() {
        let any = |text: &str| (text.parse().expect("an address"), NfsTransport::Rdma);
        let all = entries_of(&[over_tcp("0.0.0.0:2049"), any("[::]:20049")]);
        let programs = |network| {
            let of_network = all.iter().filter(|e| e.network == network);
            of_network
                .map(|e| (e.program, e.version))
                .collect::<Vec<_>>()
        };
        assert_eq!(programs("tcp"), SERVED);
        assert_eq!(programs("rdma6"), [(100_003, 3), (100_003, 4)]);
        assert_eq!(programs("rdma"), [(100_003, 3), (100_003, 4)]);
        assert_eq!(all[3].address, "::.78.81");
    }

    #[test]
    fn an_entry_has_the_layout_of_rpcb() {
        let mut writer = Writer::new();
        entries_of(&[over_tcp("127.0.0.1:2049")])[2].encode(&mut writer);
        let mut expected = Vec::new();
        for word in [100_005u32, 3, 3] {
            expected.extend(word.to_be_bytes());
        }
        expected.extend(b"tcp\0");
        expected.extend(13u32.to_be_bytes());
        expected.extend(b"127.0.0.1.8.1\0\0\0");
        expected.extend(8u32.to_be_bytes());
        expected.extend(OWNER);
        assert_eq!(writer.to_vec(), expected);
    }
}
