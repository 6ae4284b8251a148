//! The probe of verbs between two Wirepools: latency and bandwidth of SEND, WRITE and READ.
//!
//! **Called by** `wirepool probe`, beside the probe of TCP. **Invariants**: those of [`super`]; the serving side gives access to two buffers of
//! [`wire::BLOCK`] bytes for one connection, and to nothing else.
//!
//! | module | owns |
//! |---|---|
//! | [`wire`] | the messages, without I/O |
//! | `serve` | the serving side of one connection |
//! | `run` | the measuring side |
//! | `text` | output |

mod run;
mod serve;
mod text;
pub mod wire;

pub(super) use run::run;
pub(super) use serve::serve;
pub(super) use text::render;

#[cfg(test)]
mod tests;

use super::link::{End, SILENCE_MAX};
use io::rdma::{QueuePair, QueuePairConfig, QueuePairEvent, Verb, WorkRequest};
use wire::BLOCK;

/// Receives of each side: messages that may be on the way.
const RECEIVES: u16 = 32;

/// Sizes of the queue pairs of both sides. The server's receives take blocks, the client's only short messages.
fn sizes(receive_len: u32) -> QueuePairConfig {
    QueuePairConfig {
        receives: RECEIVES,
        receive_len,
        ..QueuePairConfig::default()
    }
}

/// Sends a short message whose success needs no report.
fn send(queue_pair: &QueuePair, head: Vec<u8>) {
    let work = Verb::Send {
        head,
        data: None,
        invalidate: None,
    };
    queue_pair.post(&mut vec![WorkRequest { tag: None, work }]);
}

/// The next event. Errors: the connection ended, a request failed, or nothing happened for [`SILENCE_MAX`].
async fn event(queue_pair: &QueuePair) -> Result<QueuePairEvent, End> {
    match io::timeout(SILENCE_MAX, queue_pair.event()).await {
        Ok(QueuePairEvent::Ended(io::rdma::Ending::Peer)) => Err(End::Closed),
        Ok(QueuePairEvent::Ended(why)) => Err(End::Ended(why)),
        Ok(QueuePairEvent::Done {
            result: Err(why), ..
        }) => Err(End::Ended(io::rdma::Ending::Failed(why))),
        Ok(event) => Ok(event),
        Err(_) => Err(End::Silent),
    }
}

/// Length of the client's receives, for messages of `message` bytes.
fn client_receive_len(message: u32) -> u32 {
    message
        .max(wire::OFFER_LEN as u32)
        .max(super::wire::REPORT_LEN as u32)
        .min(BLOCK)
}
