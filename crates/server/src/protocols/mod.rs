//! The protocols that clients reach disks, volumes and filesystems with, each in a folder of its own.
//!
//! **Owns** the registry: the `mod` line and the line of [`protocols!`] of each protocol are the only places that name it.
//! **Called by** the server, the configuration, the control API and the metrics. **Invariants**: numbers of sessions are
//! unique among all protocols.

pub(crate) mod access;
pub(crate) mod protocol;
pub(crate) mod published;
pub(crate) mod rdma;
pub(crate) mod set;

pub(crate) mod iscsi;
pub(crate) mod nfs;
pub(crate) mod nvmf;

/// Passes the registry to another macro. A line has the folder, which is also the section of the configuration, the type
/// that implements [`Protocol`](protocol::Protocol), and the array of tables with the exports.
macro_rules! protocols {
    ($macro:ident) => {
        $macro! {
            nvmf Nvmf subsystem;
            iscsi Iscsi target;
            nfs Nfs export;
        }
    };
}
pub(crate) use protocols;
