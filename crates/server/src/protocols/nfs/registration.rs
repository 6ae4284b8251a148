//! Registration of the service with rpcbind, from the start of the server to its end.
//!
//! **Owns** the moment at which the registration is complete. **Called by** the protocol. **Invariants**: the entries are removed
//! after they were made; neither is waited for by anything but the end of the server, for a bounded time.

use io::sync::lock;
use io::sync::oneshot;
use nfs::service::{NfsTransport, Service};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

/// The registration: nothing, or in progress or complete.
#[derive(Default)]
pub(super) struct Registration(Mutex<Option<oneshot::Receiver<()>>>);

impl Registration {
    /// Begins to register the service at these addresses with the rpcbind of a socket. Addresses that only this machine reaches
    /// are left out.
    pub(super) fn begin(
        &self,
        service: Service,
        socket: PathBuf,
        listeners: Vec<(SocketAddr, NfsTransport)>,
    ) {
        let mut listeners = listeners;
        listeners.retain(|(address, _)| !address.ip().is_loopback());
        if listeners.is_empty() {
            return;
        }
        let (done, wait) = oneshot::channel();
        *lock(&self.0) = Some(wait);
        drop(io::spawn(async move {
            let entries = service.register(&socket, &listeners).await;
            if entries > 0 {
                tracing::info!(entries, "NFS is registered with rpcbind");
            }
            done.send(());
        }));
    }

    /// Removes the entries, if there are any.
    pub(super) async fn end(&self, service: &Service) {
        let begun = lock(&self.0).take();
        if let Some(wait) = begun {
            wait.await;
            service.unregister().await;
        }
    }
}
