//! One end of a simulated connection: its buffers, window and state.

use crate::runtime::NodeId;
use crate::sim::SocketId;
use crate::sim::core::Core;
use crate::sim::event::Nanos;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Bytes that a sender buffers beyond the receiver's window.
const SEND_BUFFER: usize = 128 << 10;
/// Time after which a connection with unacknowledged data fails (tcp_retries2 = 15).
const RETRANSMIT_TIMEOUT: Nanos = 924_000_000_000;
/// Sizes of a receive window, bytes. The seed chooses one for each direction of a connection.
const WINDOWS: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Largest segment (with segmentation offload), bytes.
const SEGMENT_MAX: usize = 64 << 10;

/// A packet between two ends.
#[derive(Debug)]
pub(super) enum Packet {
    Syn,
    SynAck,
    Data(Vec<u8>),
    /// The receiver consumed this many bytes: the window opens.
    Window(usize),
    Fin,
    Rst,
}

/// State of the sending direction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// The application may send more.
    None,
    /// The end follows the bytes that wait to be sent.
    Queued,
    Sent,
}

/// A send that waits for room in the outbox.
pub(super) struct PendingSend {
    pub(super) key: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) taken: usize,
}

/// One end of a connection.
pub(super) struct Stream {
    pub(super) node: NodeId,
    pub(super) local: SocketAddr,
    pub(super) remote_node: NodeId,
    pub(super) remote: SocketAddr,
    /// The other end; `None` before the handshake.
    pub(super) peer: Option<SocketId>,
    pub(super) connecting: Option<usize>,
    pub(super) give_up_after: Nanos,
    /// Time of silence after which the peer is probed.
    pub(super) keep_alive: Option<Nanos>,
    pub(super) abort_on_close: bool,
    pub(super) retransmits: u32,
    /// Whether the packet at the front of the wire could not arrive.
    pub(super) stuck: bool,
    /// Grows with each progress, so that outdated timers are recognised.
    pub(super) epoch: u64,
    pub(super) wire: VecDeque<(Nanos, Packet)>,
    pub(super) last_arrival: Nanos,
    pub(super) inbox: VecDeque<u8>,
    pub(super) window: usize,
    pub(super) taken: usize,
    pub(super) eof: bool,
    /// Set if the connection failed: the errno that the application has not seen yet, or 0.
    pub(super) error: Option<i32>,
    pub(super) receiving: Option<usize>,
    pub(super) outbox: VecDeque<u8>,
    pub(super) credit: usize,
    pub(super) fin: Fin,
    pub(super) sending: Option<PendingSend>,
    /// Whether the application shut it down.
    pub(super) shut: bool,
    /// Whether the application dropped its last handle.
    pub(super) closed: bool,
}

impl Stream {
    pub(super) fn new(
        core: &mut Core,
        node: NodeId,
        local: SocketAddr,
        other: NodeId,
        remote: SocketAddr,
    ) -> Stream {
        let window = WINDOWS[core.rng.below(WINDOWS.len() as u64) as usize];
        Stream {
            node,
            local,
            remote_node: other,
            remote,
            peer: None,
            connecting: None,
            give_up_after: RETRANSMIT_TIMEOUT,
            keep_alive: None,
            abort_on_close: false,
            retransmits: 0,
            stuck: false,
            epoch: core.serial(),
            wire: VecDeque::new(),
            last_arrival: 0,
            inbox: VecDeque::new(),
            window,
            taken: 0,
            eof: false,
            error: None,
            receiving: None,
            outbox: VecDeque::new(),
            credit: 0,
            fin: Fin::None,
            sending: None,
            shut: false,
            closed: false,
        }
    }

    /// Withdraws operation `key` from the stream.
    pub(super) fn forget(&mut self, key: usize) {
        if self.connecting == Some(key) {
            self.connecting = None;
        }
        if self.receiving == Some(key) {
            self.receiving = None;
        }
        if self.sending.as_ref().is_some_and(|s| s.key == key) {
            self.sending = None;
        }
    }

    /// The operations that wait for this stream.
    pub(super) fn waiters(&self) -> impl Iterator<Item = usize> {
        let sending = self.sending.as_ref().map(|s| s.key);
        [self.connecting, self.receiving, sending]
            .into_iter()
            .flatten()
    }

    /// Moves bytes of the waiting send to the outbox. Returns whether any moved.
    pub(super) fn refill(&mut self, core: &mut Core) -> bool {
        let Some(p) = &mut self.sending else {
            return false;
        };
        let n = (SEND_BUFFER - self.outbox.len()).min(p.bytes.len() - p.taken);
        self.outbox.extend(&p.bytes[p.taken..p.taken + n]);
        p.taken += n;
        // A kernel may return early from a send that had to wait.
        let short = p.taken > 0 && core.rng.chance(0.1);
        if p.taken == p.bytes.len() || short {
            let taken = i32::try_from(p.taken).expect("a batch is smaller than 2 GiB");
            core.complete(p.key, taken);
            self.sending = None;
        }
        n > 0
    }

    /// Size of the next segment, chosen by the seed.
    pub(super) fn next_segment(&self, core: &mut Core) -> usize {
        let most = self.outbox.len().min(self.credit).min(SEGMENT_MAX);
        match core.rng.below(16) {
            0 => most.min(1 + core.upto(63) as usize),
            1..=5 => 1 + core.upto(most as u64 - 1) as usize,
            _ => most,
        }
    }
}
