//! Received bytes of a connection: a staging area of two sizes, and payloads that go straight into a command's buffer.
//!
//! Headers and small payloads arrive in the staging area, and are copied from there. While payloads are large, the staging area is the narrow one,
//! so that little of the next payload lands in it.
//!
//! **Owns** [`Inbound`]. **Called by** the receivers of all initiators. **Invariants**: the staging area changes its size only when it is empty.

use crate::Disconnected;
use io::net::TcpStream;
use io::{IoBuf, RecvBuf};
use std::ops::Range;

/// Bytes of a wide staging area.
pub const STAGING_WIDE: usize = 128 << 10;
/// Payloads of this size or more are received straight into buffers, bytes.
const LARGE_PAYLOAD: usize = 16 << 10;

/// See the module header.
pub struct Inbound {
    staging: RecvBuf,
    /// The empty staging area of the other size.
    other: RecvBuf,
    is_large: bool,
}

impl Inbound {
    /// `staging` is the wide staging area, of [`STAGING_WIDE`] bytes, with bytes that have arrived; the narrow one has `narrow` bytes, and
    /// room for any header.
    #[must_use]
    pub fn new(staging: RecvBuf, narrow: usize) -> Self {
        Self {
            staging,
            other: RecvBuf::new(narrow),
            is_large: false,
        }
    }

    /// The bytes in the staging area.
    #[must_use]
    pub fn readable(&self) -> &[u8] {
        self.staging.readable()
    }

    /// Most bytes that the present staging area has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.staging.capacity()
    }

    /// Takes the first `len` bytes out of the staging area.
    pub fn consume(&mut self, len: usize) {
        self.staging.consume(len);
    }

    /// The last payload had `len` bytes: the next ones are expected to have as many.
    pub fn expect(&mut self, len: usize) {
        self.is_large = len >= LARGE_PAYLOAD;
    }

    /// Receives more bytes into the staging area. Fails if the connection ended.
    pub async fn receive(&mut self, stream: &TcpStream) -> Result<(), Disconnected> {
        self.fit();
        receive(stream, &mut self.staging).await
    }

    /// Receives until the staging area has `len` bytes. Fails if the connection ended.
    pub async fn receive_at_least(
        &mut self,
        stream: &TcpStream,
        len: usize,
    ) -> Result<(), Disconnected> {
        while self.staging.readable().len() < len {
            self.receive(stream).await?;
        }
        Ok(())
    }

    /// Receives into a part of a buffer. Fails if the connection ended. Returns the buffer in either case, with its length.
    pub async fn fill(
        &mut self,
        stream: &TcpStream,
        mut buf: IoBuf,
        part: Range<usize>,
    ) -> (Result<(), Disconnected>, IoBuf) {
        let len = buf.len();
        // Bytes behind the payload belong to the staging area, not to the rest of the buffer.
        buf.set_len(part.end);
        let mut at = part.start;
        let mut result = Ok(());
        while at < part.end && result.is_ok() {
            self.fit();
            let staging = std::mem::replace(&mut self.staging, RecvBuf::new(0));
            let (received, back, staging) = stream.recv_direct(buf, at, staging).await;
            (buf, self.staging) = (back, staging);
            match received {
                Ok(n @ 1..) => at = part.end.min(at + n),
                Ok(0) | Err(_) => result = Err(Disconnected),
            }
        }
        buf.set_len(len);
        (result, buf)
    }

    /// Swaps the staging area for the one of the size that payloads need, if it is empty.
    fn fit(&mut self) {
        let is_narrow = self.staging.capacity() < STAGING_WIDE;
        if self.is_large != is_narrow && self.staging.readable().is_empty() {
            std::mem::swap(&mut self.staging, &mut self.other);
        }
    }
}

/// Receives more bytes into `staging`, which has room for any header. Fails if the connection ended.
pub async fn receive(stream: &TcpStream, staging: &mut RecvBuf) -> Result<(), Disconnected> {
    let mut taken = std::mem::replace(staging, RecvBuf::new(0));
    let room = taken.make_room(taken.capacity());
    assert!(room > 0, "the staging area holds every header");
    let (result, back) = stream.recv(taken).await;
    *staging = back;
    match result {
        Ok(0) | Err(_) => Err(Disconnected),
        Ok(_) => Ok(()),
    }
}
