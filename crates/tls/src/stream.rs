//! A TCP stream that TLS may be started on.
//!
//! **Owns** [`Stream`]. **Called by** connections, as their [`ByteStream`], and by clients. **Invariants**: bytes pass unchanged until
//! [`Stream::start`], and never afterwards; one receive and one send are in flight at a time; the state is borrowed only between awaits.

use crate::engine::{Engine, Session, TlsError};
use crate::limits::{CHUNK_LEN, CLOSE_MAX, WIRE_LEN};
use io::net::TcpStream;
use io::{IoBuf, Payload, RecvBuf, Result, SendBatch};
use session::carrier::{ByteStream, Carrier, CarrierInfo};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;

/// TLS above a stream.
struct Layer {
    engine: Engine,
    /// Received bytes; `None` while a receive is in flight.
    wire: Option<RecvBuf>,
    failure: Option<TlsError>,
}

/// A TCP stream that TLS may be started on.
pub struct Stream {
    tcp: TcpStream,
    layer: RefCell<Option<Layer>>,
    /// Whether a send is in flight, also one whose future was dropped.
    is_sending: Cell<bool>,
}

impl Stream {
    /// A stream without TLS.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        Self {
            tcp,
            layer: RefCell::new(None),
            is_sending: Cell::new(false),
        }
    }

    /// The TCP connection below.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Starts TLS, with the first byte that was not received yet. Nothing else may be in flight. Returns what was agreed. Errors: the
    /// handshake failed; the peer has been told why, if it can be told.
    pub async fn start(&self, engine: Engine) -> std::result::Result<Session, TlsError> {
        assert!(!self.is_started(), "TLS is started once");
        self.layer.replace(Some(Layer {
            engine,
            wire: Some(RecvBuf::new(WIRE_LEN)),
            failure: None,
        }));
        loop {
            self.flush().await.map_err(TlsError::Network)?;
            let session = self.with(|layer| layer.engine.session());
            if let Some(session) = session {
                return Ok(session);
            }
            match self.refill().await {
                Ok(true) => {}
                Ok(false) => return Err(TlsError::Closed),
                Err(error) => {
                    // The alert, if there is one.
                    let _ = self.flush().await;
                    let failure = self.with(|layer| layer.failure.clone());
                    return Err(failure.unwrap_or(TlsError::Network(error)));
                }
            }
        }
    }

    /// Whether TLS was started.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.layer.borrow().is_some()
    }

    /// Why TLS cannot go on: the reason of a receive that failed.
    #[must_use]
    pub fn failure(&self) -> Option<TlsError> {
        let layer = self.layer.borrow();
        layer.as_ref().and_then(|layer| layer.failure.clone())
    }

    /// Tells the peer that nothing follows, if it can be told now, and shuts the stream down.
    pub async fn close(&self) {
        // After a send that was dropped, the peer could not read what follows.
        if self.is_started() && !self.is_sending.get() {
            self.with(|layer| layer.engine.close());
            let _ = io::timeout(CLOSE_MAX, self.flush()).await;
        }
        self.tcp.shutdown();
    }

    fn with<T>(&self, use_layer: impl FnOnce(&mut Layer) -> T) -> T {
        use_layer(self.layer.borrow_mut().as_mut().expect("TLS was started"))
    }

    /// Sends the output of the engine.
    async fn flush(&self) -> Result<()> {
        let mut output = Vec::new();
        self.with(|layer| layer.engine.take_output(&mut output));
        if output.is_empty() {
            return Ok(());
        }
        let mut batch = SendBatch::new();
        batch.put_payload(Payload::from(output));
        self.is_sending.set(true);
        let (result, _) = self.tcp.send(batch).await;
        self.is_sending.set(false);
        result
    }

    /// Decrypts bytes that were received, or receives some if there are none. Returns whether more may come. Errors: the network's; `Closed`
    /// with [`Stream::failure`].
    async fn refill(&self) -> Result<bool> {
        let wire = {
            let mut layer = self.layer.borrow_mut();
            let layer = layer.as_mut().expect("TLS was started");
            if layer.engine.is_closed() {
                return Ok(false);
            }
            let mut wire = layer.wire.take().expect("one receive is in flight");
            if wire.readable().is_empty() {
                wire
            } else {
                let decrypted = layer.engine.decrypt(wire.readable());
                wire.consume(*decrypted.as_ref().unwrap_or(&0));
                layer.wire = Some(wire);
                if let Err(error) = decrypted {
                    layer.failure = Some(error);
                    return Err(io::Error::Closed);
                }
                return Ok(true);
            }
        };
        let (received, wire) = self.tcp.recv(wire).await;
        self.with(|layer| layer.wire = Some(wire));
        Ok(received? > 0)
    }
}

impl Carrier for Stream {
    fn peer_addr(&self) -> SocketAddr {
        self.tcp.peer_addr()
    }

    fn local_addr(&self) -> SocketAddr {
        self.tcp.local_addr()
    }

    fn info(&self) -> Result<CarrierInfo> {
        Carrier::info(&self.tcp)
    }

    fn limit_unacknowledged(&self, limit: Duration) {
        self.tcp.limit_unacknowledged(limit);
    }

    fn probe_silent(&self, after: Duration) {
        self.tcp.probe_silent(after);
    }
}

impl ByteStream for Stream {
    async fn recv(&self, mut staging: RecvBuf) -> (Result<usize>, RecvBuf) {
        if !self.is_started() {
            return self.tcp.recv(staging).await;
        }
        loop {
            let read = self.with(|layer| staging.append(|tail| layer.engine.read(tail)));
            if read > 0 {
                return (Ok(read), staging);
            }
            match self.refill().await {
                Ok(true) => {}
                Ok(false) => return (Ok(0), staging),
                Err(error) => return (Err(error), staging),
            }
        }
    }

    async fn recv_direct(
        &self,
        mut direct: IoBuf,
        at: usize,
        staging: RecvBuf,
    ) -> (Result<usize>, IoBuf, RecvBuf) {
        if !self.is_started() {
            return self.tcp.recv_direct(direct, at, staging).await;
        }
        loop {
            let read = self.with(|layer| layer.engine.read(&mut direct[at..]));
            if read > 0 {
                return (Ok(read), direct, staging);
            }
            match self.refill().await {
                Ok(true) => {}
                Ok(false) => return (Ok(0), direct, staging),
                Err(error) => return (Err(error), direct, staging),
            }
        }
    }

    async fn send(&self, mut batch: SendBatch) -> (Result<()>, SendBatch) {
        if !self.is_started() {
            return self.tcp.send(batch).await;
        }
        let mut plain = Vec::with_capacity(batch.len().min(CHUNK_LEN));
        let mut result = Ok(());
        let mut at = 0;
        while at < batch.len() && result.is_ok() {
            plain.clear();
            batch.copy_to(at, CHUNK_LEN, &mut plain);
            at += plain.len();
            self.with(|layer| layer.engine.encrypt(&plain));
            result = self.flush().await;
        }
        batch.clear();
        (result, batch)
    }
}
