//! The HTTPS port: connections, TLS, deadlines.
//!
//! **Owns** each connection from accept to close. **Called by** [`super::serve`]. **Invariants**: a connection is a task of its own, so that
//! none waits for the handshake of another; every wait for a peer has a deadline; the number of connections is bounded, and a new one
//! ends the oldest that no logged-in browser uses ([`super::connections`]).

use super::connections::{Connections, Place};
use crate::limits::{
    CONSOLE_BUFFER_LEN, CONSOLE_CONNECTIONS_MAX, CONSOLE_HANDSHAKE_MAX, CONSOLE_HEAD_MAX,
    CONSOLE_LAST_MAX, CONSOLE_LIFE_MAX,
};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The other end of a connection, for handlers.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(super) address: IpAddr,
    pub(super) place: Arc<Place>,
}

/// The deadlines of a connection.
#[derive(Clone, Copy)]
struct Deadlines {
    handshake: Duration,
    head: Duration,
    life: Duration,
    last: Duration,
}

const DEADLINES: Deadlines = Deadlines {
    handshake: CONSOLE_HANDSHAKE_MAX,
    head: CONSOLE_HEAD_MAX,
    life: CONSOLE_LIFE_MAX,
    last: CONSOLE_LAST_MAX,
};

/// Serves connections, without end.
pub(super) async fn serve(listener: TcpListener, tls: TlsAcceptor, app: Router) {
    serve_with(listener, tls, app, CONSOLE_CONNECTIONS_MAX, DEADLINES).await;
}

async fn serve_with(
    mut listener: TcpListener,
    tls: TlsAcceptor,
    app: Router,
    connections_max: usize,
    deadlines: Deadlines,
) {
    let connections = Connections::new(connections_max);
    loop {
        let slot = connections.wait().await;
        // It pauses when descriptors have run out.
        let (stream, peer) = axum::serve::Listener::accept(&mut listener).await;
        let (tls, app) = (tls.clone(), app.clone());
        connections.start(slot, |place| async move {
            let peer = Peer {
                address: peer.ip().to_canonical(),
                place,
            };
            let app = app.layer(Extension(peer));
            connection(stream, tls, app, deadlines).await;
        });
    }
}

/// Serves one connection until it ends or a deadline passes.
async fn connection(stream: TcpStream, tls: TlsAcceptor, app: Router, deadlines: Deadlines) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(deadlines.handshake, tls.accept(stream)).await else {
        return;
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .max_buf_size(CONSOLE_BUFFER_LEN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut served = pin!(served);
    // Errors are the peer's: nothing is to be done about them.
    if timeout(deadlines.life, served.as_mut()).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ = timeout(deadlines.last, served).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificate::Certificate;
    use super::super::client::Client;
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const CONNECTIONS: usize = 4;

    /// A port with small limits; its address and its certificate.
    async fn port(deadlines: Deadlines) -> (SocketAddr, Vec<u8>, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a directory");
        let address = "127.0.0.1:0".parse().expect("an address");
        let certificate = Certificate::own(dir.path(), address).expect("made");
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let known = |Extension(peer): Extension<Peer>| async move {
            peer.place.set_known();
            "known"
        };
        let app = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/known", get(known));
        let pem = certificate.pem().to_vec();
        let tls = certificate.acceptor();
        tokio::spawn(serve_with(listener, tls, app, CONNECTIONS, deadlines));
        (address, pem, dir)
    }

    async fn silent(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(&[22, 3, 1]).await.expect("open");
        stream
    }

    async fn ends(mut stream: TcpStream) {
        let mut rest = Vec::new();
        // Closed, in order or not.
        let _ = stream.read_to_end(&mut rest).await;
    }

    #[tokio::test]
    async fn silent_connections_make_room_and_end() {
        let short = Duration::from_millis(300);
        let deadlines = Deadlines {
            handshake: short,
            ..DEADLINES
        };
        let (address, pem, _dir) = port(deadlines).await;
        let mut kept = Client::connect(address, &pem).await;
        assert_eq!(kept.get("/known").await.body, "known");
        let mut held = Vec::new();
        for _ in 0..5 * CONNECTIONS {
            held.push(silent(address).await);
            let mut good = Client::connect(address, &pem).await;
            assert_eq!(good.get("/").await.body, "here");
        }
        assert_eq!(kept.get("/").await.body, "here", "a known connection stays");
        for stream in held {
            ends(stream).await;
        }
    }

    #[tokio::test]
    async fn a_slow_head_and_an_old_connection_end() {
        let short = Duration::from_millis(100);
        let deadlines = Deadlines {
            head: short,
            life: Duration::from_millis(400),
            ..DEADLINES
        };
        let (address, pem, _dir) = port(deadlines).await;
        let mut slow = Client::connect(address, &pem).await;
        slow.send(b"GET / HTTP/1.1\r\nHo").await;
        slow.closed().await;
        let mut idle = Client::connect(address, &pem).await;
        let answer = idle.get("/").await;
        assert!(answer.head.starts_with("HTTP/1.1 200"), "{}", answer.head);
        assert_eq!(answer.body, "here");
        idle.closed().await;
    }
}
