//! Facts about a machine: plain values, each with the reason if it is not known.
//!
//! **Owns** the types, which are also the format of `wirepool doctor --save`. **Called by** [`crate::capture`], which
//! fills them, and [`crate::checks`], which read them. **Invariants**: a field that is missing in a file is not known;
//! an empty list was read and is empty.

mod client;
mod disk;
mod machine;
mod net;
mod rdma;
mod server;
mod service;

pub use client::{IscsiSession, NfsMount, NvmeController, ScsiDisk};
pub use disk::{Disk, LbaFormat, Pcie, Smart};
pub use machine::{
    Cgroup, Clock, Conntrack, Cpu, CpuFrequency, IdleState, Kernel, Memory, NumaNode, Process,
};
pub use net::{Channels, Coalesce, Irq, Nic, NicCounters, Pause, Ring, Tcp};
pub use rdma::{
    DeviceNode, ETHERNET, Functions, Gid, INFINIBAND, Ipoib, PORT_ACTIVE, PortSummary, ROCE_V2,
    Rate, Rdma, RdmaPort,
};
pub use server::{
    CacheDevice, Expansion, FlushProbe, Member, PathProbe, Pool, Probes, Queue, ServedExport,
    Server, Session, Silence, Spare, SpecialUse, Times,
};
pub use service::{Service, Unit};

use serde::{Deserialize, Serialize};

/// Version of the format of saved facts.
pub const FORMAT: u32 = 1;

/// A value, or the reason why it is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// It is not known.
    Unknown {
        /// The reason, for the list of skipped checks.
        unknown: String,
    },
    /// It was read.
    Value(T),
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known::unknown("not in the facts")
    }
}

impl<T> Known<T> {
    /// A value that is not known for this reason.
    pub fn unknown(reason: impl Into<String>) -> Known<T> {
        Known::Unknown {
            unknown: reason.into(),
        }
    }

    /// The value, if it is known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Known::Value(value) => Some(value),
            Known::Unknown { .. } => None,
        }
    }

    /// The value in another form.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Known::Value(value) => Known::Value(form(value)),
            Known::Unknown { unknown } => Known::Unknown { unknown },
        }
    }
}

impl<T> From<T> for Known<T> {
    fn from(value: T) -> Known<T> {
        Known::Value(value)
    }
}

/// Everything that was read from one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// [`FORMAT`].
    pub format: u32,
    /// The kernel and its settings.
    pub kernel: Kernel,
    /// Processors.
    pub cpu: Cpu,
    /// Memory of the machine.
    pub memory: Memory,
    /// The clock.
    pub clock: Clock,
    /// TCP settings and counters.
    pub tcp: Tcp,
    /// Network interfaces with a device, and those stacked on them.
    pub nics: Known<Vec<Nic>>,
    /// Disks, local and remote.
    pub disks: Known<Vec<Disk>>,
    /// RDMA devices and interfaces.
    pub rdma: Rdma,
    /// The server as a service of the machine, whether it runs or not.
    pub service: Service,
    /// The server's process.
    pub process: Known<Process>,
    /// The running server, from its control API.
    pub server: Known<Server>,
    /// The server that does not answer, if there is one.
    pub silence: Known<Option<Silence>>,
    /// Measurements that were asked for.
    pub probes: Probes,
    /// NFS file systems that this machine mounts.
    pub nfs_mounts: Known<Vec<NfsMount>>,
    /// NVMe over Fabrics controllers that this machine is connected to.
    pub nvme_controllers: Known<Vec<NvmeController>>,
    /// Whether connections of NVMe over Fabrics are made again at boot: a discovery configuration exists.
    pub nvme_boot: Known<bool>,
    /// iSCSI sessions of this machine's initiator.
    pub iscsi_sessions: Known<Vec<IscsiSession>>,
}
