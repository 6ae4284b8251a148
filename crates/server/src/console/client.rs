//! A client of the HTTPS port, for tests.
//!
//! **Invariants**: it checks the server's certificate; an answer has a `content-length`.

use std::net::SocketAddr;
use tls::{Connector, Engine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub(super) struct Client {
    stream: TcpStream,
    engine: Engine,
    plain: Vec<u8>,
}

/// An answer.
pub(super) struct Answer {
    /// Status and headers.
    pub(super) head: String,
    pub(super) body: String,
}

impl Client {
    /// Connects, and trusts this certificate only.
    pub(super) async fn connect(address: SocketAddr, pem: &[u8]) -> Client {
        let connector = Connector::new(pem, None, b"http/1.1").expect("a certificate");
        let mut client = Client {
            stream: TcpStream::connect(address).await.expect("it listens"),
            engine: connector.engine("localhost").expect("a name"),
            plain: Vec::new(),
        };
        client.flush().await;
        while client.engine.is_handshaking() {
            assert!(client.receive().await, "the handshake ends");
            client.flush().await;
        }
        client
    }

    async fn flush(&mut self) {
        let mut out = Vec::new();
        self.engine.take_output(&mut out);
        self.stream.write_all(&out).await.expect("open");
    }

    /// Receives once. False at the end.
    async fn receive(&mut self) -> bool {
        let mut wire = [0; 4096];
        let Ok(n) = self.stream.read(&mut wire).await else {
            return false;
        };
        let mut rest = &wire[..n];
        while !rest.is_empty() && !self.engine.is_closed() {
            let taken = self.engine.decrypt(rest).expect("TLS");
            rest = &rest[taken..];
            let mut plain = [0; 4096];
            loop {
                let read = self.engine.read(&mut plain);
                if read == 0 {
                    break;
                }
                self.plain.extend_from_slice(&plain[..read]);
            }
        }
        n > 0 && !self.engine.is_closed()
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.engine.encrypt(bytes);
        self.flush().await;
    }

    /// Waits until the server closes the connection.
    pub(super) async fn closed(&mut self) {
        while self.receive().await {}
    }

    /// Asks for a page.
    pub(super) async fn get(&mut self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.send(request.as_bytes()).await;
        loop {
            let text = String::from_utf8_lossy(&self.plain).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|l| l.strip_prefix("content-length: "));
                let length: usize = length.expect("a length").parse().expect("a number");
                if body.len() >= length {
                    self.plain.clear();
                    return Answer {
                        head: head.to_owned(),
                        body: body[..length].to_owned(),
                    };
                }
            }
            assert!(self.receive().await, "an answer: {text}");
        }
    }
}
