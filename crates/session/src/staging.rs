//! Staging areas of a connection: PDUs land there, payload goes straight to its buffer.
//!
//! **Owns** the area in use and one of the other size. **Called by** a protocol's receiver. **Invariants**: an area is changed
//! only while it is empty.

use crate::signal::{CloseReason, Ended};
use io::net::TcpStream;
use io::{IoBuf, RecvBuf};

/// The staging areas of a connection.
pub struct Staging {
    area: RecvBuf,
    /// The area of the other size, kept for when it is wanted again.
    other: Option<RecvBuf>,
}

impl Staging {
    /// One area of `len` bytes.
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

    /// Uses an area of `want` bytes from here on, if the present one is empty.
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

    /// Receives until the area holds more; it must hold `whole` bytes in one piece. Returns the bytes received; errors: why the
    /// connection ends.
    pub async fn receive<R: CloseReason>(
        &mut self,
        stream: &TcpStream,
        whole: usize,
    ) -> Result<usize, R> {
        let mut area = std::mem::replace(&mut self.area, RecvBuf::new(0));
        let have = area.readable().len();
        area.make_room(whole.saturating_sub(have).max(area.capacity() / 2));
        let (result, back) = stream.recv(area).await;
        self.area = back;
        ended(result)
    }

    /// Receives up to `len` bytes into `buf` from byte `at` on; bytes behind them land in the area. Returns the bytes received,
    /// or why the connection ends; the buffer, and the bytes that went to it.
    pub async fn receive_into<R: CloseReason>(
        &mut self,
        stream: &TcpStream,
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
