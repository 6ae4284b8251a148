//! Links between simulated nodes: delay, loss, bandwidth, cuts.

use crate::runtime::NodeId;
use crate::sim::core::Core;
use crate::sim::event::{Nanos, nanos};
use std::collections::BTreeMap;
use std::time::Duration;

/// Properties of one direction between two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// Shortest delay.
    pub delay: Duration,
    /// Largest random addition to the delay.
    pub jitter: Duration,
    /// Probability that a segment is lost and sent again, 0 to 1.
    pub loss: f64,
    /// Delay of a retransmission.
    pub retransmit_after: Duration,
    /// Bytes per second of one connection; `None` for no limit.
    pub bandwidth: Option<u64>,
    /// Whether all packets are lost without notice.
    pub cut: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            delay: Duration::from_micros(20),
            jitter: Duration::from_micros(100),
            loss: 0.0,
            retransmit_after: Duration::from_millis(200),
            bandwidth: None,
            cut: false,
        }
    }
}

impl LinkConfig {
    /// Returns the travel time of a segment of `len` bytes.
    pub(in crate::sim) fn travel(&self, core: &mut Core, len: usize) -> Nanos {
        let mut t = nanos(self.delay) + core.upto(nanos(self.jitter));
        if self.loss > 0.0 {
            let mut rto = nanos(self.retransmit_after);
            // At most six losses double the delay, so that a link with loss 1 is slow but not silent.
            for _ in 0..6 {
                if !core.rng.chance(self.loss) {
                    break;
                }
                t += rto;
                rto *= 2;
            }
        }
        if let Some(b) = self.bandwidth {
            t += (len as u64).saturating_mul(1_000_000_000) / b.max(1);
        }
        t
    }
}

/// All links; the default is [`crate::sim::SimConfig::link`].
#[derive(Default)]
pub(in crate::sim) struct Links {
    set: BTreeMap<(NodeId, NodeId), LinkConfig>,
}

impl Links {
    pub(in crate::sim) fn get(&self, core: &Core, from: NodeId, to: NodeId) -> LinkConfig {
        match self.set.get(&(from, to)) {
            Some(l) => *l,
            None if from == to => LinkConfig {
                delay: Duration::from_micros(2),
                jitter: Duration::from_micros(10),
                ..LinkConfig::default()
            },
            None => core.config.link,
        }
    }

    pub(in crate::sim) fn set(&mut self, from: NodeId, to: NodeId, link: LinkConfig) {
        self.set.insert((from, to), link);
    }

    /// Whether no packet gets from `from` to `to` now.
    pub(in crate::sim) fn blocked(&self, core: &Core, from: NodeId, to: NodeId) -> bool {
        core.is_off(to) || self.get(core, from, to).cut
    }
}
