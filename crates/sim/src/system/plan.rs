//! Parameters that a seed chooses for a whole system: the disk, the clients, and the faults.

use super::client::Wants;
use super::pooled::{CHURN_PAUSE_MAX, DISK_SIZE, PoolPlan};
use crate::classes::Classes;
use crate::workload::{Expected, Profile};
use io::disk::DiskKind;
use io::rng::Prng;
use io::sim::{DiskConfig, LinkConfig};
use nfs::service::NfsTransport;
use pool::DurableWrites;
use pool::vdev::Layout;
use std::time::Duration;

/// A fault, or a change of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    Partition {
        client: usize,
        lasts: Duration,
    },
    Reset {
        client: usize,
    },
    ClientPowerCut {
        client: usize,
        lasts: Duration,
    },
    ServerPowerCut {
        steps: u64,
        lasts: Duration,
    },
    ServerKill {
        lasts: Duration,
    },
    Stall {
        by: Duration,
    },
    Errors {
        lasts: Duration,
    },
    Full {
        lasts: Duration,
    },
    FullBelow(FullBelow),
    /// `count` members of the pool's raidz fail. The parity is the largest count.
    Members {
        count: usize,
        lasts: Duration,
    },
    Grow,
    Bounce {
        lasts: Duration,
    },
}

/// The file system below a pool's disk is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullBelow {
    /// Duration; three times as long if the power is cut.
    pub(super) lasts: Duration,
    /// Whether the power is cut meanwhile and the pool opened before there is space again.
    pub(super) power_goes: bool,
}

/// Parameters of one client.
#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) link: LinkConfig,
    pub(super) wants: Wants,
    pub(super) jobs: u64,
    pub(super) profile: Profile,
}

/// See the module header.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) disk: DiskConfig,
    /// Block size in bytes, and number of served blocks.
    pub(super) block_size: u32,
    pub(super) blocks: u64,
    /// If set, the disk has a pool whose volume is served.
    pub(super) pool: Option<PoolPlan>,
    pub(super) shards: usize,
    pub(super) clients: Vec<ClientPlan>,
    /// The faults, each with the pause before it.
    pub(super) troubles: Vec<(Duration, Trouble)>,
    pub(super) in_capsule: u32,
    /// Whether clients of a file lock the bytes that they write.
    pub(super) locks: bool,
}

/// Shortest pause between two requests for a checkpoint, where clients wait for leases.
const CHECKPOINTS_MIN: Duration = Duration::from_millis(5);
/// Time in which clients of a file mostly connect and end their requests, µs.
const WORK_USUAL_MICROS: u64 = 600_000;
/// Most further power cuts of the server while vdevs of other classes leave and return.
const CHURN_CUTS_MAX: u64 = 3;
/// Time limit of a request of a client without a fault.
const HEALTHY_MAX: Duration = Duration::from_secs(2);

fn micros(rng: &mut Prng, most: u64) -> Duration {
    Duration::from_micros(rng.below(most))
}

impl Plan {
    pub(super) fn new(rng: &mut Prng) -> Plan {
        let block: u32 = if rng.chance(0.5) { 512 } else { 4096 };
        let blocks = 32 + rng.below(200);
        let clients = 1 + rng.below(4) as usize;
        // In every other run only clients have faults. The other clients must not notice them.
        let clients_only = rng.chance(0.4);
        let troubles: Vec<(Duration, Trouble)> = (0..rng.below(6))
            .map(|_| {
                let longest = 1 << (8 + rng.below(14));
                (micros(rng, longest), trouble(rng, clients, clients_only))
            })
            .collect();
        let expected = expected(&troubles);
        let mut plan = Plan {
            disk: DiskConfig {
                size: blocks * u64::from(block),
                logical_block: block,
                atomic_unit: block,
                volatile_cache: rng.chance(0.9),
                ..DiskConfig::default()
            },
            block_size: block,
            blocks,
            pool: None,
            shards: 1,
            clients: Vec::new(),
            troubles,
            in_capsule: [0, 4096, 8192][rng.below(3) as usize],
            locks: false,
        };
        for i in 0..clients {
            let client = plan.client(rng, i, blocks, expected);
            plan.clients.push(client);
        }
        plan
    }

