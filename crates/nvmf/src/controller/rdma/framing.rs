//! Work requests of one connection: replies by SEND, data by WRITE before its reply, data of hosts by READ.
//!
//! **Owns** the work chain of the connection. **Called by** the exchange for everything that goes to the host, and by receiver and sender.
//! **Invariants**: a key that the host wants to be invalidated is invalidated by the reply to its command.

use super::accept::Offer;
use crate::controller::table::Transfer;
use crate::wire::command::Sgl;
use crate::wire::completion::Cqe;
use io::rdma::{Remote, RemoteKey};
use io::{IoBuf, Payload};
use session::output::Output;
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;
use zerocopy::IntoBytes;

/// The work of one connection.
pub(crate) struct Framing {
    /// The queue and the entries that the host asked for with its connection request.
    qid: u16,
    entries: u16,
    chain: WorkChain,
}

impl Framing {
    /// The framing of an accepted connection.
    pub(super) fn new(offer: &Offer, carrier: &RdmaCarrier) -> Framing {
        Framing {
            qid: offer.qid,
            entries: offer.entries,
            chain: WorkChain::new(carrier),
        }
    }

    /// The work that is not posted yet.
    pub(super) fn chain(&mut self) -> &mut WorkChain {
        &mut self.chain
    }

    /// Whether a Connect for queue `qid` with `sqsize` (0's based) is the one that the connection request announced.
    pub(crate) fn announced(&self, qid: u16, sqsize: u16) -> bool {
        qid == self.qid && sqsize < self.entries
    }

    /// Adds a reply to the command that named its data by `sgl`.
    #[inline]
    pub(crate) fn put_reply(&mut self, output: &mut Output, cqe: &Cqe, sgl: Sgl) {
        let invalidate = match sgl {
            Sgl::Keyed {
                key,
                invalidate: true,
                ..
            } => Some(RemoteKey(key)),
            _ => None,
        };
        self.chain.send(output, cqe.as_bytes().to_vec(), invalidate);
    }

    /// Adds all data of a command. The dispatcher has checked that the SGL names enough of the host's memory.
    #[inline]
    pub(crate) fn put_data(&mut self, output: &mut Output, sgl: Sgl, payload: Payload) {
        self.chain.write(output, payload, memory(sgl));
    }

    /// Reads the data of the command in `slot` into its buffer.
    pub(crate) fn read(&mut self, slot: usize, sgl: Sgl, transfer: &mut Transfer) {
        let Some((into, _)) = transfer.lend() else {
            return;
        };
        self.chain.read(slot, (into, 0), memory(sgl));
    }
}

/// The host's memory that an SGL names. An SGL without a key names none.
fn memory(sgl: Sgl) -> Remote {
    match sgl {
        Sgl::Keyed { address, key, .. } => Remote {
            address,
            key: RemoteKey(key),
        },
        _ => Remote::NOWHERE,
    }
}

/// The buffer of a READ as the transfer takes it back.
pub(super) fn whole(buf: IoBuf) -> (IoBuf, usize) {
    let len = buf.len();
    (buf, len)
}
