//! The initiator against our service over RDMA, on the simulated verbs device.

use super::RUNS;
use super::pair::{NEW, service};
use io::rdma::RdmaListener;
use io::sim::{Node, network, rdma as devices};
use nfs::service::{NfsTransport, Service};
use nfs_initiator::{Config, Error, File, LinkState, Session, Stable};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use testkit::{empty, pattern};

/// A service on a machine of its own.
struct Served {
    service: Service,
    addr: SocketAddr,
    machine: Node,
}

async fn served() -> Served {
    let machine = Node::new();
    let starting = machine.spawn(async move {
        let service = service();
        let listener = RdmaListener::bind(machine.addr(20049)).expect("a free port");
        let addr = listener.local_addr();
        let serving = service.clone();
        drop(io::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                let service = serving.clone();
                drop(io::spawn(async move { service.serve_rdma(incoming).await }));
            }
        }));
        (service, addr)
    });
    let (service, addr) = starting.await.expect("not killed");
    Served {
        service,
        addr,
        machine,
    }
}

fn over_rdma(addr: SocketAddr) -> Config {
    Config {
        transport: NfsTransport::Rdma,
        slots: 8,
        ..Config::new(addr)
    }
}

/// Waits until the service has no connection left: then its machine has no queue pair, and all buffers are back.
async fn quiet(served: &Served) {
    for _ in 0..100 {
        io::time::sleep(Duration::from_secs(1)).await;
        let states = served.service.counters().connections.states;
        if states.iter().all(|(_, count)| *count == 0) {
            io::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(devices::queue_pairs(served.machine), 0);
            assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
            return;
        }
    }
    panic!("connections stay");
}

/// Runs a test in the simulated world, on a machine of its own.
fn simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F + Clone + 'static) {
    RUNS.simulated(move || {
        let test = test.clone();
        async move {
            let running = Node::new().spawn(async move { test().await });
            running.await.expect("not killed");
        }
    });
}

#[test]
fn data_of_all_sizes_is_read_as_it_was_written() {
    for remote_invalidation in [false, true] {
        simulated(move || async move {
            let served = served().await;
            let config = Config {
                connections: 2,
                remote_invalidation,
                ..over_rdma(served.addr)
            };
            let session = Session::connect(config).await.expect("it serves");
            assert_eq!((session.links().len(), session.queue_pairs().len()), (0, 2));
            let home = session.walk("/tank/home").await.expect("the export");
            let file = session.open(&home, "disk", NEW).await.expect("a new file");
            let file = Rc::new(file);
            // Lengths that need padding, that fit a message, and that do not; more calls than slots.
            let lens = [1, 3000, 3700, 4095, 4096, 20_000, 300_001, 1 << 20];
            let mut running = Vec::new();
            for (n, len) in (0_u64..).zip(lens.into_iter().cycle().take(32)) {
                let file = file.clone();
                running.push(io::spawn(async move {
                    let (at, data) = (n << 20, pattern(len, n).await);
                    let stable = [Stable::Unstable, Stable::Data, Stable::File][n as usize % 3];
                    assert_eq!(file.write(at, data.clone(), stable).await, Ok(len));
                    let (read, buf) = file.read(at, empty(len).await).await;
                    assert_eq!(read, Ok(len));
                    assert!(buf[..] == data[..], "write {n}");
                }));
            }
            for one in running {
                one.await;
            }
            file.commit().await.expect("durable");
            let end = 32 << 20;
            let (read, buf) = file.read(end - 10, empty(4096).await).await;
            assert_eq!(read, Ok(10), "the file ends");
            drop(buf);
            let (read, buf) = file.read(end, empty(4096).await).await;
            assert_eq!(read, Ok(0));
            drop(buf);
            let file = Rc::into_inner(file).expect("no other use");
            file.close().await.expect("open until now");
            session.close().await;
            assert_eq!(served.service.counters().rdma_faults, 0);
            quiet(&served).await;
        });
    }
}

#[test]
fn long_listings_arrive() {
    simulated(|| async {
        let served = served().await;
        let session = Session::connect(over_rdma(served.addr)).await;
        let session = session.expect("it serves");
        let home = session.walk("/tank/home").await.expect("the export");
        for n in 0..1000 {
            let file = session.open(&home, &format!("file {n}"), NEW).await;
            file.expect("new").close().await.expect("open");
        }
        let (mut names, mut page) = (Vec::new(), None);
        loop {
            let next = session.read_directory(&home, page.as_ref()).await;
            let next = next.expect("a directory");
            names.extend(next.entries.iter().map(|entry| entry.name.clone()));
            let is_end = next.is_end;
            page = Some(next);
            if is_end {
                break;
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
        session.close().await;
        quiet(&served).await;
    });
}

/// Writes and reads one MiB at this place, until that fails.
async fn write_and_read(file: Rc<File>, n: u64) -> Result<Infallible, Error> {
    let data = pattern(1 << 20, n).await;
    loop {
        file.write(n << 20, data.clone(), Stable::File).await?;
        file.read(n << 20, empty(1 << 20).await).await.0?;
    }
}

#[test]
fn a_lost_link_and_a_dead_server_end_the_session() {
    for case in 0..3 {
        simulated(move || async move {
            let served = served().await;
            let config = Config {
                command_timeout: Duration::from_secs(20),
                ..over_rdma(served.addr)
            };
            let session = Session::connect(config).await.expect("it serves");
            let home = session.walk("/tank/home").await.expect("the export");
            let file = session.open(&home, "disk", NEW).await.expect("a new file");
            let file = Rc::new(file);
            let mut running = Vec::new();
            for n in 0..16_u64 {
                running.push(io::spawn(write_and_read(file.clone(), n)));
            }
            io::time::sleep(Duration::from_millis(50)).await;
            match case {
                0 => served.machine.power_cut(),
                1 => network::partition(Node::current(), served.machine),
                _ => devices::remove_device(served.machine),
            }
            for one in running {
                let ended = one.await.expect("not killed");
                let Err(ended) = ended;
                assert!(
                    matches!(ended, Error::Disconnected | Error::Timeout | Error::Closed),
                    "{ended}"
                );
            }
            assert_eq!(session.state(), LinkState::Lost);
            drop((file, session));
            io::time::sleep(Duration::from_secs(200)).await;
            assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
        });
    }
}

#[test]
fn a_server_that_listens_for_tcp_only_is_unreachable() {
    simulated(|| async {
        let machine = Node::new();
        let refused = Session::connect(over_rdma(machine.addr(20049))).await;
        assert!(matches!(
            refused.map(drop),
            Err(Error::Unreachable(_) | Error::NotAccepted | Error::Timeout)
        ));
    });
}