    /// Gives the server several shards and, in every other run, a pool.
    pub(super) fn spread(&mut self, rng: &mut Prng) {
        self.shards = 2 + rng.below(3) as usize;
        if rng.chance(0.5) {
            return;
        }
        self.use_pool(rng);
    }

    /// Makes clients use a file of a pool's filesystem, over TCP with several shards in every other run. In every other run all of them
    /// lock what they write.
    pub(super) fn export(&mut self, rng: &mut Prng, transport: NfsTransport) {
        if transport == NfsTransport::Tcp && rng.chance(0.5) {
            self.shards = 2 + rng.below(3) as usize;
        }
        self.locks = rng.chance(0.5);
        for client in &mut self.clients {
            client.profile.zeroes = false;
            client.profile.fused_max = u64::from(self.locks);
            if self.locks {
                // It waits for locks of other clients, which may be gone.
                client.profile.latency_max = None;
            }
        }
        if rng.chance(0.4) {
            self.cut_power_early(rng);
        }
        self.use_pool(rng);
        if let Some(pool) = &mut self.pool {
            // Leases are long: frequent checkpoints would take most of the run.
            pool.checkpoints = pool.checkpoints.max(CHECKPOINTS_MIN);
        }
    }

    /// Cuts the server's power while the clients work, before all other troubles.
    fn cut_power_early(&mut self, rng: &mut Prng) {
        let trouble = Trouble::ServerPowerCut {
            steps: rng.below(100),
            lasts: Duration::from_millis(rng.below(3000)),
        };
        self.troubles
            .insert(0, (micros(rng, WORK_USUAL_MICROS), trouble));
        let profiles = self.clients.iter_mut().map(|client| &mut client.profile);
        for profile in profiles {
            profile.latency_max = None;
            profile.expected.gone = true;
        }
    }

    /// Gives the server a pool, on which the whole disk does not fail. The disk is then a file, on a file system that may be full.
    fn use_pool(&mut self, rng: &mut Prng) {
        let is_for_pools = |t: &Trouble| !matches!(t, Trouble::Errors { .. } | Trouble::Grow);
        self.troubles.retain(|(_, trouble)| is_for_pools(trouble));
        let record_size = 4096 << rng.below(4);
        let volume_size = self.blocks * u64::from(self.block_size);
        let volume_size = volume_size.next_multiple_of(u64::from(record_size));
        self.blocks = volume_size / u64::from(self.block_size);
        self.disk.size = DISK_SIZE;
        self.disk.kind = DiskKind::File;
        self.pool = Some(PoolPlan {
            disks: 1,
            layout: Layout::Mirror,
            volume_size,
            block_size: self.block_size,
            record_size,
            durable_writes: match rng.chance(0.5) {
                true => DurableWrites::Journal,
                false => DurableWrites::Measured,
            },
            // chosen by a generator of its own
            classes: Classes::default(),
            members_fail: false,
            checkpoints: Duration::from_micros(200 << rng.below(14)),
        });
        for (_, trouble) in &mut self.troubles {
            if let Trouble::Full { lasts } = *trouble {
                let power_goes = rng.chance(0.7);
                *trouble = Trouble::FullBelow(FullBelow { lasts, power_goes });
                let profiles = self.clients.iter_mut().map(|client| &mut client.profile);
                profiles.for_each(|profile| profile.expected.gone |= power_goes);
            }
        }
    }

    /// Gives the pool, if there is one, vdevs of other classes and a cache device. Where they change, the server's power goes in most runs while
    /// they do.
    pub(super) fn choose_classes(&mut self, seed: u64) {
        let Some(pool) = &mut self.pool else {
            return;
        };
        pool.classes = Classes::draw(seed).with_pauses(CHURN_PAUSE_MAX);
        if !pool.classes.has_churn() {
            return;
        }
        let mut rng = Prng::new(seed ^ 0xc1a5_0c07);
        for _ in 0..rng.below(CHURN_CUTS_MAX + 1) {
            self.cut_power_early(&mut rng);
        }
    }

