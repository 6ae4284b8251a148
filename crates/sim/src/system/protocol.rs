//! The protocol between clients and server.
//!
//! **Called by** everything in a simulated system.

use iscsi::portal::IscsiTransport;
use nfs::service::NfsTransport;
use nvmf::controller::Transport;

/// Protocol between clients and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// NVMe over this transport.
    Nvme(Transport),
    /// iSCSI over this transport.
    Iscsi(IscsiTransport),
    /// NFS over this transport.
    Nfs(NfsTransport),
}

impl Protocol {
    /// Whether clients connect over RDMA.
    pub(super) fn is_over_rdma(self) -> bool {
        match self {
            Protocol::Nvme(transport) => transport == Transport::Rdma,
            Protocol::Iscsi(transport) => transport == IscsiTransport::Iser,
            Protocol::Nfs(transport) => transport == NfsTransport::Rdma,
        }
    }
}
