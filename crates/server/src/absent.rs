//! Addresses of the configuration that cannot be served yet: the machine does not have them, or cannot listen there for RDMA.
//!
//! **Owns** their list and the attempts to listen on them. **Called by** the start of the server, and of its metrics and console.
//! **Invariants**: an address is in the list from the first failed attempt until it is served; each reason is logged once. An address for
//! RDMA whose device was removed is in the list again.

use crate::Error;
use crate::api::{NotListening, Transport};
use crate::limits::LISTEN_RETRY;
use crate::listen::{self, Listener, bind_one};
use crate::protocols::protocol::{Address, Serve};
use crate::server::Server;
use crate::taken;
use io::rdma::{DetachedIncoming, RdmaListener};
use std::net::SocketAddr;
use std::rc::Rc;

impl Server {
    /// Serves an address on a listener, until the server drains. Connections over TCP send with this congestion control.
    pub(crate) fn accept(
        self: &Rc<Self>,
        listener: Listener,
        address: Address,
        congestion: Option<&str>,
    ) {
        let (shards, accepts) = (self.shards.clone(), self.accepts().clone());
        let task = match listener {
            Listener::Tcp(listener, serve) => {
                let congestion = congestion.map(str::to_owned);
                let accepting = listen::accept(listener, serve, shards, accepts, congestion);
                io::spawn(accepting)
            }
            Listener::Rdma(listener, serve) => {
                io::spawn(self.clone().serve_rdma(listener, serve, address))
            }
        };
        self.state.borrow_mut().listening.add_task(task);
    }

    /// Takes connection requests until the device is removed, and then waits for one that can be listened on.
    async fn serve_rdma(
        self: Rc<Self>,
        listener: RdmaListener,
        serve: Serve<DetachedIncoming>,
        wanted: Address,
    ) {
        let (shards, accepts) = (self.shards.clone(), self.accepts().clone());
        let error = listen::accept_rdma(listener, serve, shards, accepts).await;
        self.state.borrow_mut().listening.remove(&wanted.listen);
        let why = Error::RdmaAbsent {
            address: wanted.listen.address,
            setting: wanted.setting,
            reason: format!("its RDMA device was removed ({error})"),
        };
        let later = io::spawn(self.clone().listen_later(wanted, why));
        self.state.borrow_mut().listening.add_task(later);
    }

    /// Waits until the address can be served, and then serves it. It cannot be served now because of `why`.
    pub(crate) async fn listen_later(self: Rc<Self>, mut wanted: Address, why: Error) {
        let (address, setting) = (wanted.listen.address, wanted.setting);
        let (mut why, transport) = (why, wanted.listen.transport);
        let listener = loop {
            if self.note_missing((setting, address), transport, &why) {
                self.advertise();
            }
            io::time::sleep(LISTEN_RETRY).await;
            match bind_one(&wanted) {
                Ok(listener) => break listener,
                Err(e) => why = e,
            }
        };
        wanted.listen.address = listener.local_addr();
        let now = wanted.listen.clone();
        self.state.borrow_mut().listening.add(now);
        self.address_present(address, setting);
        self.advertise();
        let congestion = self.config().server.congestion;
        self.accept(listener, wanted, congestion.as_deref());
    }

    /// Records that an address is not on this machine.
    pub(crate) fn address_absent(&self, address: SocketAddr, setting: &'static str) {
        let why = taken::absent(address, setting);
        self.note_missing((setting, address), Transport::Tcp, &why);
    }

    /// Records why an address is not served. Returns whether that is news, which is logged.
    fn note_missing(
        &self,
        (setting, address): (&'static str, SocketAddr),
        transport: Transport,
        why: &Error,
    ) -> bool {
        let reason = match why {
            Error::RdmaAbsent { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        let missing = NotListening {
            address,
            setting: setting.to_owned(),
            transport,
            reason,
        };
        let warning = warning_of(&missing);
        let mut state = self.state.borrow_mut();
        let is_news = state.listening.set_missing(setting, missing);
        if is_news {
            tracing::warn!("{warning}");
        }
        is_news
    }

    /// Records that an address is served.
    pub(crate) fn address_present(&self, address: SocketAddr, setting: &'static str) {
        tracing::info!(%address, setting, "the machine has the address: it is served");
        let mut state = self.state.borrow_mut();
        state.listening.set_present(setting, address);
    }
}

/// The warning about an address that is not served now.
pub(crate) fn warning_of(missing: &NotListening) -> String {
    let NotListening {
        address,
        setting,
        transport,
        reason,
    } = missing;
    match transport {
        Transport::Tcp => format!("{reason}: it is served as soon as the machine has it"),
        Transport::Rdma => format!(
            "{address} of {setting} is not served over RDMA: {reason}. Hosts can connect over TCP; RDMA is tried again every {} s",
            LISTEN_RETRY.as_secs()
        ),
    }
}
