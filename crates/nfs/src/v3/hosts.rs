//! Hosts that use version 3, which has no clients: their calls and bytes.
//!
//! **Owns** [`Hosts`]. **Called by** the dispatch of calls, and by the control plane. **Invariants**: at most [`HOSTS_MAX`] hosts; the
//! one that was silent longest goes first.

use crate::limits::HOSTS_MAX;
use crate::transport::NfsTransport;
use io::time::Instant;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A host that called a procedure of version 3, or of MOUNT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// A number that no other host gets.
    pub number: u32,
    /// The host.
    pub host: IpAddr,
    /// Time since its first call that is known.
    pub known_for: Duration,
    /// Time since its last call.
    pub silent_for: Duration,
    /// Its calls.
    pub calls: u64,
    /// Calls among them that RPC refused.
    pub refused: u64,
    /// Bytes of its calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// The transport of its last call.
    pub transport: NfsTransport,
}

#[derive(Debug)]
struct Host {
    number: u32,
    first: Instant,
    last: Instant,
    calls: u64,
    refused: u64,
    bytes_in: u64,
    bytes_out: u64,
    transport: NfsTransport,
}

/// All hosts.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    hosts: BTreeMap<IpAddr, Host>,
    next: u32,
}

impl Hosts {
    /// A host called, with this many bytes of call and reply.
    pub(crate) fn called(
        &mut self,
        (host, transport): (IpAddr, NfsTransport),
        (bytes_in, bytes_out): (usize, usize),
        is_refused: bool,
        now: Instant,
    ) {
        let host = host.to_canonical();
        if !self.hosts.contains_key(&host) {
            if self.hosts.len() >= HOSTS_MAX {
                let oldest = self.hosts.iter().min_by_key(|(_, h)| h.last);
                if let Some(oldest) = oldest.map(|(host, _)| *host) {
                    self.hosts.remove(&oldest);
                }
            }
            let number = self.next;
            self.next = number.wrapping_add(1);
            let new = Host {
                number,
                first: now,
                last: now,
                calls: 0,
                refused: 0,
                bytes_in: 0,
                bytes_out: 0,
                transport,
            };
            self.hosts.insert(host, new);
        }
        if let Some(host) = self.hosts.get_mut(&host) {
            host.last = now;
            host.transport = transport;
            host.calls += 1;
            host.refused += u64::from(is_refused);
            host.bytes_in += bytes_in as u64;
            host.bytes_out += bytes_out as u64;
        }
    }

    /// All hosts, by address.
    pub(crate) fn infos(&self, now: Instant) -> Vec<HostInfo> {
        let info = |(host, of): (&IpAddr, &Host)| HostInfo {
            number: of.number,
            host: *host,
            known_for: now.since(of.first),
            silent_for: now.since(of.last),
            calls: of.calls,
            refused: of.refused,
            bytes_in: of.bytes_in,
            bytes_out: of.bytes_out,
            transport: of.transport,
        };
        self.hosts.iter().map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: NfsTransport = NfsTransport::Tcp;
    use io::sim::{Sim, SimConfig};

    #[test]
    fn the_host_that_was_silent_longest_goes() {
        Sim::new(1, SimConfig::default()).block_on(async {
            let mut hosts = Hosts::default();
            let host = |number: u32| IpAddr::from(number.to_be_bytes());
            for number in 0..HOSTS_MAX as u32 {
                hosts.called((host(number), TCP), (10, 20), false, io::time::now());
                io::time::sleep(Duration::from_millis(1)).await;
            }
            hosts.called((host(0), TCP), (1, 2), true, io::time::now());
            hosts.called((host(u32::MAX), TCP), (1, 2), false, io::time::now());
            let infos = hosts.infos(io::time::now());
            assert_eq!(infos.len(), HOSTS_MAX);
            let first = &infos[0];
            assert_eq!((first.host, first.calls, first.refused), (host(0), 2, 1));
            assert_eq!((first.bytes_in, first.bytes_out), (11, 22));
            assert_eq!(infos[1].host, host(2), "host 1 was silent longest");
        });
    }
}
