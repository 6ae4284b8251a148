//! Sizes and limits of queue pairs.
//!
//! **Called by** users of queue pairs and by both drivers.

/// The RNR retry count that stands for no limit (IBA 9.7.5.2.8).
pub const RNR_RETRIES_UNLIMITED: u8 = 7;

/// Sizes and limits of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairConfig {
    /// Receives that are posted: messages that the peer may have sent and this side has not dropped.
    pub receives: u16,
    /// Receives that the queue pair takes from a queue which it shares with the queue pairs of its device and thread, all with this number and
    /// with the same length. They take the place of `receives`, which then only bounds what the peer may have outstanding. 0 for none.
    pub shared_receives: u32,
    /// Bytes of each receive: the longest message of the peer.
    pub receive_len: u32,
    /// Work requests in the send queue of the device. More wait before it.
    pub sends: u16,
    /// READs that this side may have outstanding. The peer may allow fewer ([`RdmaInfo::reads_out`](super::RdmaInfo::reads_out)).
    pub reads_out: u8,
    /// READs that the peer may have outstanding.
    pub reads_in: u8,
    /// How often the peer sends a message again that found no receive; [`RNR_RETRIES_UNLIMITED`] for no limit.
    pub rnr_retries: u8,
}

impl Default for QueuePairConfig {
    fn default() -> Self {
        QueuePairConfig {
            receives: 32,
            shared_receives: 0,
            receive_len: 4096,
            sends: 256,
            reads_out: 16,
            reads_in: 16,
            rnr_retries: RNR_RETRIES_UNLIMITED,
        }
    }
}
