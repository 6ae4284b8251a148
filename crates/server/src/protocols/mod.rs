//! The protocols that clients reach disks and volumes with.
//!
//! **Owns** the list of protocols. **Called by** the server, the control API and the metrics. **Invariants**: numbers of
//! sessions are unique among all protocols.

pub(crate) mod iscsi;
pub(crate) mod nvmf;

use self::iscsi::Iscsi;
use self::nvmf::Nvmf;
use crate::api::{Latency, Session};
use crate::word::word;
use ::session::latency::CommandLatency;
use std::pin::Pin;
use std::time::Duration;

/// Work on a shard.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// A protocol, as the rest of the server knows it.
pub(crate) trait Protocol: Send + Sync {
    /// Every session.
    fn sessions(&self) -> Vec<Session>;

    /// Ends the session of this number. False if it is none of this protocol.
    fn end_session(&self, id: u32) -> bool;

    /// Takes no commands any more and finishes those in flight, within [`DRAIN_MAX`](crate::limits::DRAIN_MAX) and
    /// [`FLUSH_MAX`](crate::limits::FLUSH_MAX). Returns the failures, for people.
    fn drain(&self) -> Work<Vec<String>>;
}

/// The protocols of a server.
pub(crate) struct Protocols {
    pub(crate) nvmf: Nvmf,
    pub(crate) iscsi: Iscsi,
}

impl Protocols {
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
