//! The relay: passing, silent and reset cuts, and a server that is away.

use drill::{Cut, Relay, Timeline};
use io::net::{TcpListener, TcpStream};
use io::{RecvBuf, SendBatch};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// An echo server on any port.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = listener.local_addr();
    drop(io::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            drop(io::spawn(async move {
                while let Some(byte) = receive(&stream).await {
                    send(&stream, byte).await;
                }
            }));
        }
    }));
    address
}

async fn send(stream: &TcpStream, byte: u8) {
    let mut batch = SendBatch::new();
    batch.put(&[byte]);
    let _ = stream.send(batch).await;
}

/// The next byte; none at the end of the stream or after a reset.
async fn receive(stream: &TcpStream) -> Option<u8> {
    let (received, staging) = stream.recv(RecvBuf::new(1)).await;
    matches!(received, Ok(1)).then(|| staging.readable()[0])
}

async fn echoes(stream: &TcpStream, byte: u8) -> bool {
    send(stream, byte).await;
    receive(stream).await == Some(byte)
}

fn with_runtime(test: impl Future<Output = ()> + 'static) {
    let runtime = io::Runtime::new(io::RuntimeConfig::default()).expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn a_silent_cut_holds_bytes_until_it_is_joined() {
    with_runtime(async {
        let relay = Relay::start(echo(), Arc::new(Timeline::new())).expect("a relay");
        let stream = Rc::new(
            TcpStream::connect(relay.address())
                .await
                .expect("connected"),
        );
        assert!(echoes(&stream, 1).await);
        relay.cut(Cut::Silent);
        let is_back = Rc::new(Cell::new(false));
        let (waiting, set) = (stream.clone(), is_back.clone());
        let task = io::spawn(async move {
            let echoed = echoes(&waiting, 2).await;
            set.set(echoed);
        });
        io::time::sleep(Duration::from_millis(50)).await;
        assert!(!is_back.get(), "bytes passed a cut cable");
        relay.join();
        task.await;
        assert!(is_back.get());
        let traffic = relay.traffic();
        assert_eq!(
            (traffic.connections, traffic.cut, traffic.refused),
            (1, 0, 0)
        );
        assert_eq!((traffic.bytes_to_server, traffic.bytes_from_server), (2, 2));
    });
}

#[test]
fn a_reset_cut_ends_connections_and_refuses_new_ones() {
    with_runtime(async {
        let relay = Relay::start(echo(), Arc::new(Timeline::new())).expect("a relay");
        let stream = TcpStream::connect(relay.address())
            .await
            .expect("connected");
        assert!(echoes(&stream, 1).await);
        relay.cut(Cut::Reset);
        assert!(!echoes(&stream, 2).await);
        // The kernel accepts it for the relay, which resets it.
        if let Ok(stream) = TcpStream::connect(relay.address()).await {
            assert!(!echoes(&stream, 3).await);
        }
        relay.join();
        let stream = TcpStream::connect(relay.address())
            .await
            .expect("connected");
        assert!(echoes(&stream, 4).await);
        assert_eq!(relay.traffic().cut, 1);
        assert_eq!(relay.traffic().refused, 1);
    });
}

#[test]
fn a_server_that_is_away_refuses_and_its_next_address_is_used() {
    with_runtime(async {
        let closed = {
            let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).expect("a port");
            listener.local_addr()
        };
        let relay = Relay::start(closed, Arc::new(Timeline::new())).expect("a relay");
        if let Ok(stream) = TcpStream::connect(relay.address()).await {
            assert!(!echoes(&stream, 1).await);
        }
        relay.set_upstream(echo());
        let stream = TcpStream::connect(relay.address())
            .await
            .expect("connected");
        assert!(echoes(&stream, 2).await);
    });
}
