//! Judgement of connection requests (RDMA, "Connection Establishment").
//!
//! **Called by** the connection's task before anything is allocated. **Invariants**: the sizes of an accepted request are within the limits of
//! its queue, so that a host decides no allocation.

use crate::controller::config::{TargetConfig, Transport};
use crate::controller::limits::{ADMIN_DEPTH_MAX, RDMA_READS_MAX};
use crate::wire::command::SQE_LEN;
use crate::wire::rdma::{CmRequest, RejectStatus};
use io::rdma::{Incoming, QueuePairConfig};

/// The sizes of a connection that is to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    /// The queue that the connection is to become.
    pub(super) qid: u16,
    /// Entries of its submission queue.
    pub(super) entries: u16,
    /// Most in-capsule data, bytes.
    in_capsule: u32,
    /// Receives that it shares with other connections; 0 if it has its own.
    shared_receives: u32,
}

impl Offer {
    /// Judges a connection request. Errors: the status that it is to be rejected with.
    pub(super) fn judge(config: &TargetConfig, incoming: &Incoming) -> Result<Offer, RejectStatus> {
        let request = CmRequest::parse(incoming.private_data())?;
        let offer = Offer::of_request(config, &request)?;
        // Without READs, no command of the host could bring more than in-capsule data.
        match incoming.reads_allowed() {
            0 => Err(RejectStatus::InvalidIrd),
            _ => Ok(offer),
        }
    }

    fn of_request(config: &TargetConfig, request: &CmRequest) -> Result<Offer, RejectStatus> {
        let qid = request.qid.get();
        if qid > config.io_queues_max {
            return Err(RejectStatus::InvalidQid);
        }
        let most = match qid {
            0 => ADMIN_DEPTH_MAX,
            _ => config.queue_depth(Transport::Rdma),
        };
        // HSQSIZE is 0's based, and a queue has at least two entries.
        let hsqsize = request.hsqsize.get();
        if hsqsize == 0 || hsqsize >= most {
            return Err(RejectStatus::InvalidHsqsize);
        }
        if request.hrqsize.get() == 0 {
            return Err(RejectStatus::InvalidHrqsize);
        }
        Ok(Offer {
            qid,
            entries: hsqsize + 1,
            in_capsule: config.in_capsule(Transport::Rdma),
            shared_receives: config.rdma_shared_receives,
        })
    }

    /// The queue pair for it: a receive for each entry or shared ones, room for a READ, or a WRITE and a SEND, for each command.
    pub(super) fn queue_pair(&self) -> QueuePairConfig {
        QueuePairConfig {
            receives: self.entries,
            shared_receives: self.shared_receives,
            receive_len: SQE_LEN as u32 + self.in_capsule,
            sends: 3 * self.entries,
            reads_out: RDMA_READS_MAX,
            // A host has no memory of ours to read.
            reads_in: 0,
            ..QueuePairConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::little_endian::U16;

    #[test]
    fn sizes_are_judged_by_the_queue() {
        let config = TargetConfig {
            io_queues_max: 4,
            queue_depth_max: 64,
            ..TargetConfig::default()
        };
        let judge = |qid, entries| {
            let offer = Offer::of_request(&config, &CmRequest::new(qid, entries, 0));
            offer.map(|o| o.entries)
        };
        assert_eq!(judge(0, 32), Ok(32));
        assert_eq!(judge(0, ADMIN_DEPTH_MAX), Ok(ADMIN_DEPTH_MAX));
        assert_eq!(judge(4, 64), Ok(64));
        assert_eq!(judge(5, 64), Err(RejectStatus::InvalidQid));
        assert_eq!(judge(1, 65), Err(RejectStatus::InvalidHsqsize));
        assert_eq!(judge(1, 1), Err(RejectStatus::InvalidHsqsize));
        let admin = judge(0, ADMIN_DEPTH_MAX + 1);
        assert_eq!(admin, Err(RejectStatus::InvalidHsqsize));
        let mut none = CmRequest::new(1, 32, 0);
        none.hrqsize = U16::new(0);
        let none = Offer::of_request(&config, &none);
        assert_eq!(none, Err(RejectStatus::InvalidHrqsize));
    }
}
