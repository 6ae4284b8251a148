//! Properties of the simulator alone: power cuts, partitions, failing media; and that one seed always gives one history.

use io::disk::{Disk, OpenOptions};
use io::net::{TcpListener, TcpOptions, TcpStream};
use io::sim::{DiskConfig, Forked, LinkConfig, Node, PowerCutFate, Sim, SimConfig, fork, network};
use io::time::{now, sleep};
use io::{Error, Payload, RecvBuf, SendBatch, pool, spawn, timeout};
use std::collections::BTreeSet;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);

fn run<T: 'static>(seed: u64, f: impl Future<Output = T> + 'static) -> T {
    Sim::new(seed, SimConfig::default()).block_on(f)
}

async fn open() -> Disk {
    let opened = Disk::open("disk", OpenOptions::default()).await;
    opened.expect("open")
}

async fn write(d: &Disk, block: u64, byte: u8, through: bool) -> io::Result<()> {
    let mut buf = pool().alloc(4096).await;
    buf.fill(byte);
    match through {
        true => d.write_through(buf, block * 4096).await.map(drop),
        false => d.write(buf, block * 4096).await,
    }
}

async fn first_byte(d: &Disk, block: u64) -> io::Result<u8> {
    let (r, buf) = d.read(pool().alloc(4096).await, block * 4096).await;
    r.map(|()| buf[0])
}

async fn send(s: &TcpStream, bytes: Vec<u8>) -> io::Result<()> {
    let mut batch = SendBatch::new();
    batch.put_payload(Payload::from(bytes));
    s.send(batch).await.0
}

async fn recv_all(s: &TcpStream, n: usize) -> io::Result<Vec<u8>> {
    let mut staging = RecvBuf::new(n);
    while staging.readable().len() < n {
        let (r, back) = s.recv(staging).await;
        staging = back;
        if r? == 0 {
            return Err(Error::Closed);
        }
    }
    Ok(staging.readable().to_vec())
}

