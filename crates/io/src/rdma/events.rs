//! Events of devices that no completion reports.
//!
//! **Called by** both drivers, which count them, and by metrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// An asynchronous event of a device (IBA 11.6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceEvent {
    /// The device has failed. All queue pairs end.
    DeviceFatal,
    /// A port lost its link. Requests that are not answered in time end their queue pairs.
    PortError,
    /// A port has its link again.
    PortActive,
    /// A completion queue was overrun, or has failed. Its queue pair ends.
    CompletionQueueError,
    /// A queue pair has failed.
    QueuePairFatal,
    /// The peer sent a request that cannot be carried out.
    QueuePairAccess,
    /// The other path of a queue pair has failed too.
    PathMigration,
    /// A queue pair that has failed uses no receive of its shared receive queue any longer.
    LastWorkReached,
    /// A shared receive queue has few receives left.
    SharedReceivesLow,
    /// A shared receive queue has failed. Its queue pairs end.
    SharedReceivesError,
}

impl DeviceEvent {
    /// All of them.
    pub const ALL: [DeviceEvent; 10] = [
        DeviceEvent::DeviceFatal,
        DeviceEvent::PortError,
        DeviceEvent::PortActive,
        DeviceEvent::CompletionQueueError,
        DeviceEvent::QueuePairFatal,
        DeviceEvent::QueuePairAccess,
        DeviceEvent::PathMigration,
        DeviceEvent::LastWorkReached,
        DeviceEvent::SharedReceivesLow,
        DeviceEvent::SharedReceivesError,
    ];

    /// Whether it is about a port.
    #[must_use]
    pub fn has_port(self) -> bool {
        matches!(self, DeviceEvent::PortError | DeviceEvent::PortActive)
    }
}

impl fmt::Display for DeviceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceEvent::DeviceFatal => "the device has failed",
            DeviceEvent::PortError => "a port lost its link",
            DeviceEvent::PortActive => "a port has its link again",
            DeviceEvent::CompletionQueueError => "a completion queue has failed",
            DeviceEvent::QueuePairFatal => "a queue pair has failed",
            DeviceEvent::QueuePairAccess => "a peer sent a request that cannot be carried out",
            DeviceEvent::PathMigration => "the other path of a queue pair has failed",
            DeviceEvent::LastWorkReached => "a failed queue pair has used its last receive",
            DeviceEvent::SharedReceivesLow => {
                "a shared receive queue has few receives left (raise [nvmf] rdma_shared_receives if it is often)"
            }
            DeviceEvent::SharedReceivesError => "a shared receive queue has failed",
        })
    }
}

static COUNTS: [AtomicU64; DeviceEvent::ALL.len()] =
    [const { AtomicU64::new(0) }; DeviceEvent::ALL.len()];

/// Counts an event.
pub(crate) fn count_device_event(event: DeviceEvent) {
    COUNTS[event as usize].fetch_add(1, Ordering::Relaxed);
}

/// Events of all devices of this process since it began.
#[must_use]
pub fn device_events() -> Vec<(DeviceEvent, u64)> {
    let count = |event: DeviceEvent| COUNTS[event as usize].load(Ordering::Relaxed);
    DeviceEvent::ALL.map(|event| (event, count(event))).into()
}
