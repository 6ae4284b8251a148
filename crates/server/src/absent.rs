//! Listening addresses that the machine does not have yet.
//!
//! **Owns** their list and the attempts to listen on them. **Called by** the start of the server, and of its metrics and console.
//! **Invariants**: an address is in the list from the first failed attempt until it is served; its loss is logged once.

use crate::Error;
use crate::limits::LISTEN_RETRY;
use crate::listen::bind_one;
use crate::protocols::protocol::Address;
use crate::server::Server;
use std::net::SocketAddr;
use std::rc::Rc;

impl Server {
    /// Waits until the machine has the address, and then serves it.
    pub(crate) async fn listen_later(self: Rc<Self>, mut wanted: Address) {
        let address = wanted.listen.address;
        self.address_absent(address, wanted.setting);
        let listener = loop {
            io::time::sleep(LISTEN_RETRY).await;
            if let Ok(listener) = bind_one(&wanted) {
                break listener;
            }
        };
        wanted.listen.address = listener.local_addr();
        let now = wanted.listen.clone();
        self.state.borrow_mut().listening.add(now);
        self.address_present(address);
        self.advertise();
        let congestion = self.config().server.congestion;
        self.accept(vec![(listener, wanted)], congestion.as_deref());
    }

    /// Records that an address is not on this machine.
    pub(crate) fn address_absent(&self, address: SocketAddr, setting: &'static str) {
        tracing::warn!("{}", warning_of(address, setting));
        let mut state = self.state.borrow_mut();
        state.listening.set_absent(address, setting);
    }

    /// Records that an address is served.
    pub(crate) fn address_present(&self, address: SocketAddr) {
        tracing::info!(%address, "the machine has the address: it is served");
        self.state.borrow_mut().listening.set_present(address);
    }
}

/// The warning about an address that the machine does not have.
pub(crate) fn warning_of(address: SocketAddr, setting: &'static str) -> String {
    let reason = Error::AddressAbsent { address, setting };
    format!("{reason}: it is served as soon as the machine has it")
}
