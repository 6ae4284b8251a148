//! The cable of a drill: a relay between the drill's initiator and the server, in the drill's process.
//!
//! **Owns** the relay's sockets. **Called by** the drill. **Invariants**: only connections of the drill pass through it, so a cut
//! concerns no other client and no network card. A silent cut holds every byte in both directions, as a pulled cable does, and
//! lets the held bytes go on when it ends; a reset cut ends every connection with RST, and new ones until it ends.

use crate::error::{Error, Result};
use crate::limits::{POLL, RELAY_BUFFER};
use crate::timeline::{Layer, Timeline};
use io::net::{TcpListener, TcpOptions, TcpStream};
use io::{JoinHandle, RecvBuf, SendBatch};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Wait after a failed accept.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// Kind of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing passes; neither end is told.
    Silent,
    /// Both ends get a reset.
    Reset,
}

/// State of the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cable {
    /// Bytes pass.
    Whole,
    /// Bytes are held.
    Silent,
    /// Connections are refused.
    Refusing,
}

/// Counts of a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Connections that were passed on to the server.
    pub connections: u64,
    /// Connections that a cut ended.
    pub cut: u64,
    /// Connections that were refused, by a cut or because the server did not answer.
    pub refused: u64,
    /// Bytes passed to the server.
    pub bytes_to_server: u64,
    /// Bytes passed from the server.
    pub bytes_from_server: u64,
}

struct RelayLink {
    upstream: Cell<SocketAddr>,
    state: Cell<Cable>,
    traffic: Cell<Traffic>,
    connections: RefCell<Vec<Connection>>,
    timeline: Arc<Timeline>,
}

struct Connection {
    task: JoinHandle<()>,
    ends: [Weak<TcpStream>; 2],
}

/// The relay. Dropping it ends its connections.
pub struct Relay {
    shared: Rc<RelayLink>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Listens on a loopback address and passes connections on to `upstream`.
    ///
    /// # Errors
    /// `Relay` if no port is free.
    pub fn start(upstream: SocketAddr, timeline: Arc<Timeline>) -> Result<Relay> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(any).map_err(Error::Relay)?;
        let address = listener.local_addr();
        let shared = Rc::new(RelayLink {
            upstream: Cell::new(upstream),
            state: Cell::new(Cable::Whole),
            traffic: Cell::default(),
            connections: RefCell::default(),
            timeline,
        });
        let accepting = io::spawn(accept(shared.clone(), listener));
        Ok(Relay {
            shared,
            address,
            accepting,
        })
    }

    /// The address for the initiator.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts until now.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.traffic.get()
    }

    /// New connections go to this address from now on.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.upstream.set(upstream);
    }

    /// Cuts the cable.
    pub fn cut(&self, cut: Cut) {
        let shared = &self.shared;
        let live = shared
            .connections
            .borrow()
            .iter()
            .filter(|c| c.is_live())
            .count();
        shared.state.set(match cut {
            Cut::Silent => Cable::Silent,
            Cut::Reset => Cable::Refusing,
        });
        let how = match cut {
            Cut::Silent => "silent: all bytes are held",
            Cut::Reset => "every connection is reset",
        };
        shared
            .timeline
            .note(Layer::Cable, format!("cut, {live} connections, {how}"));
        if cut == Cut::Reset {
            for connection in shared.connections.borrow_mut().drain(..) {
                let is_live = connection.is_live();
                connection.reset();
                shared.count(|t| t.cut += u64::from(is_live));
            }
        }
    }

    /// Joins the cable again.
    pub fn join(&self) {
        self.shared.state.set(Cable::Whole);
        self.shared.timeline.note(Layer::Cable, "joined");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
        for connection in self.shared.connections.borrow_mut().drain(..) {
            connection.task.abort();
        }
    }
}

impl Connection {
    fn is_live(&self) -> bool {
        !self.task.is_finished()
    }

    /// Ends both ends with RST.
    fn reset(self) {
        for end in self.ends.iter().filter_map(Weak::upgrade) {
            abort_on_close(&end);
        }
        self.task.abort();
    }
}

/// The kernel sends RST when the stream is closed. A stream that has ended needs none.
fn abort_on_close(stream: &TcpStream) {
    let options = TcpOptions {
        abort_on_close: true,
        ..TcpOptions::default()
    };
    let _ = stream.set_options(&options);
}

impl RelayLink {
    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }

    /// Waits while bytes are held.
    async fn passes(&self) {
        while self.state.get() == Cable::Silent {
            io::time::sleep(POLL).await;
        }
    }

    fn refuse(&self, client: &TcpStream) {
        abort_on_close(client);
        self.count(|t| t.refused += 1);
    }
}

async fn accept(shared: Rc<RelayLink>, listener: TcpListener) {
    loop {
        // A cable that is cut silently answers no connection: the kernel's backlog holds it until then.
        shared.passes().await;
        let Ok(client) = listener.accept().await else {
            io::time::sleep(ACCEPT_WAIT).await;
            continue;
        };
        shared.passes().await;
        if shared.state.get() == Cable::Refusing {
            shared.refuse(&client);
            continue;
        }
        let Ok(server) = TcpStream::connect(shared.upstream.get()).await else {
            shared.refuse(&client);
            continue;
        };
        if shared.state.get() == Cable::Refusing {
            shared.refuse(&client);
            continue;
        }
        shared.count(|t| t.connections += 1);
        let (client, server) = (Rc::new(client), Rc::new(server));
        let ends = [Rc::downgrade(&client), Rc::downgrade(&server)];
        let task = io::spawn(pass(shared.clone(), client, server));
        let mut connections = shared.connections.borrow_mut();
        connections.retain(Connection::is_live);
        connections.push(Connection { task, ends });
    }
}

/// Passes bytes in both directions until either end closes.
async fn pass(shared: Rc<RelayLink>, client: Rc<TcpStream>, server: Rc<TcpStream>) {
    let mut up = pin!(pump(&shared, &client, &server, |t, n| t.bytes_to_server += n));
    let mut down = pin!(pump(&shared, &server, &client, |t, n| t
        .bytes_from_server +=
        n));
    poll_fn(|cx| match up.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => down.as_mut().poll(cx),
    })
    .await;
}

async fn pump(
    shared: &RelayLink,
    from: &TcpStream,
    to: &TcpStream,
    count: impl Fn(&mut Traffic, u64),
) {
    let (mut staging, mut batch) = (RecvBuf::new(RELAY_BUFFER), SendBatch::new());
    loop {
        staging.make_room(RELAY_BUFFER);
        let received;
        (received, staging) = from.recv(staging).await;
        let n = match received {
            Ok(0) | Err(_) => return shared.passes().await,
            Ok(n) => n,
        };
        shared.passes().await;
        batch.put(staging.readable());
        staging.consume(n);
        let sent;
        (sent, batch) = to.send(batch).await;
        if sent.is_err() {
            return;
        }
        shared.count(|t| count(t, n as u64));
    }
}