    /// Makes the pool, if there is one, a raidz. In most runs some of its members fail for a while, which no client may notice.
    pub(super) fn stripe(&mut self, rng: &mut Prng) {
        let Some(pool) = &mut self.pool else {
            return;
        };
        pool.stripe(rng);
        let most = pool.failing_max() as u64;
        let failures = rng.below(3);
        pool.members_fail = failures > 0;
        for _ in 0..failures {
            let trouble = Trouble::Members {
                count: 1 + rng.below(most) as usize,
                lasts: Duration::from_millis(rng.below(3000)),
            };
            let at = rng.below(self.troubles.len() as u64 + 1) as usize;
            let longest = 1 << (8 + rng.below(12));
            let after = micros(rng, longest);
            self.troubles.insert(at, (after, trouble));
        }
    }

    fn client(&self, rng: &mut Prng, i: usize, blocks: u64, expected: Expected) -> ClientPlan {
        let healthy = self
            .troubles
            .iter()
            .all(|(_, t)| t.client().is_some_and(|c| c != i));
        let link = LinkConfig {
            delay: micros(rng, 300),
            jitter: micros(rng, 500),
            loss: if rng.chance(0.2) { 0.002 } else { 0.0 },
            ..LinkConfig::default()
        };
        let wants = Wants {
            queues: 1 + rng.below(4) as u16,
            depth: 2 + rng.below(32) as u16,
            header_digest: rng.chance(0.3),
            data_digest: rng.chance(0.3),
            max_r2t: 1 + rng.below(4) as u32,
        };
        let hot = blocks / (1 + rng.below(6));
        let profile = Profile {
            requests: 5 + rng.below(60) as u32,
            blocks_max: 1 + rng.below(100),
            hot: 0..hot.max(1),
            pause: micros(rng, 20_000),
            fused_max: 1,
            zeroes: true,
            whole: false,
            reserves_space: false,
            latency_max: (healthy && link.loss == 0.0).then_some(HEALTHY_MAX),
            expected: if healthy {
                Expected::default()
            } else {
                expected
            },
        };
        ClientPlan {
            link,
            wants,
            jobs: 1 + rng.below(5),
            profile,
        }
    }
}

impl Trouble {
    /// The client that a fault concerns, if it is one client.
    fn client(self) -> Option<usize> {
        match self {
            Trouble::Partition { client, .. } | Trouble::Reset { client } => Some(client),
            Trouble::ClientPowerCut { client, .. } => Some(client),
            _ => None,
        }
    }
}

fn trouble(rng: &mut Prng, clients: usize, clients_only: bool) -> Trouble {
    let client = rng.below(clients as u64) as usize;
    let short = Duration::from_millis(rng.below(3000));
    let long = Duration::from_millis(rng.below(40_000));
    match rng.below(if clients_only { 4 } else { 11 }) {
        0 => Trouble::Partition {
            client,
            lasts: short,
        },
        1 => Trouble::Partition {
            client,
            lasts: long,
        },
        2 => Trouble::Reset { client },
        3 => Trouble::ClientPowerCut {
            client,
            lasts: short,
        },
        4 | 5 => Trouble::ServerPowerCut {
            steps: rng.below(100),
            lasts: short,
        },
        6 => Trouble::ServerKill { lasts: short },
        7 => Trouble::Stall {
            by: Duration::from_secs(30 + rng.below(40)),
        },
        8 => Trouble::Errors { lasts: short },
        9 => Trouble::Full { lasts: short },
        _ if rng.chance(0.5) => Trouble::Grow,
        _ => Trouble::Bounce { lasts: short },
    }
}

/// The failures that these faults explain.
fn expected(troubles: &[(Duration, Trouble)]) -> Expected {
    let mut e = Expected::default();
    for (_, t) in troubles {
        match t {
            Trouble::Errors { .. } => e.media = true,
            Trouble::Full { .. } | Trouble::FullBelow(_) => e.no_space = true,
            Trouble::Partition { .. }
            | Trouble::Reset { .. }
            | Trouble::ClientPowerCut { .. }
            | Trouble::ServerPowerCut { .. }
            | Trouble::ServerKill { .. }
            | Trouble::Stall { .. }
            | Trouble::Bounce { .. } => e.gone = true,
            Trouble::Grow | Trouble::Members { .. } => {}
        }
    }
    e
}
