//! Addresses that discovery tells, at the start and whenever they change.
//!
//! **Owns** the task that asks the resolver for names of hosts. **Called by** the server, when it starts and when it listens on an address
//! more or less. **Invariants**: a change of a name's addresses reaches discovery without a restart (`advertise`, `referrals`).

use crate::limits::{HOST_NAMES_EVERY, HOST_NAMES_RETRY};
use crate::protocols::protocol::AddressState;
use crate::server::Server;
use std::collections::BTreeSet;
use std::rc::Rc;

impl Server {
    /// The names that discovery tells addresses of.
    fn host_names(&self) -> BTreeSet<String> {
        let config = self.config();
        let told = config.protocols().flat_map(|p| p.told());
        told.filter_map(|e| e.host_name().map(str::to_owned))
            .collect()
    }

    /// Tells every protocol which addresses its discovery names.
    pub(crate) fn advertise(&self) {
        let (config, listening) = (self.config(), self.listening());
        let missing = self.state.borrow().listening.missing();
        let served = AddressState {
            listening: &listening,
            missing: &missing,
            names: &self.host_names,
        };
        self.protocols.advertise(&config, &served);
    }

    /// Asks the resolver for the names of the configuration, without end. Returns at once if it has none.
    pub(crate) async fn follow_host_names(self: Rc<Self>) {
        loop {
            let (names, known) = (self.host_names(), self.host_names.clone());
            if names.is_empty() {
                return;
            }
            match io::blocking(move || known.refresh(&names)).await {
                Ok(true) => self.advertise(),
                Ok(false) => {}
                Err(e) => tracing::error!(error = %e, "advertised hosts cannot be resolved"),
            }
            let pause = if self.host_names.is_whole() {
                HOST_NAMES_EVERY
            } else {
                HOST_NAMES_RETRY
            };
            io::time::sleep(pause).await;
        }
    }
}
