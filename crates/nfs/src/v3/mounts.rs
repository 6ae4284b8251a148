//! The list of mounts: a note of which host asked for which path.
//!
//! **Owns** [`Mounts`]. **Called by** MOUNT, and by the control plane. **Invariants**: nothing depends on the list: it is what hosts said,
//! and a host that vanished never says that it no longer uses a path; bounded for each host and in all, where the oldest notes go first.

use crate::limits::{MOUNTS_MAX, MOUNTS_OF_HOST_MAX};
use std::net::IpAddr;

/// A note that a host mounted a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The host.
    pub host: IpAddr,
    /// The path, as the host named it.
    pub path: Vec<u8>,
    /// The number of the export.
    pub export: u32,
}

/// All notes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    /// A host mounts a path.
    pub(crate) fn add(&mut self, mount: Mount) {
        self.remove(mount.host, &mount.path);
        let of_host = |m: &Mount| m.host == mount.host;
        let count = self.0.iter().filter(|m| of_host(m)).count();
        let oldest = match count >= MOUNTS_OF_HOST_MAX {
            true => self.0.iter().position(of_host),
            false => (self.0.len() >= MOUNTS_MAX).then_some(0),
        };
        if let Some(oldest) = oldest {
            self.0.remove(oldest);
        }
        self.0.push(mount);
    }

    /// A host no longer uses a path.
    pub(crate) fn remove(&mut self, host: IpAddr, path: &[u8]) {
        self.0.retain(|m| m.host != host || m.path != path);
    }

    /// A host no longer uses any path.
    pub(crate) fn remove_all(&mut self, host: IpAddr) {
        self.0.retain(|m| m.host != host);
    }

    /// All notes, oldest first.
    pub(crate) fn all(&self) -> &[Mount] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(host: u16, path: u32) -> Mount {
        let [high, low] = host.to_be_bytes();
        Mount {
            host: [10, 0, high, low].into(),
            path: path.to_string().into_bytes(),
            export: 1,
        }
    }

    #[test]
    fn the_list_is_bounded_for_each_host_and_in_all() {
        let mut all = Mounts::default();
        for path in 0..MOUNTS_OF_HOST_MAX as u32 + 5 {
            all.add(mount(1, path));
        }
        assert_eq!(all.all().len(), MOUNTS_OF_HOST_MAX);
        assert_eq!(all.all()[0], mount(1, 5));
        for host in 2..MOUNTS_MAX as u16 + 2 {
            all.add(mount(host, 0));
            all.add(mount(host, 0));
        }
        assert_eq!(all.all().len(), MOUNTS_MAX);
        assert_eq!(all.all()[0], mount(2, 0));
        all.remove(mount(2, 0).host, b"1");
        assert_eq!(all.all().len(), MOUNTS_MAX);
        all.remove(mount(2, 0).host, b"0");
        all.remove_all(mount(3, 0).host);
        assert_eq!(all.all().len(), MOUNTS_MAX - 2);
    }
}
