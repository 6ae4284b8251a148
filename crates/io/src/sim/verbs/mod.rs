//! RDMA between simulated nodes: a verbs device on each node.
//!
//! | module | owns |
//! |---|---|
//! | `message` | identifiers, messages of the connection manager, events |
//! | `queue_pair` | the state of one end of a connection |
//! | `shared` | receive queues that queue pairs share |
//! | `receives` | receives of queue pairs |
//! | `table` | all queue pairs, listeners, exposed memory, and their events |
//! | `cm` | messages of the connection manager |
//! | `transport` | requests from one end to the other |
//! | `handle` | listeners and queue pairs, as [`crate::rdma`] uses them |
//! | [`control`] | devices that are removed, queue pairs that fail |
//!
//! **Owns** simulated queue pairs. **Invariants**: requests of one queue pair arrive once and in order, or the queue pair fails; queue
//! pairs do not wait for each other, so their messages arrive in any order; a message that finds no receive is sent again (RNR) as often as
//! the receiver granted; memory of a request is held until its end, which comes up to 50 µs after a failure.
//! Messages of the connection manager travel beside the data.

mod cm;
pub mod control;
mod handle;
mod message;
mod queue_pair;
mod receives;
mod shared;
mod table;
mod transport;

pub(crate) use handle::{SimulatedEndpoint, SimulatedVerbsListener};
pub(in crate::sim) use message::VerbsEvent;
pub(in crate::sim) use table::Verbs;
