//! Listening sockets and their accept loops.
//!
//! **Owns** the listeners, on the first shard. **Called by** [`crate::server`]. **Invariants**: a lack of descriptors
//! or memory pauses a listener and is logged once per episode; it never ends the listener. An address that the machine does not have is
//! tried again until it has it, and so is one for RDMA that cannot be served for any reason; the other addresses are served
//! meanwhile.

use crate::api::{Listen, NotListening};
use crate::limits::ACCEPT_BACKOFF;
use crate::protocols::protocol::{Address, ConnectionService, Serve};
use crate::shards::Shards;
use crate::{Error, Result, taken};
use io::JoinHandle;
use io::net::{DetachedStream, TcpListener, TcpOptions};
use io::rdma::{DetachedIncoming, NoRdma, RdmaListener};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the listeners, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct AcceptCounters {
    /// Failures of accept for lack of descriptors or memory.
    pub(crate) exhausted: AtomicU64,
    /// Connections that no shard accepted.
    pub(crate) dropped: AtomicU64,
}

/// The listening addresses of a server, and the tasks that listen on them.
#[derive(Default)]
pub(crate) struct Listening {
    addresses: Vec<Listen>,
    /// Addresses that are not served now, by setting and address.
    missing: BTreeMap<(&'static str, SocketAddr), NotListening>,
    tasks: Vec<JoinHandle<()>>,
}

impl Listening {
    /// On these addresses.
    pub(crate) fn on(addresses: impl Iterator<Item = Listen>) -> Listening {
        Listening {
            addresses: addresses.collect(),
            ..Listening::default()
        }
    }

    /// The addresses that are served, with the real ports.
    pub(crate) fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// The addresses of the configuration that are not served now.
    pub(crate) fn missing(&self) -> Vec<NotListening> {
        self.missing.values().cloned().collect()
    }

    /// An address is served from now on.
    pub(crate) fn add(&mut self, address: Listen) {
        self.addresses.push(address);
    }

    /// An address is served no longer.
    pub(crate) fn remove(&mut self, address: &Listen) {
        self.addresses.retain(|other| other != address);
    }

    /// `task` serves an address, or waits for one.
    pub(crate) fn add_task(&mut self, task: JoinHandle<()>) {
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(task);
    }

    /// An address cannot be served now. Returns whether that, or its reason, is new.
    pub(crate) fn set_missing(&mut self, setting: &'static str, why: NotListening) -> bool {
        let key = (setting, why.address);
        self.missing.insert(key, why.clone()) != Some(why)
    }

    /// An address can be served now.
    pub(crate) fn set_present(&mut self, setting: &'static str, address: SocketAddr) {
        self.missing.remove(&(setting, address));
    }

