//! Why connections are not made, requests fail, and queue pairs end.
//!
//! **Called by** users of queue pairs and by both drivers.

use super::events::DeviceEvent;
use crate::Error;
use thiserror::Error as ThisError;

/// Why a connection was not made.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum ConnectError {
    /// The peer refused it; has the peer's private data, which may be empty.
    #[error("the peer refused the connection")]
    Rejected(Vec<u8>),
    /// No device, no route, no answer in time, or no resources.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Why a work request failed (IBA 11.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ThisError)]
pub enum WorkError {
    /// The queue pair had failed or was disconnected before the request was carried out.
    #[error("flushed")]
    Flushed,
    /// The key does not give access to this memory, or the range is not all within it.
    #[error("remote access error")]
    RemoteAccess,
    /// The peer's receive was too short for the message, or the peer could not carry the request out.
    #[error("remote invalid request")]
    RemoteInvalid,
    /// The peer did not answer.
    #[error("transport retries exceeded")]
    RetriesExceeded,
    /// The peer had no receive posted for too long.
    #[error("receiver not ready for too long")]
    RnrExceeded,
    /// The memory of the request cannot be registered: the process may lock too little.
    #[error("memory cannot be registered")]
    LocalMemory,
    /// The key to withdraw does not exist.
    #[error("no such key")]
    LocalKey,
}

/// Why a queue pair ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ThisError)]
pub enum Ending {
    /// The peer disconnected.
    #[error("the peer disconnected")]
    Peer,
    /// This side disconnected.
    #[error("disconnected")]
    Here,
    /// A request of this side failed.
    #[error("a request failed: {0}")]
    Failed(WorkError),
    /// The peer sent a request that cannot be carried out: a wrong key, a range outside, or a message that is too long.
    #[error("the peer sent a request that cannot be carried out")]
    BadRequest,
    /// The device was removed.
    #[error("the device was removed")]
    DeviceRemoved,
    /// The device reported a failure that no completion reports.
    #[error("the RDMA device reported: {0}")]
    Device(DeviceEvent),
}

impl Ending {
    /// The end of a queue pair by an event of its device; `None` if the event ends no queue pair.
    pub(crate) fn of_event(event: DeviceEvent) -> Option<Ending> {
        match event {
            DeviceEvent::PortError | DeviceEvent::PortActive | DeviceEvent::LastWorkReached => None,
            // The peer's request ended it, as a completion of a receive would tell.
            DeviceEvent::QueuePairAccess => Some(Ending::BadRequest),
            other => Some(Ending::Device(other)),
        }
    }

    /// The end of a queue pair by the failures that are known of it, `None` if there is none. The most exact one is the reason: first the
    /// status of a request, then the event of the device. A flush, of a request or of a receive, is the consequence of an error and not its
    /// reason, so it decides only if nothing else is known.
    pub(crate) fn of_failures(
        request: Option<WorkError>,
        event: Option<DeviceEvent>,
        has_lost_receives: bool,
    ) -> Option<Ending> {
        let exact = request.filter(|why| *why != WorkError::Flushed);
        exact
            .map(Ending::Failed)
            .or_else(|| event.and_then(Ending::of_event))
            .or_else(|| request.map(Ending::Failed))
            .or_else(|| has_lost_receives.then_some(Ending::BadRequest))
    }
}

/// Why programs of this machine cannot use RDMA.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum NoRdma {
    /// A library of rdma-core cannot be loaded; has the loader's message.
    #[error(
        "rdma-core is not installed ({0}): install libibverbs1, librdmacm1 and ibverbs-providers (Debian, Ubuntu), or libibverbs and \
         librdmacm (others)"
    )]
    NoLibrary(String),
    /// The installed rdma-core lacks a function.
    #[error("rdma-core is too old: it has no function {0}; install version 15 or later")]
    OldLibrary(&'static str),
    /// The machine has no RDMA device.
    #[error(
        "this machine has no RDMA device: /sys/class/infiniband is empty (load the driver of the card, such as modprobe mlx5_ib)"
    )]
    NoDevice,
    /// The kernel's connection manager is not loaded.
    #[error("the kernel has no /dev/infiniband/rdma_cm: modprobe rdma_ucm")]
    NoModule,
    /// This process may not use the connection manager.
    #[error(
        "this process may not open /dev/infiniband/rdma_cm: check the mode of the file (0666 by the rules of rdma-core), and DeviceAllow of a systemd unit"
    )]
    Denied,
    /// Another reason.
    #[error("the connection manager for RDMA cannot be used: {0}")]
    Other(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_failure_is_the_reason() {
        let fatal = Some(DeviceEvent::DeviceFatal);
        let of = Ending::of_failures;
        let access = Some(Ending::Failed(WorkError::RemoteAccess));
        assert_eq!(of(Some(WorkError::RemoteAccess), fatal, true), access);
        let device = Some(Ending::Device(DeviceEvent::DeviceFatal));
        assert_eq!(of(Some(WorkError::Flushed), fatal, true), device);
        assert_eq!(of(None, fatal, true), device);
        let flushed = Some(Ending::Failed(WorkError::Flushed));
        assert_eq!(of(Some(WorkError::Flushed), None, true), flushed);
        let port = Some(DeviceEvent::PortError);
        assert_eq!(of(None, port, true), Some(Ending::BadRequest));
        let access = Some(DeviceEvent::QueuePairAccess);
        assert_eq!(of(None, access, false), Some(Ending::BadRequest));
        assert_eq!(of(None, Some(DeviceEvent::LastWorkReached), false), None);
        assert_eq!(of(None, None, false), None);
    }
}
