//! Frames and data on a socket, with time limits.
//!
//! **Invariants**: a wait for the peer lasts at most [`SILENCE_MAX`]; memory is bounded by the staging area.

use super::wire::{WORD_LEN, is_block, word};
use io::net::{TcpInfo, TcpStream};
use io::rdma::Ending;
use io::{IoBuf, Payload, RecvBuf, SendBatch};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a peer that neither sends nor takes data.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Bytes that are received at a time.
const STAGING: usize = 512 << 10;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The peer closed it.
    Closed,
    /// The peer neither sent nor took data for [`SILENCE_MAX`].
    Silent,
    /// The peer broke the protocol.
    Broken,
    /// The system's error.
    Failed(io::Error),
    /// The queue pair's end.
    Ended(Ending),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => f.write_str("the peer closed the connection"),
            End::Silent => write!(f, "the peer was silent for {} s", SILENCE_MAX.as_secs()),
            End::Broken => f.write_str("the peer broke the protocol of the probe"),
            End::Failed(e) => e.fmt(f),
            End::Ended(why) => why.fmt(f),
        }
    }
}

/// A connection. One task uses it.
pub(super) struct Link {
    stream: TcpStream,
    staging: RecvBuf,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> Link {
        Link {
            stream,
            staging: RecvBuf::new(STAGING),
        }
    }

    /// The kernel's statistics.
    pub(super) fn info(&self) -> TcpInfo {
        self.stream.info().unwrap_or_default()
    }

    /// Sends bytes.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), End> {
        let mut batch = SendBatch::new();
        batch.put(bytes);
        self.send_batch(batch).await
    }

    async fn send_batch(&self, batch: SendBatch) -> Result<(), End> {
        let sent = io::timeout(SILENCE_MAX, self.stream.send(batch)).await;
        match sent {
            Ok((Ok(()), _)) => Ok(()),
            Ok((Err(io::Error::Closed), _)) => Err(End::Closed),
            Ok((Err(e), _)) => Err(End::Failed(e)),
            Err(_) => Err(End::Silent),
        }
    }

    /// Sends a block of data behind its word.
    pub(super) async fn send_block(&self, data: &Arc<IoBuf>) -> Result<(), End> {
        let mut batch = SendBatch::new();
        batch.put(&word(true));
        batch.put_payload(Payload::shared(data.clone()));
        self.send_batch(batch).await
    }

    /// Receives at least one more byte.
    async fn fill(&mut self) -> Result<(), End> {
        let mut taken = std::mem::replace(&mut self.staging, RecvBuf::new(0));
        taken.make_room(taken.capacity() - taken.readable().len());
        match io::timeout(SILENCE_MAX, self.stream.recv(taken)).await {
            Ok((received, staging)) => {
                self.staging = staging;
                match received {
                    Ok(0) => Err(End::Closed),
                    Ok(_) => Ok(()),
                    Err(io::Error::Closed) => Err(End::Closed),
                    Err(e) => Err(End::Failed(e)),
                }
            }
            Err(_) => Err(End::Silent),
        }
    }

    /// Receives a frame of a fixed length.
    pub(super) async fn receive<const N: usize>(&mut self) -> Result<[u8; N], End> {
        while self.staging.readable().len() < N {
            self.fill().await?;
        }
        let frame = self.staging.readable()[..N].try_into().expect("its length");
        self.staging.consume(N);
        Ok(frame)
    }

    /// Receives a message into `message`, all of it.
    pub(super) async fn receive_into(&mut self, message: &mut [u8]) -> Result<(), End> {
        let mut at = 0;
        while at < message.len() {
            if self.staging.readable().is_empty() {
                self.fill().await?;
            }
            let bytes = self.staging.readable();
            let n = bytes.len().min(message.len() - at);
            message[at..at + n].copy_from_slice(&bytes[..n]);
            self.staging.consume(n);
            at += n;
        }
        Ok(())
    }

    /// Receives the next block of `size` bytes, and drops it. Returns whether there was one, or the end of all blocks.
    pub(super) async fn receive_block(&mut self, size: u32) -> Result<bool, End> {
        let word = self.receive::<WORD_LEN>().await?;
        match is_block(word) {
            Some(true) => {}
            Some(false) => return Ok(false),
            None => return Err(End::Broken),
        }
        let mut missing = size as usize;
        while missing > 0 {
            if self.staging.readable().is_empty() {
                self.fill().await?;
            }
            let n = self.staging.readable().len().min(missing);
            self.staging.consume(n);
            missing -= n;
        }
        Ok(true)
    }
}

/// `size` bytes of data to send. The contents do not matter: no layer between two sockets compresses.
pub(super) async fn data(size: u32) -> Arc<IoBuf> {
    let mut buf = io::pool().alloc(size as usize).await;
    io::rng::Prng::new(1).fill(&mut buf);
    Arc::new(buf)
}
