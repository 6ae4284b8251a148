//! Connection limits of the metrics port.
//!
//! **Owns** the descriptors of scrapers. **Called by** [`super::serve`]. **Invariants**: a connection beyond the
//! limit stays in the kernel's backlog and takes no descriptor; a connection ends at its deadline, regardless of its
//! traffic.

use axum::serve::Listener;
use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// A listener with limits.
pub(super) struct Limited {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    lifetime: Duration,
}

impl Limited {
    /// At most `connections` at a time, each for at most `lifetime`.
    pub(super) fn new(listener: TcpListener, connections: usize, lifetime: Duration) -> Limited {
        Limited {
            listener,
            permits: Arc::new(Semaphore::new(connections)),
            lifetime,
        }
    }
}

impl Listener for Limited {
    type Io = Scraper;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Scraper, SocketAddr) {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let deadline = Box::pin(tokio::time::sleep(self.lifetime));
        (
            Scraper {
                stream,
                deadline,
                _permit: permit,
            },
            peer,
        )
    }

    fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
pub(super) struct Scraper {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Scraper {
    /// Errors: `TimedOut` from the deadline on; until then the task is woken at the deadline.
    fn in_time(&mut self, cx: &mut Context<'_>) -> Result<()> {
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(Error::from(ErrorKind::TimedOut)),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Scraper {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.in_time(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Scraper {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        self.in_time(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const CONNECTIONS: usize = 2;

    async fn silent(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET /").await.expect("open");
        stream
    }

    /// Before the limit, silent connections stayed for ever and used up all descriptors.
    #[tokio::test]
    async fn silent_connections_end_and_others_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let limited = Limited::new(listener, CONNECTIONS, Duration::from_millis(50));
        let permits = limited.permits.clone();
        let app = Router::new().route("/", get(|| async { "here" }));
        let served = tokio::spawn(async move { axum::serve(limited, app).await });
        let mut held = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            held.push(silent(address).await);
        }
        let mut good = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        good.write_all(request).await.expect("open");
        let mut answer = String::new();
        good.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.ends_with("here"), "{answer}");
        for mut stream in held {
            let mut rest = Vec::new();
            // Closed, in order or not; earlier data does not matter.
            let _ = stream.read_to_end(&mut rest).await;
        }
        // The listener keeps one permit for the connection that it waits for.
        drop(permits.acquire_many(CONNECTIONS as u32 - 1).await);
        served.abort();
    }
}
