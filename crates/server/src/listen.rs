//! Listening sockets and their accept loops.
//!
//! **Owns** the listeners, on the first shard. **Called by** [`crate::server`]. **Invariants**: a lack of descriptors
//! or memory pauses a listener and is logged once per episode; it never ends the listener. An address that the machine does not have is
//! tried again until it has it; the other addresses are served meanwhile.

use crate::api::Listen;
use crate::limits::ACCEPT_BACKOFF;
use crate::protocols::protocol::{Accepted, Address, Service};
use crate::shards::Shards;
use crate::{Error, Result, taken};
use io::JoinHandle;
use io::net::{TcpListener, TcpOptions};
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
    /// Addresses that the machine does not have, each with its setting.
    absent: BTreeMap<SocketAddr, &'static str>,
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

    /// The addresses that the machine does not have, each with its setting.
    pub(crate) fn absent(&self) -> impl Iterator<Item = (SocketAddr, &'static str)> {
        self.absent
            .iter()
            .map(|(address, setting)| (*address, *setting))
    }

    /// An address is served from now on.
    pub(crate) fn add(&mut self, address: Listen) {
        self.addresses.push(address);
    }

    /// `task` serves an address, or waits for one.
    pub(crate) fn add_task(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// The machine does not have an address.
    pub(crate) fn set_absent(&mut self, address: SocketAddr, setting: &'static str) {
        self.absent.insert(address, setting);
    }

    /// The machine has an address now.
    pub(crate) fn set_present(&mut self, address: SocketAddr) {
        self.absent.remove(&address);
    }

    /// Ends all tasks.
    pub(crate) fn end(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

/// Listeners with their addresses and real ports.
pub(crate) type Listeners = Vec<(TcpListener, Address)>;

/// Listens on every address; waits for addresses that are in use. Returns the listeners, and the addresses that the machine does not
/// have. Errors: `Listen` or `AddressTaken` for the first address that fails.
pub(crate) async fn bind(wanted: Vec<Address>) -> Result<(Listeners, Vec<Address>)> {
    let (mut listeners, mut absent) = (Vec::new(), Vec::new());
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
            Err(Error::AddressAbsent { .. }) => absent.push(wanted),
            Err(e) => return Err(e),
        }
    }
    Ok((listeners, absent))
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

/// Listens on one address. Errors: `Listen`, `AddressTaken`, `AddressAbsent`.
pub(crate) fn bind_one(wanted: &Address) -> Result<TcpListener> {
    let address = wanted.listen.address;
    TcpListener::bind(address).map_err(|e| taken::refused(address, wanted.setting, e))
}

/// Accepts on one listener, without end; connections send with this congestion control.
pub(crate) async fn accept(
    listener: TcpListener,
    service: Service,
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
            .and_then(|()| shards.hand(Accepted::Tcp(stream.detach()), &service));
        if let Err(e) = handed {
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, error = %e, "a connection was closed: no shard accepted it");
        }
    }
}
