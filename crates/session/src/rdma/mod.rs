//! Connections over RDMA: the parts that NVMe/RDMA, iSER and NFS over RDMA have in common.
//!
//! | module | owns |
//! |---|---|
//! | [`carrier`] | the queue pair as a session's carrier, and probes of silent hosts |
//! | [`chain`] | work requests of one turn: messages, WRITEs, READs |
//! | [`arrived`] | events of the queue pair: messages, ended READs, the end |
//! | [`transmit`] | posts what became ready in a turn |
//!
//! **Owns** the order of work on one queue pair, and the number of READs that are posted. **Called by** the target of `nvmf`, the portal of
//! `iscsi` and the connections of `nfs`, which know the form of messages and the memory that their hosts name. **Invariants**: everything that became ready in a turn is posted
//! with one call; at most as many READs are posted as the host serves; a WRITE is posted before the message that tells the host of its data.

pub mod arrived;
pub mod carrier;
pub mod chain;
pub mod transmit;
