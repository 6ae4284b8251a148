//! The serving side of one connection over RDMA.
//!
//! **Invariants**: a connection lasts at most for the time of its request times the number of parts, and some seconds; its memory is
//! [`RECEIVES`](super::RECEIVES) receives and two buffers of [`BLOCK`] bytes.

use super::super::link::{End, SILENCE_MAX};
use super::super::serve::Meter;
use super::super::wire::{Mode, REQUEST_LEN, Refusal, Reply, Report, Request};
use super::wire::{BLOCK, BufferOffer, Kind};
use super::{event, send, sizes};
use io::Payload;
use io::rdma::{Incoming, Memory, QueuePair, QueuePairEvent};
use std::sync::Arc;
use std::time::Duration;

/// Parts of a measurement: latency and bandwidth of three operations.
const PARTS: u32 = 6;

/// Serves one connection request. Returns a line about it.
pub(in crate::probe::network) async fn serve(mut incoming: Incoming, has_place: bool) -> String {
    let peer = incoming.peer_addr();
    let private = incoming.private_data();
    let request = match private.first_chunk::<REQUEST_LEN>() {
        _ if !has_place => Err(Refusal::Busy),
        Some(bytes) => Request::decode(bytes).and_then(|r| match r.mode {
            Mode::Verbs => Ok(r),
            _ => Err(Refusal::Unknown),
        }),
        None => Err(Refusal::NotAProbe),
    };
    let request = match request {
        Ok(request) => request,
        Err(refusal) => {
            incoming.reject(&Reply(Err(refusal)).encode());
            return format!("{peer} over RDMA: refused: {refusal}");
        }
    };
    let queue_pair = match incoming.accept(sizes(BLOCK), &Reply(Ok(())).encode()).await {
        Ok(queue_pair) => queue_pair,
        Err(e) => return format!("{peer} over RDMA: {e}"),
    };
    let time = Duration::from_millis(request.millis.into());
    let limit = time * PARTS + 2 * SILENCE_MAX;
    match io::timeout(limit, answer(&queue_pair, time)).await {
        Ok(Ok(bytes)) => format!("{peer} over RDMA: {bytes} bytes in messages"),
        Ok(Err(end)) => format!("{peer} over RDMA: {end}"),
        Err(_) => format!("{peer} over RDMA: longer than its time"),
    }
}

/// Answers messages until the client disconnects. Returns the bytes in its messages of data.
async fn answer(queue_pair: &QueuePair, time: Duration) -> Result<u64, End> {
    let writable = io::pool().alloc(BLOCK as usize).await;
    let readable = super::super::link::data(BLOCK).await;
    let expose = |memory| queue_pair.expose(memory).map_err(|_| End::Closed);
    let offer = BufferOffer::new(
        expose(Memory::Writable(writable))?,
        expose(Memory::Readable(Payload::shared(Arc::clone(&readable))))?,
    );
    send(queue_pair, offer.encode().to_vec());
    let mut meter = Meter::start();
    let (mut bytes, mut total) = (0, 0);
    loop {
        // The client sends nothing while it writes and reads.
        let next = match io::timeout(time, queue_pair.event()).await {
            Ok(QueuePairEvent::Ended(io::rdma::Ending::Peer)) => return Ok(total),
            Ok(QueuePairEvent::Ended(why)) => return Err(End::Ended(why)),
            Ok(other) => other,
            Err(_) => match event(queue_pair).await {
                Err(End::Closed) => return Ok(total),
                other => other?,
            },
        };
        let QueuePairEvent::Received(message) = next else {
            continue;
        };
        match Kind::of(&message) {
            Some(Kind::Echo) => send(queue_pair, message.to_vec()),
            Some(Kind::Data) => {
                bytes += message.len() as u64;
                total += message.len() as u64;
            }
            Some(Kind::Ask) => {
                let report = Report {
                    bytes,
                    ..meter.measured()
                };
                send(queue_pair, report.encode().to_vec());
                (meter, bytes) = (Meter::start(), 0);
            }
            None => return Err(End::Broken),
        }
    }
}
