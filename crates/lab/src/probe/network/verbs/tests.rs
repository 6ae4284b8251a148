//! The probe of verbs on the simulated device: both sides, missing devices, bad peers, a device that vanishes.

use super::super::result::Probed;
use super::super::run::{Probe, run};
use super::super::serve::{Serve, serve};
use super::super::wire::{Mode, Refusal, Reply, Request};
use super::wire::{BLOCK, OFFER_LEN};
use super::{event, send, sizes};
use crate::probe::interrupt::Interrupt;
use io::rdma::{ConnectError, Ending, QueuePair, QueuePairEvent};
use io::sim::{Node, Sim, SimConfig, rdma as devices};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const PART: Duration = Duration::from_millis(20);

fn simulated<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    Sim::new(5, SimConfig::default()).block_on(test)
}

/// A serving machine and the lines that it printed.
struct Server {
    machine: Node,
    at: SocketAddr,
    lines: Rc<RefCell<Vec<String>>>,
}

impl Server {
    fn start(connections: u32) -> Server {
        Server::start_on(Node::new(), connections)
    }

    fn start_on(machine: Node, connections: u32) -> Server {
        let how = Serve {
            listen: machine.addr(4421),
            time: Duration::from_secs(3600),
            connections,
        };
        let (at, lines) = (how.listen, Rc::new(RefCell::new(Vec::new())));
        let said = lines.clone();
        drop(machine.spawn(async move {
            let say = move |line: &str| said.borrow_mut().push(line.to_owned());
            serve(how, &Interrupt::default(), say).await
        }));
        Server { machine, at, lines }
    }

    fn said(&self, words: &str) -> bool {
        self.lines.borrow().iter().any(|line| line.contains(words))
    }

    /// Waits until it said so.
    async fn wait_for(&self, words: &str) {
        for _ in 0..1000 {
            if self.said(words) {
                return;
            }
            io::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no {words:?} in {:?}", self.lines.borrow());
    }
}

async fn probe(at: SocketAddr, say: impl FnMut(&str)) -> Probed {
    let probe = Probe {
        address: at,
        time: PART,
        streams: 2,
        message: 64,
        congestion: None,
        rdma: true,
    };
    let measured = run(probe, &Interrupt::default(), say).await;
    measured.expect("TCP is measured")
}

/// The private data of a good request.
fn request() -> Vec<u8> {
    let request = Request {
        mode: Mode::Verbs,
        size: BLOCK,
        millis: 20,
    };
    request.encode().to_vec()
}

/// The refusal of a connection request with this private data; `None` if it was accepted.
async fn refused(at: SocketAddr, private: &[u8]) -> Option<Refusal> {
    match QueuePair::connect(at, sizes(64), private).await {
        Ok(_) => None,
        Err(ConnectError::Rejected(private)) => {
            let reply = Reply::decode(private.first_chunk().expect("a reply")).expect("a reply");
            reply.0.err()
        }
        Err(ConnectError::Failed(e)) => panic!("{e}"),
    }
}

#[test]
fn send_write_and_read_are_measured_beside_tcp() {
    simulated(async {
        let server = Server::start(64);
        server.wait_for("listening over RDMA").await;
        let p = probe(server.at, |_| {}).await;
        assert_eq!(p.no_verbs, None);
        let v = p.verbs.expect("measured");
        assert_eq!((v.message, v.block), (64, BLOCK));
        assert!(!v.device.is_empty() && v.path_mtu > 0);
        for (name, o) in v.operations() {
            assert!(o.latency.answered() > 1 && o.latency.p50_ns > 0, "{name}");
            assert!(o.bytes_per_s > 0.0, "{name}");
        }
        // All blocks of SEND arrived; no other block is a message.
        server.wait_for("bytes in messages").await;
        let sent = v.send.bytes_per_s * PART.as_secs_f64();
        let lines = server.lines.borrow();
        let line = lines.iter().find(|l| l.contains("bytes in messages"));
        let bytes: f64 = line
            .and_then(|l| l.split(' ').rev().nth(3)?.parse().ok())
            .expect("a number");
        assert!(
            bytes >= sent.floor() && bytes < 2.0 * sent,
            "{bytes}, {sent}"
        );
    });
}

#[test]
fn a_machine_without_a_device_has_the_reason() {
    simulated(async {
        let server = Server::start(64);
        server.wait_for("listening over RDMA").await;
        devices::remove_device(Node::current());
        let p = probe(server.at, |_| {}).await;
        let why = p.no_verbs.expect("a reason");
        assert!(why.contains("this machine has no RDMA device"), "{why}");
        assert!(p.verbs.is_none() && !p.transfers.is_empty());
        devices::restore_device(Node::current());

        let bare = Node::new();
        devices::remove_device(bare);
        let server = Server::start_on(bare, 64);
        server.wait_for("RDMA is not served").await;
        let p = probe(server.at, |_| {}).await;
        let why = p.no_verbs.expect("a reason");
        assert!(why.contains("wirepool probe serve"), "{why}");
    });
}

#[test]
fn other_requests_are_refused_with_the_reason() {
    simulated(async {
        let server = Server::start(1);
        server.wait_for("listening over RDMA").await;
        assert_eq!(refused(server.at, b"hello").await, Some(Refusal::NotAProbe));
        let echo = Request {
            mode: Mode::Echo,
            size: 64,
            millis: 20,
        };
        let echo = echo.encode();
        assert_eq!(refused(server.at, &echo).await, Some(Refusal::Unknown));
        let mut later = request();
        later[9] = 9;
        assert_eq!(refused(server.at, &later).await, Some(Refusal::Version(9)));
        let private = request();
        let held = QueuePair::connect(server.at, sizes(64), &private).await;
        let held = held.expect("the only place");
        assert_eq!(refused(server.at, &private).await, Some(Refusal::Busy));
        drop(held);
        server.wait_for("0 bytes in messages").await;
        assert_eq!(refused(server.at, &private).await, None);
    });
}

/// A message of no kind ends the connection, and so does silence for longer than a part.
#[test]
fn a_peer_that_breaks_the_protocol_is_left() {
    simulated(async {
        let server = Server::start(4);
        server.wait_for("listening over RDMA").await;
        for words in [vec![9, 9], Vec::new()] {
            let connected = QueuePair::connect(server.at, sizes(64), &request()).await;
            let (queue_pair, _) = connected.expect("it is accepted");
            let Ok(QueuePairEvent::Received(offer)) = event(&queue_pair).await else {
                panic!("no offer");
            };
            assert_eq!(offer.len(), OFFER_LEN);
            let is_silent = words.is_empty();
            if !is_silent {
                send(&queue_pair, words);
            }
            let ended = loop {
                if let QueuePairEvent::Ended(why) = queue_pair.event().await {
                    break why;
                }
            };
            assert_eq!(ended, Ending::Peer);
            let said = if is_silent {
                "was silent"
            } else {
                "broke the protocol"
            };
            server.wait_for(said).await;
        }
    });
}

#[test]
fn a_device_that_vanishes_ends_the_measurement_with_the_reason() {
    simulated(async {
        let server = Server::start(4);
        server.wait_for("listening over RDMA").await;
        let machine = server.machine;
        let p = probe(server.at, move |part| {
            if part.starts_with("WRITE") {
                devices::remove_device(machine);
            }
        });
        let why = p.await.no_verbs.expect("a reason");
        assert!(why.starts_with("WRITE: "), "{why}");
        server.wait_for("the device was removed").await;
    });
}