    /// Ends all tasks.
    pub(crate) fn end(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

/// A listener of a transport, with the service behind it.
pub(crate) enum Listener {
    /// See [`accept`].
    Tcp(TcpListener, Serve<DetachedStream>),
    /// See [`accept_rdma`].
    Rdma(RdmaListener, Serve<DetachedIncoming>),
}

impl Listener {
    /// The address with the real port.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Listener::Tcp(listener, _) => listener.local_addr(),
            Listener::Rdma(listener, _) => listener.local_addr(),
        }
    }
}

/// Listeners with their addresses and real ports.
pub(crate) type Listeners = Vec<(Listener, Address)>;

/// Addresses that cannot be served now, each with the reason.
pub(crate) type Missing = Vec<(Address, Error)>;

/// Listens on every address; waits for addresses that are in use. Returns the listeners, and the addresses that the machine cannot
/// serve now. Errors: `Listen` or `AddressTaken` for the first address over TCP that fails.
pub(crate) async fn bind(wanted: Vec<Address>) -> Result<(Listeners, Missing)> {
    let (mut listeners, mut missing) = (Vec::new(), Vec::new());
    let all: Vec<(SocketAddr, &str)> = wanted
        .iter()
        .map(|w| (w.listen.address, w.setting))
        .collect();
    for mut wanted in wanted {
        let address = wanted.listen.address;
        if all
            .iter()
            .any(|(other, of)| *of == wanted.setting && merges(*other, address))
        {
            continue;
        }
        let bind = || bind_one(&wanted);
        match taken::until_free(bind, async |pause| io::time::sleep(pause).await).await {
            Ok(listener) => {
                wanted.listen.address = listener.local_addr();
                listeners.push((listener, wanted));
            }
            Err(why @ (Error::AddressAbsent { .. } | Error::RdmaAbsent { .. })) => {
                missing.push((wanted, why));
            }
            Err(e) => return Err(e),
        }
    }
    Ok((listeners, missing))
}

/// Whether a listener on `all` stands for one of the same setting on `address`: `[::]` takes IPv4 too, so that `0.0.0.0` cannot be bound
/// beside it.
pub(crate) fn merges(all: SocketAddr, address: SocketAddr) -> bool {
    let is_any = |a: SocketAddr| a.ip().is_unspecified();
    all.is_ipv6()
        && address.is_ipv4()
        && is_any(all)
        && is_any(address)
        && all.port() == address.port()
        && all.port() != 0
}

/// Listens on one address. Errors: over TCP `Listen`, `AddressTaken`, `AddressAbsent`; over RDMA `RdmaAbsent`.
pub(crate) fn bind_one(wanted: &Address) -> Result<Listener> {
    let (address, setting) = (wanted.listen.address, wanted.setting);
    match &wanted.service {
        ConnectionService::Tcp(serve) => match TcpListener::bind(address) {
            Ok(listener) => Ok(Listener::Tcp(listener, serve.clone())),
            Err(e) => Err(taken::refused(address, setting, e)),
        },
        ConnectionService::Rdma(serve) => match RdmaListener::bind(address) {
            Ok(listener) => Ok(Listener::Rdma(listener, serve.clone())),
            Err(e) => Err(Error::RdmaAbsent {
                address,
                setting,
                reason: no_rdma(e, io::rdma::support()),
            }),
        },
    }
}

/// Why a listener for RDMA cannot be made, and the remedy.
fn no_rdma(error: io::Error, support: std::result::Result<(), NoRdma>) -> String {
    match (error, support) {
        (io::Error::Unreachable(_), _) => "no RDMA device has this address".to_owned(),
        (io::Error::Busy(_), _) => {
            "another program listens there over RDMA (such as the kernel's nvmet)".to_owned()
        }
        (_, Err(why)) => why.to_string(),
        (other, Ok(())) => other.to_string(),
    }
}

/// Accepts on one listener over TCP, without end; connections send with this congestion control.
pub(crate) async fn accept(
    listener: TcpListener,
    serve: Serve<DetachedStream>,
    shards: Shards,
    counters: Arc<AcceptCounters>,
    congestion: Option<String>,
) {
    let address = listener.local_addr();
    let mut pause = *ACCEPT_BACKOFF.start();
    let mut exhausted = false;
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(io::Error::Closed) => continue,
            Err(e) => {
                counters.exhausted.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut exhausted, true) {
                    tracing::warn!(%address, error = %e, "cannot accept connections temporarily");
                }
                io::time::sleep(pause).await;
                pause = (pause * 2).min(*ACCEPT_BACKOFF.end());
                continue;
            }
        };
        if std::mem::replace(&mut exhausted, false) {
            tracing::info!(%address, "accepting connections again");
        }
        pause = *ACCEPT_BACKOFF.start();
        let peer = stream.peer_addr();
        if congestion.is_some() {
            let options = TcpOptions {
                congestion: congestion.clone(),
                ..TcpOptions::default()
            };
            // A refusal was reported when the server started, and sessions show the value in use.
            let _ = stream.set_options(&options);
        }
        let handed = stream
            .set_options(&TcpOptions::default())
            .and_then(|()| shards.hand(stream.detach(), &serve));
        if let Err(e) = handed {
            dropped(&counters, peer, e);
        }
    }
}

fn dropped(counters: &AcceptCounters, peer: SocketAddr, error: io::Error) {
    counters.dropped.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(%peer, %error, "a connection was closed: no shard accepted it");
}

/// Takes connection requests of one listener until it fails; its device was removed then. Returns the reason. A request that no shard takes
/// is rejected.
pub(crate) async fn accept_rdma(
    listener: RdmaListener,
    serve: Serve<DetachedIncoming>,
    shards: Shards,
    counters: Arc<AcceptCounters>,
) -> io::Error {
    loop {
        let incoming = match listener.accept().await {
            Ok(incoming) => incoming,
            Err(e) => return e,
        };
        let peer = incoming.peer_addr();
        if let Err(e) = shards.hand(incoming.detach(), &serve) {
            dropped(&counters, peer, e);
        }
    }
}
