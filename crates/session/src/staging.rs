//! Staging areas of a connection: buffers in which PDUs arrive. Large payload is received into its own buffer instead.
//!
//! **Owns** the area in use and one spare area of the other size. **Called by** a protocol's receiver. **Invariants**: an
//! area is replaced only while it is empty.

use crate::carrier::ByteStream;
use crate::signal::{CloseReason, Ended};
use io::{IoBuf, RecvBuf};

/// The staging areas of a connection.
pub struct Staging {
    area: RecvBuf,
    /// Spare area, kept for the next change of size.
    other: Option<RecvBuf>,
}

impl Staging {
    /// Creates a staging area of `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Staging {
        Staging {
            area: RecvBuf::new(len),
            other: None,
        }
    }

    /// The area in use.
    pub fn area(&mut self) -> &mut RecvBuf {
        &mut self.area
    }

    /// Replaces the area by one of `want` bytes, if it is empty.
    pub fn resize(&mut self, want: usize) {
        if self.area.capacity() == want || !self.area.readable().is_empty() {
            return;
        }
        match self.other.take() {
            Some(o) if o.capacity() == want => {
                self.other = Some(std::mem::replace(&mut self.area, o));
            }
            _ => self.other = Some(std::mem::replace(&mut self.area, RecvBuf::new(want))),
        }
    }

    /// Receives more bytes into the area, and makes room for `whole` bytes in it. Returns the bytes received, or the reason
    /// to close the connection.
    pub async fn receive<R: CloseReason>(
        &mut self,
        stream: &impl ByteStream,
        whole: usize,
    ) -> Result<usize, R> {
        let mut area = std::mem::replace(&mut self.area, RecvBuf::new(0));
        let have = area.readable().len();
        area.make_room(whole.saturating_sub(have).max(area.capacity() / 2));
        let (result, back) = stream.recv(area).await;
        self.area = back;
        ended(result)
    }

    /// Receives up to `len` bytes into `buf`, from offset `at` on; further bytes go to the area. Returns the buffer, the
    /// bytes that went into it, and either all bytes received or the reason to close the connection.
    pub async fn receive_into<R: CloseReason>(
        &mut self,
        stream: &impl ByteStream,
        mut buf: IoBuf,
        at: usize,
        len: usize,
    ) -> (Result<usize, R>, IoBuf, usize) {
        let area = std::mem::replace(&mut self.area, RecvBuf::new(0));
        let whole = buf.len();
        buf.set_len(at + len);
        let (result, mut buf, back) = stream.recv_direct(buf, at, area).await;
        self.area = back;
        buf.set_len(whole);
        let n = result.map_or(0, |n| n.min(len));
        (ended(result), buf, n)
    }
}

fn ended<R: CloseReason>(result: io::Result<usize>) -> Result<usize, R> {
    match result {
        Ok(0) => Err(Ended::Peer.into()),
        Ok(n) => Ok(n),
        // Sent bytes were not acknowledged in time (TCP_USER_TIMEOUT).
        Err(io::Error::TimedOut) => Err(Ended::SendStall.into()),
        Err(_) => Err(Ended::Network.into()),
    }
}
