//! Connection limits of the metrics port.
//!
//! **Owns** the descriptors of scrapers. **Called by** [`super::serve`]. **Invariants**: a connection beyond the limit ends the
//! oldest one of the address with the most, so that silent connections keep no scraper out; a connection ends at its deadline,
//! regardless of its traffic. An evicted connection counts until it has ended.

use axum::serve::Listener;
use io::sync::lock;
use session::admission::{Admission, AdmissionLimits, Evict, NoEntry, Place};
use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// Interval at which a new connection looks for a place while evicted ones end.
const PLACE_POLL: Duration = Duration::from_millis(1);

/// A listener with limits.
pub(super) struct Limited {
    listener: TcpListener,
    admission: Arc<Admission>,
    lifetime: Duration,
}

/// How a connection hears that it is evicted.
#[derive(Default)]
struct Evicted {
    is_evicted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Evict for Evicted {
    fn evict(&self) {
        self.is_evicted.store(true, Ordering::SeqCst);
        if let Some(waker) = lock(&self.waker).take() {
            waker.wake();
        }
    }
}

impl Limited {
    /// At most `connections` at a time, each for at most `lifetime`.
    pub(super) fn new(listener: TcpListener, connections: usize, lifetime: Duration) -> Limited {
        let admission = Admission::new(AdmissionLimits {
            connections_max: connections,
            connecting_max: connections,
            discovery_max: 1,
            companions: 0,
        });
        Limited {
            listener,
            admission,
            lifetime,
        }
    }
}

impl Listener for Limited {
    type Io = Scraper;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Scraper, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let evicted = Arc::new(Evicted::default());
        let place = loop {
            match self
                .admission
                .enter(peer.ip().to_canonical(), evicted.clone())
            {
                Ok(place) => break Some(place),
                Err(NoEntry::Ending) => tokio::time::sleep(PLACE_POLL).await,
                // All places are of connecting ones, which can be evicted.
                Err(NoEntry::Full) => break None,
            }
        };
        let deadline = Box::pin(tokio::time::sleep(self.lifetime));
        (
            Scraper {
                stream,
                deadline,
                evicted,
                _place: place,
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
    evicted: Arc<Evicted>,
    _place: Option<Place>,
}

impl Scraper {
    /// Errors: `TimedOut` from the deadline on, or from the eviction; the task is woken then.
    fn in_time(&mut self, cx: &mut Context<'_>) -> Result<()> {
        *lock(&self.evicted.waker) = Some(cx.waker().clone());
        if self.evicted.is_evicted.load(Ordering::SeqCst) {
            return Err(Error::from(ErrorKind::TimedOut));
        }
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
        served.abort();
    }

    /// Regression: 145 silent connections kept scrapes out, because places came free with the deadlines only.
    #[tokio::test]
    async fn silent_connections_keep_no_scraper_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let limited = Limited::new(listener, CONNECTIONS, Duration::from_secs(3600));
        let app = Router::new().route("/", get(|| async { "here" }));
        let served = tokio::spawn(async move { axum::serve(limited, app).await });
        let mut held = Vec::new();
        for _ in 0..145 {
            held.push(silent(address).await);
        }
        let mut good = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        good.write_all(request).await.expect("open");
        let mut answer = String::new();
        good.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.ends_with("here"), "{answer}");
        served.abort();
    }
}
