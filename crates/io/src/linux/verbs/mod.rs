//! RDMA on Linux: queue pairs through rdma-core.
//!
//! | module | owns |
//! |---|---|
//! | `abi` | structures and constants of rdma-core |
//! | `library` | its functions, loaded at run time |
//! | `device` | protection domains, registered memory |
//! | `channel` | descriptors of events and completions |
//! | `queue` | one queue pair with its completion queue |
//! | `request` | requests in the form of the device, and their memory |
//! | `shared` | receive queues that queue pairs share |
//! | `slot` | messages in their receives |
//! | `events` | asynchronous events of devices |
//! | `endpoint` | one end of a connection |
//! | `listener` | listeners |
//! | `support` | the reasons why there is no RDMA |
//!
//! **Owns** the objects of libibverbs and librdmacm. **Called by** [`crate::rdma`]. **Invariants**: completions are taken, then announcements are
//! armed, then completions are taken again, so that none is missed; a destroy, which may block, runs on a helper thread; memory of a request is
//! freed after its completion, or after its queue pair was destroyed.

mod abi;
mod channel;
mod device;
mod endpoint;
mod events;
mod library;
mod listener;
mod queue;
mod request;
mod shared;
mod slot;
mod support;

pub(crate) use device::{RdmaDevice, RegisteredSlab, locked_memory};
pub(crate) use endpoint::{LinuxEndpoint, LinuxRequest};
pub(crate) use listener::LinuxVerbsListener;
pub(crate) use slot::ReceiveSlot;
pub(crate) use support::support as verbs_support;