/// A server that echoes 4-byte messages on port 7.
async fn echo() {
    let l = TcpListener::bind("0.0.0.0:7".parse().expect("an address")).expect("bind");
    while let Ok(s) = l.accept().await {
        spawn(async move {
            while let Ok(m) = recv_all(&s, 4).await {
                if send(&s, m).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(s: &TcpStream) -> io::Result<()> {
    send(s, b"ping".to_vec()).await?;
    recv_all(s, 4).await.map(|m| assert_eq!(m, b"ping"))
}

/// A server and a client with a connection between them.
async fn connected() -> (Node, Node, TcpStream) {
    let (server, client) = (Node::new(), Node::new());
    server.spawn(echo());
    let s = client.spawn(async move {
        sleep(Duration::from_millis(1)).await;
        let s = TcpStream::connect(server.addr(7)).await.expect("connect");
        ask(&s).await.expect("an answer");
        s
    });
    (server, client, s.await.expect("not killed"))
}

/// Uses sockets, disks and timers at once.
async fn busy() -> u64 {
    let (server, client, s) = connected().await;
    server.create_disk("disk", DiskConfig::default());
    let writer = server.spawn(async {
        let d = open().await;
        let jobs: Vec<_> = (0..32u8)
            .map(|i| {
                let d = d.clone();
                spawn(async move { write(&d, u64::from(i) % 7, i, i % 3 == 0).await })
            })
            .collect();
        for j in jobs {
            j.await.expect("not killed").expect("write");
        }
    });
    for _ in 0..20 {
        ask(&s).await.expect("an answer");
    }
    writer.await.expect("not killed");
    server.power_cut();
    network::partition(server, client);
    io::rng::u64()
}

#[test]
fn a_seed_gives_one_history_and_another_seed_another() {
    let history = |seed| {
        let sim = Sim::new(seed, SimConfig::default());
        let random = sim.block_on(busy());
        (random, sim.trace_hash())
    };
    let all: Vec<_> = (0..10).map(history).collect();
    let again: Vec<_> = (0..10).map(history).collect();
    assert_eq!(all, again);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 10);
}

#[test]
fn a_power_cut_keeps_flushed_writes_and_may_keep_others() {
    let outcome = |seed, fate| {
        run(seed, async move {
            let node = Node::new();
            let config = DiskConfig {
                power_cut: fate,
                ..DiskConfig::default()
            };
            node.create_disk("disk", config);
            let writer = node.spawn(async {
                let d = open().await;
                write(&d, 0, 1, false).await.expect("write");
                let _ = d.flush().await.expect("flush");
                write(&d, 0, 2, false).await.expect("write");
                write(&d, 1, 3, true).await.expect("write");
                write(&d, 2, 4, false).await.expect("write");
            });
            writer.await.expect("not killed");
            node.power_cut();
            node.power_on();
            let reader = node.spawn(async {
                let d = open().await;
                [0, 1, 2].map(|b| {
                    spawn({
                        let d = d.clone();
                        async move { first_byte(&d, b).await }
                    })
                })
            });
            let mut seen = Vec::new();
            for r in reader.await.expect("not killed") {
                seen.push(r.await.expect("not killed").expect("read"));
            }
            seen
        })
    };
    assert_eq!(outcome(1, PowerCutFate::AllLost), [1, 3, 0]);
    assert_eq!(outcome(1, PowerCutFate::AllKept), [2, 3, 4]);
    let seen: BTreeSet<_> = (0..60).map(|s| outcome(s, PowerCutFate::Any)).collect();
    assert!(
        seen.iter()
            .all(|o| [1, 2].contains(&o[0]) && o[1] == 3 && [0, 4].contains(&o[2]))
    );
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_scripted_power_cut_drops_the_tasks_of_its_node_alone() {
    for steps in 0..40 {
        run(steps, async move {
            let (server, client) = (Node::new(), Node::new());
            server.create_disk("disk", DiskConfig::default());
            server.power_cut_after(steps);
            let victim = server.spawn(async {
                let d = open().await;
                loop {
                    write(&d, 0, 1, false)
                        .await
                        .expect("an error of a dead machine is seen by nobody");
                }
            });
            let bystander = client.spawn(async {
                sleep(SEC).await;
                7
            });
            assert_eq!(victim.await, None::<()>);
            assert!(!server.is_on() && client.is_on());
            server.power_on();
            let again = server.spawn(async { first_byte(&open().await, 0).await });
            assert!(matches!(again.await, Some(Ok(0 | 1))));
            assert_eq!(bystander.await, Some(7));
        });
    }
}

#[test]
fn a_partition_delays_and_a_long_one_ends_the_connection() {
    for seed in 0..20 {
        run(seed, async {
            let (server, client, s) = connected().await;
            network::partition(server, client);
            let start = now();
            let asked = client.spawn(async move {
                ask(&s).await.expect("an answer after the partition");
                s
            });
            sleep(15 * SEC).await;
            assert!(!asked.is_finished());
            network::heal(server, client);
            let s = asked.await.expect("not killed");
            assert!(now().since(start) < 20 * SEC);
            let options = TcpOptions {
                user_timeout: Some(5 * SEC),
                ..TcpOptions::default()
            };
            s.set_options(&options).expect("set");
            network::partition(server, client);
            assert_eq!(ask(&s).await, Err(Error::TimedOut));
            assert!(now().since(start) < 40 * SEC);
            let late = timeout(SEC, client.spawn(TcpStream::connect(server.addr(7)))).await;
            assert!(late.is_err(), "a connection attempt waits");
        });
    }
}

#[test]
fn a_server_that_lost_its_power_resets_old_connections_when_it_is_back() {
    for seed in 0..20 {
        run(seed, async {
            let (server, client, s) = connected().await;
            server.power_cut();
            let silent = timeout(60 * SEC, s.recv(RecvBuf::new(8))).await;
            assert!(silent.is_err(), "nobody tells the client");
            server.power_on();
            assert_eq!(ask(&s).await, Err(Error::Closed));
            let refused = client.spawn(TcpStream::connect(server.addr(7))).await;
            assert!(matches!(refused, Some(Err(Error::Unreachable(_)))));
            server.spawn(echo());
            sleep(SEC).await;
            let s = client.spawn(TcpStream::connect(server.addr(7))).await;
            let s = s.expect("not killed").expect("connect");
            ask(&s).await.expect("an answer");
            server.kill();
            assert_eq!(ask(&s).await, Err(Error::Closed));
        });
    }
}

#[test]
fn resets_and_losses_and_unknown_hosts() {
    for seed in 0..20 {
        run(seed, async {
            let (server, client, s) = connected().await;
            network::reset_connections(server, client);
            sleep(SEC).await;
            assert_eq!(ask(&s).await, Err(Error::Closed));
            let lossy = LinkConfig {
                loss: 0.3,
                ..LinkConfig::default()
            };
            network::set_link(server, client, lossy);
            let s = client.spawn(TcpStream::connect(server.addr(7))).await;
            let s = s.expect("not killed").expect("connect");
            for _ in 0..50 {
                ask(&s).await.expect("an answer");
            }
            let nowhere = "10.9.9.9:7".parse().expect("an address");
            let r = client.spawn(TcpStream::connect(nowhere)).await;
            assert!(matches!(r, Some(Err(Error::Unreachable(_)))));
        });
    }
}

#[test]
fn media_have_the_injected_faults() {
    run(1, async {
        let node = Node::new();
        let disk = node.create_disk(
            "disk",
            DiskConfig {
                short: 0.0,
                kind: io::disk::DiskKind::File,
                ..DiskConfig::default()
            },
        );
        let done = node.spawn(async move {
            let d = open().await;
            write(&d, 3, 5, false).await.expect("write");
            disk.fail_reads(3 * 4096..4 * 4096);
            assert!(matches!(first_byte(&d, 3).await, Err(Error::Media(_))));
            assert_eq!(first_byte(&d, 2).await, Ok(0));
            write(&d, 3, 6, false).await.expect("a write repairs");
            assert_eq!(first_byte(&d, 3).await, Ok(6));
            disk.fail_writes(0..4096);
            assert!(matches!(write(&d, 0, 1, false).await, Err(Error::Media(_))));
            disk.heal();
            disk.set_space(Some(2 * 4096));
            write(&d, 0, 1, false)
                .await
                .expect("there is room for one more");
            assert_eq!(write(&d, 9, 1, false).await, Err(Error::NoSpace));
            write(&d, 3, 7, false)
                .await
                .expect("what has its space can be rewritten");
            disk.heal();
            disk.set_space(Some(4 * 4096));
            assert_eq!(d.reserve(8 * 4096, 3 * 4096).await, Err(Error::NoSpace));
            d.reserve(8 * 4096, 2 * 4096).await.expect("there is room");
            assert_eq!(disk.used(), 4 * 4096);
            write(&d, 9, 1, false).await.expect("its space is reserved");
            assert_eq!(write(&d, 10, 1, false).await, Err(Error::NoSpace));
            disk.heal();
            let before = now();
            disk.stall_next(30 * SEC);
            write(&d, 1, 1, false).await.expect("write");
            assert!(now().since(before) >= 30 * SEC);
            disk.misdirect_next_write(20 * 4096);
            write(&d, 21, 8, false).await.expect("it says so");
            assert_eq!(
                (first_byte(&d, 20).await, first_byte(&d, 21).await),
                (Ok(8), Ok(0))
            );
            disk.rot(20 * 4096..21 * 4096);
            let (r, buf) = d.read(pool().alloc(4096).await, 20 * 4096).await;
            r.expect("rot is silent");
            assert_eq!(buf.iter().filter(|b| **b != 8).count(), 1);
            let _ = d.flush().await.expect("flush");
            disk.kill();
            assert!(matches!(write(&d, 0, 1, false).await, Err(Error::Gone(_))));
            disk.revive();
            assert!(matches!(write(&d, 0, 1, false).await, Err(Error::Gone(_))));
            drop(d);
            assert_eq!(first_byte(&open().await, 3).await, Ok(7));
        });
        done.await.expect("not killed");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deadlock_panics_with_the_seed() {
    run(1, std::future::pending::<()>());
}

/// A run that goes on in a copy of the process ends as the run that was not copied, and the original is not changed.
#[test]
fn a_copy_of_a_run_has_the_same_future() {
    async fn begin() -> Disk {
        Node::current().create_disk("disk", DiskConfig::default());
        let disk = open().await;
        write(&disk, 1, 7, false).await.expect("a write");
        disk
    }
    async fn go_on(disk: Disk, byte: u8) -> Vec<u8> {
        write(&disk, 1, byte, true).await.expect("a write");
        vec![first_byte(&disk, 1).await.expect("a read"), byte]
    }
    let straight = run(3, async { (go_on(begin().await, 9).await, now()) });
    let copied = run(3, async {
        let disk = begin().await;
        for byte in [8, 9] {
            match fork().expect("a copy") {
                Forked::Copy(report) => {
                    let mut bytes = go_on(disk, byte).await;
                    bytes.extend(format!("{:?}", now()).into_bytes());
                    report.send(&bytes);
                }
                Forked::Original(copy) => {
                    let report = copy.wait().expect("a pipe").expect("a report");
                    assert_eq!(report[..2], [byte, byte]);
                    if byte == 9 {
                        return report;
                    }
                }
            }
        }
        unreachable!("the last copy has byte 9")
    });
    let (bytes, at) = straight;
    assert_eq!(copied, [bytes, format!("{at:?}").into_bytes()].concat());
}

#[test]
fn a_copy_that_panics_has_no_report() {
    let report = run(1, async {
        match fork().expect("a copy") {
            Forked::Copy(_report) => panic!("on purpose"),
            Forked::Original(copy) => copy.wait().expect("a pipe"),
        }
    });
    assert_eq!(report, None);
}
