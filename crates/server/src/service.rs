//! The protocol service of a connection: NVMe target or iSCSI service.
//!
//! **Called by** listeners and shards.

use crate::api::ListenRole;
use crate::protocols::Protocols;
use crate::protocols::nvmf::port_role;
use io::net::TcpStream;
use nvmf::target::PortRole;

/// The service behind a listener. Clones are the same.
#[derive(Clone)]
pub(crate) enum Service {
    /// NVMe/TCP, in this role.
    Nvmf(nvmf::target::Target, PortRole),
    /// iSCSI.
    Iscsi(iscsi::target::Target),
}

impl Service {
    /// What serves at an address of this role.
    pub(crate) fn of(role: ListenRole, protocols: &Protocols) -> Service {
        match port_role(role) {
            Some(role) => Service::Nvmf(protocols.nvmf.target.clone(), role),
            None => Service::Iscsi(protocols.iscsi.service.clone()),
        }
    }

    /// Serves a connection until it ends. Called on the shard that owns it.
    pub(crate) async fn serve(self, stream: TcpStream) {
        match self {
            Service::Nvmf(target, role) => target.serve(stream, role).await,
            Service::Iscsi(target) => target.serve(stream).await,
        }
    }
}
