//! The protocols that clients reach disks and volumes with.
//!
//! **Owns** the list of protocols. **Called by** the server, the control API and the metrics. **Invariants**: numbers of
//! sessions are unique among all protocols.

pub(crate) mod iscsi;
pub(crate) mod nvmf;

use self::iscsi::Iscsi;
use self::nvmf::Nvmf;
use crate::api::{Latency, Listen, Session, Status};
use crate::config::Config;
use crate::control::route::Route;
use crate::metrics::Families;
use crate::word::word;
use ::session::latency::CommandLatency;
use io::net::TcpStream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Work on a shard.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// Serves a connection until it ends. Called on the shard that owns the connection.
pub(crate) type Service = Arc<dyn Fn(TcpStream) -> Work<()> + Send + Sync>;

/// An address that a protocol listens on.
pub(crate) struct Address {
    pub(crate) listen: Listen,
    /// The setting that names the address.
    pub(crate) setting: &'static str,
    /// Serves connections to the address.
    pub(crate) service: Service,
}

/// A protocol, as the rest of the server knows it.
pub(crate) trait Protocol: Send + Sync {
    /// The addresses of the configuration.
    fn addresses(&self, config: &Config) -> Vec<Address>;

    /// Says which addresses discovery names. `listening` has the addresses of all protocols, with the real ports.
    fn advertise(&self, config: &Config, listening: &[Listen]);

    /// Keeps hosts waiting that connect to an export with a disk or volume that `is_opening`, and no other hosts.
    fn hold(&self, config: &Config, is_opening: &dyn Fn(&str) -> bool);

    /// Every session.
    fn sessions(&self) -> Vec<Session>;

    /// Ends the session of this number. False if it is none of this protocol.
    fn end_session(&self, id: u32) -> bool;

    /// Adds the protocol's metrics. `status` has its exports and sessions.
    fn metrics(&self, status: &Status, out: &mut Families) -> fmt::Result;

    /// Takes no commands any more and finishes those in flight, within [`DRAIN_MAX`](crate::limits::DRAIN_MAX) and
    /// [`FLUSH_MAX`](crate::limits::FLUSH_MAX). Returns the failures, for people.
    fn drain(&self) -> Work<Vec<String>>;
}

/// The protocols of a server.
pub(crate) struct Protocols {
    pub(crate) nvmf: Nvmf,
    pub(crate) iscsi: Iscsi,
}

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocols")
    }
}

impl Protocols {
    /// The protocols without exports. `connections_max` is the number of connections that descriptors allow.
    pub(crate) fn new(config: &Config, connections_max: usize) -> Protocols {
        let [nvmf, iscsi] = shares(wanted(config), connections_max);
        Protocols {
            nvmf: Nvmf::new(nvmf),
            iscsi: Iscsi::new(iscsi),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [&dyn Protocol; 2] {
        [&self.nvmf, &self.iscsi]
    }

    /// The sessions of all protocols.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        let all = self.all().into_iter();
        all.flat_map(|p| p.sessions()).collect()
    }
}

/// The control API's requests about exports of each protocol.
pub(crate) fn routes() -> impl Iterator<Item = Route> {
    let tables = [nvmf::routes::routes, iscsi::routes::routes];
    tables.into_iter().flat_map(|table| table())
}

/// The connections that each protocol is configured for; 0 if the protocol is off.
fn wanted(config: &Config) -> [usize; 2] {
    [nvmf::connections(config), iscsi::connections(config)]
}

/// The connections that all protocols together are configured for.
pub(crate) fn connections_wanted(config: &Config) -> usize {
    wanted(config).iter().sum()
}

/// Splits the connections that descriptors allow in proportion to the configuration. The first protocol gets the
/// remainder; a protocol that is off has one connection, which does not count.
fn shares<const N: usize>(wanted: [usize; N], allowed: usize) -> [usize; N] {
    let total: usize = wanted.iter().sum();
    let mut shares = wanted.map(|w| (allowed * w / total.max(1)).max(1));
    let others = (1..N).filter(|i| wanted[*i] > 0).map(|i| shares[i]);
    shares[0] = allowed.saturating_sub(others.sum()).max(1);
    shares
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// Latencies as the control API shows them.
fn latency(l: &CommandLatency) -> Latency {
    Latency {
        command: word(l.kind),
        count: l.count,
        mean_us: l.mean_us,
        p50_us: l.p50_us,
        p90_us: l.p90_us,
        p99_us: l.p99_us,
        p999_us: l.p999_us,
        max_us: l.max_us,
    }
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn connections_are_shared_in_proportion() {
        assert_eq!(shares([100, 0], 40), [40, 1]);
        assert_eq!(shares([100, 100], 40), [20, 20]);
        assert_eq!(shares([300, 100], 10), [8, 2]);
        assert_eq!(shares([100, 100], 1), [1, 1]);
    }
}
