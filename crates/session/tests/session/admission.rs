//! Admission of new connections in the simulator, while a flood evicts itself.

use crate::{Open, Reason};
use io::net::{TcpListener, TcpStream};
use io::sim::{Node, Sim, SimConfig};
use io::time::sleep;
use session::admission::AdmissionLimits;
use session::connections::Connections;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Serves connections of which those of `good` log in at once, and others never. Returns the numbers of admitted and of refused
/// connections of `good`.
fn serve(addr: SocketAddr, good: IpAddr) -> Rc<(Cell<u32>, Cell<u32>)> {
    let all = Rc::new(Connections::<Open, Reason>::new(AdmissionLimits {
        connections_max: 64,
        connecting_max: 16,
        discovery_max: 1,
        companions: 1,
    }));
    let counts = Rc::new((Cell::new(0), Cell::new(0)));
    let counted = counts.clone();
    let listener = TcpListener::bind(addr).expect("bind");
    drop(io::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            let (all, counts) = (all.clone(), counted.clone());
            drop(io::spawn(async move {
                let is_good = stream.peer_addr().ip() == good;
                let admitted = all.admit(&stream, Open, Duration::from_secs(1)).await;
                let Some(mut admitted) = admitted else {
                    counts.1.set(counts.1.get() + u32::from(is_good));
                    return;
                };
                if is_good {
                    counts.0.set(counts.0.get() + 1);
                    admitted.place.established(false, true).expect("a place");
                }
                while admitted.signal.close_reason().is_none() {
                    sleep(Duration::from_millis(1)).await;
                }
                // The end of a connection takes time: it may be on another shard.
                sleep(Duration::from_millis(3)).await;
                all.ended(admitted.key, Open, Reason::Limit);
                all.closed();
            }));
        }
    }));
    counts
}

/// Regression: 32 evicted connections that had not ended yet made the server reset every new connection, also of known hosts:
/// beside 6,000 silent connections, two of five connects failed.
#[test]
fn a_flood_that_evicts_itself_resets_no_other_host() {
    Sim::new(12, SimConfig::default()).block_on(async {
        let (server, good, flood) = (Node::new(), Node::new(), Node::new());
        let addr = server.addr(7);
        let good_ip = good.addr(1).ip();
        let serving = server.spawn(async move { serve(addr, good_ip) });
        let counts = serving.await.expect("not killed");
        drop(flood.spawn(async move {
            for _ in 0..2000 {
                drop(io::spawn(async move {
                    let stream = TcpStream::connect(addr).await;
                    sleep(Duration::from_secs(60)).await;
                    drop(stream);
                }));
                sleep(Duration::from_micros(50)).await;
            }
        }));
        let connects = good.spawn(async move {
            let mut held = Vec::new();
            for _ in 0..5 {
                sleep(Duration::from_millis(10)).await;
                held.push(TcpStream::connect(addr).await.expect("connected"));
            }
            sleep(Duration::from_secs(10)).await;
            held.len()
        });
        assert_eq!(connects.await, Some(5));
        assert_eq!((counts.0.get(), counts.1.get()), (5, 0));
    });
}
