//! Steps of tests of queue pairs.

use io::rdma::{
    Ending, QueuePair, QueuePairEvent, Received, Returned, Verb, WorkError, WorkRequest,
};
use io::{IoBuf, pool};

pub(crate) fn post(queue_pair: &QueuePair, chain: impl IntoIterator<Item = (u64, Verb)>) {
    let request = |(tag, work)| WorkRequest {
        tag: Some(tag),
        work,
    };
    queue_pair.post(&mut chain.into_iter().map(request).collect());
}

pub(crate) fn message(bytes: &[u8]) -> Verb {
    Verb::Send {
        head: bytes.to_vec(),
        data: None,
        invalidate: None,
    }
}

pub(crate) async fn buffer(len: usize, byte: u8) -> IoBuf {
    let mut buf = pool().alloc(len).await;
    buf.fill(byte);
    buf
}

/// The end of the request with this tag, which is the next event.
pub(crate) async fn done(queue_pair: &QueuePair, wanted: u64) -> (Result<(), WorkError>, Returned) {
    match queue_pair.event().await {
        QueuePairEvent::Done {
            tag,
            result,
            returned,
        } => {
            assert_eq!(tag, wanted, "{result:?}");
            (result, returned)
        }
        other => panic!("{other:?} is not the end of request {wanted}"),
    }
}

pub(crate) async fn received(queue_pair: &QueuePair) -> Received {
    match queue_pair.event().await {
        QueuePairEvent::Received(received) => received,
        other => panic!("{other:?} is no message"),
    }
}

pub(crate) async fn ended(queue_pair: &QueuePair) -> Ending {
    loop {
        if let QueuePairEvent::Ended(why) = queue_pair.event().await {
            return why;
        }
    }
}
