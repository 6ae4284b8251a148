//! The state of RPC-over-RDMA on one connection: credits of both directions, work requests, calls that are being read.
//!
//! **Owns** the work chain, and the counts of outstanding calls and callbacks. **Called by** the core, and by the receiver and its parts.
//! **Invariants**: the credits of a reply are never 0; at most as many callbacks are outstanding as the client granted with its last reply, and one
//! before its first (RFC 8166, section 3.3.1; RFC 8167, section 4).

use super::pull::Pulls;
use crate::limits::{RDMA_CALLBACKS_MAX, RDMA_CREDITS, RDMA_INLINE_MAX};
use crate::rpc::rdma::chunks::Chunks;
use crate::rpc::rdma::private::Properties;
use crate::rpc::rdma::{Fault, HEADER_MIN, Kind, RdmaHeader};
use session::output::Output;
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;

/// The transport's state of one connection.
pub(in crate::connection) struct RdmaFraming {
    chain: WorkChain,
    /// Longest message that the client receives, bytes.
    pub(super) inline_max: usize,
    /// Whether messages may withdraw keys of the client.
    pub(super) invalidates: bool,
    /// Calls that have no reply yet.
    calls: usize,
    /// Calls of which parts are being read.
    pub(super) pulls: Pulls,
    /// Callbacks without a reply.
    callbacks: usize,
    /// Callbacks that the client takes at a time.
    callbacks_granted: usize,
}

impl RdmaFraming {
    /// The state of a connection that was just accepted.
    pub(super) fn new(carrier: &RdmaCarrier, client: Properties) -> RdmaFraming {
        RdmaFraming {
            chain: WorkChain::new(carrier),
            inline_max: client.receives.min(RDMA_INLINE_MAX) as usize,
            invalidates: client.invalidates,
            calls: 0,
            pulls: Pulls::default(),
            callbacks: 0,
            callbacks_granted: 1,
        }
    }

    /// The work that is not posted yet.
    pub(super) fn chain(&mut self) -> &mut WorkChain {
        &mut self.chain
    }

    /// The work that is not posted yet, and the calls that are being read.
    pub(super) fn chain_and_pulls(&mut self) -> (&mut WorkChain, &mut Pulls) {
        (&mut self.chain, &mut self.pulls)
    }

    /// Whether no call is being read.
    pub(in crate::connection) fn is_idle(&self) -> bool {
        self.pulls.is_empty()
    }

    /// A call arrived. Returns whether the client has a credit for it.
    pub(super) fn call_arrived(&mut self) -> bool {
        self.calls += 1;
        self.calls <= usize::from(RDMA_CREDITS)
    }

    /// A call got its reply, or will get none.
    pub(super) fn call_ended(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    /// Longest callback, bytes.
    pub(in crate::connection) fn call_max(&self) -> usize {
        self.inline_max - HEADER_MIN
    }

    /// Callbacks that may be sent now.
    pub(in crate::connection) fn calls_allowed(&self) -> usize {
        self.callbacks_granted.saturating_sub(self.callbacks)
    }

    /// Adds a callback, which is no longer than [`RdmaFraming::call_max`].
    pub(in crate::connection) fn put_call(&mut self, output: &mut Output, record: &[u8]) {
        self.callbacks += 1;
        let xid = record
            .first_chunk()
            .map_or(0, |xid| u32::from_be_bytes(*xid));
        let header = RdmaHeader {
            xid,
            credits: RDMA_CALLBACKS_MAX.into(),
            kind: Kind::Inline(Chunks::default()),
        };
        let message = [&header.encode()[..], record].concat();
        self.chain.send(output, message, None);
    }

    /// A reply to a callback arrived; the client takes `credits` callbacks at a time.
    pub(super) fn callback_ended(&mut self, credits: u32) {
        self.callbacks = self.callbacks.saturating_sub(1);
        let granted = credits.clamp(1, RDMA_CALLBACKS_MAX.into());
        self.callbacks_granted = granted as usize;
    }

    /// Adds an error of the transport, the answer to the message with number `xid`.
    pub(super) fn put_fault(&mut self, output: &mut Output, xid: u32, fault: Fault) {
        let header = RdmaHeader {
            xid,
            credits: RDMA_CREDITS.into(),
            kind: Kind::Error(fault),
        };
        self.chain.send(output, header.encode(), None);
    }
}
