//! The protocols of a running server.
//!
//! **Called by** the server, the control API and the metrics. **Invariants**: the protocols share the connections that
//! descriptors allow.

use super::protocol::{AddressState, DiskExports, FilesystemExports, Protocol};
use super::protocols;
use super::rdma::RdmaState;
use crate::Result;
use crate::api::{RefusedHost, Session};
use crate::config::{Config, ConfigFile};
use io::sync::lock;
use std::fmt;
use std::sync::Mutex;

macro_rules! set {
    ($($protocol:ident $type:ident $exports:ident;)*) => {
        /// The protocols of a server.
        pub(crate) struct Protocols {
            $(pub(crate) $protocol: super::$protocol::$type,)*
            /// Whether clients can use RDMA, for each protocol.
            rdma: Mutex<Vec<RdmaState>>,
        }

        impl Protocols {
            /// The protocols without exports. `connections_max` is the number of connections that descriptors allow. Blocks for
            /// files of the state directory. Errors: `File`.
            pub(crate) fn new(file: &ConfigFile, connections_max: usize) -> Result<Protocols> {
                let wanted = file.config().protocols().map(|p| p.connections()).collect();
                let mut shares = shares(wanted, connections_max).into_iter();
                let mut share = || shares.next().unwrap_or(1);
                Ok(Protocols {
                    $($protocol: super::$protocol::$type::new(file, share())?,)*
                    rdma: Mutex::default(),
                })
            }

            /// All of them.
            pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Protocol> {
                [$(&self.$protocol as &dyn Protocol),*].into_iter()
            }
        }
    };
}
protocols!(set);

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocols")
    }
}

impl Protocols {
    /// The exports of disks, of each protocol that has such exports.
    pub(crate) fn disk_exports(&self) -> impl Iterator<Item = &dyn DiskExports> {
        self.all().filter_map(Protocol::disk_exports)
    }

    /// The exports of filesystems, of each protocol that has such exports.
    pub(crate) fn filesystem_exports(&self) -> impl Iterator<Item = &dyn FilesystemExports> {
        self.all().filter_map(Protocol::filesystem_exports)
    }

    /// Says which addresses discovery names, and keeps whether clients can use RDMA.
    pub(crate) fn advertise(&self, config: &Config, served: &AddressState<'_>) {
        let advertise = |p: &dyn Protocol| {
            p.advertise(config, served);
            RdmaState::of(&p.addresses(config), served)
        };
        *lock(&self.rdma) = self.all().map(advertise).collect();
    }

    /// The sessions of all protocols. Those over TCP have the reason why they are not over RDMA, if it is known.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        let mut rdma = lock(&self.rdma).clone();
        rdma.resize(self.all().count(), RdmaState::default());
        let explained = |(p, rdma): (&dyn Protocol, RdmaState)| {
            let mut sessions = p.sessions();
            for session in &mut sessions {
                let local = session.queues.first().map(|q| q.local.ip());
                rdma.explain(&mut session.summary, local);
            }
            sessions
        };
        self.all().zip(rdma).flat_map(explained).collect()
    }

    /// Whether the protocol with this word (`nvme`, `iscsi`, `nfs`) is served over RDMA.
    pub(crate) fn listens_for_rdma(&self, word: &str) -> bool {
        let rdma = lock(&self.rdma);
        let mut all = self.all().zip(rdma.iter());
        all.any(|(p, rdma)| p.refusals().0 == word && rdma.is_listening())
    }

    /// The hosts that access lists refused, over all protocols, the newest first.
    pub(crate) fn refused(&self) -> Vec<RefusedHost> {
        let mut all: Vec<RefusedHost> = self.all().flat_map(|p| p.refused()).collect();
        all.sort_by_key(|host| std::cmp::Reverse(host.last_ms));
        all
    }
}

/// Splits the connections that descriptors allow in proportion to the configuration. The first protocol gets the
/// remainder; a protocol that is off has one connection, which does not count.
fn shares(wanted: Vec<usize>, allowed: usize) -> Vec<usize> {
    let total: usize = wanted.iter().sum();
    let share = |w: &usize| (allowed * w / total.max(1)).max(1);
    let mut shares: Vec<usize> = wanted.iter().map(share).collect();
    let others = (1..wanted.len()).filter(|i| wanted[*i] > 0);
    let others: usize = others.map(|i| shares[i]).sum();
    if let Some(first) = shares.first_mut() {
        *first = allowed.saturating_sub(others).max(1);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn connections_are_shared_in_proportion() {
        assert_eq!(shares(vec![100, 0], 40), [40, 1]);
        assert_eq!(shares(vec![100, 100], 40), [20, 20]);
        assert_eq!(shares(vec![300, 100], 10), [8, 2]);
        assert_eq!(shares(vec![100, 100], 1), [1, 1]);
    }
}
