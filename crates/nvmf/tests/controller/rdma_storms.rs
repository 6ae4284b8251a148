//! The target over RDMA under storms: connection requests by the thousand, and messages that find no receive.

use crate::fixture::ram;
use crate::host::{BLOCK, blocks, pattern};
use crate::rdma::{Served, closed, config, connected, quiet, read, run, serve_on, write};
use crate::rdma_host::{ENTRIES, RdmaHost, buffer, keyed, sizes};
use io::rdma::{ConnectError, Memory, QueuePair, QueuePairConfig};
use io::sim::{Node, rdma as devices};
use io::spawn;
use io::time::sleep;
use nvmf::controller::TargetConfig;
use nvmf::wire::opcode::io as nvm;
use nvmf::wire::rdma::{CmReject, CmRequest, RejectStatus};
use std::time::Duration;
use zerocopy::IntoBytes;

async fn serve(config: TargetConfig) -> Served {
    serve_on(Node::new(), config, ram(4 << 20)).await
}

/// 10,000 connection requests at once, which are right and followed by nothing: those without a place are answered, queue pairs stay
/// bounded, a host that was there goes on, and a new one is let in.
#[test]
fn ten_thousand_connection_requests_keep_no_host_out() {
    const REQUESTS: usize = 10_000;
    const CONNECTING_MAX: usize = 64;
    run(21, async {
        let served = serve(TargetConfig {
            connecting_max: CONNECTING_MAX,
            connections_max: 256,
            ..TargetConfig::default()
        })
        .await;
        let addr = served.addr;
        let (_controller, ns) = connected(config(addr, 1)).await;
        let attacker = Node::new();
        let flood = attacker.spawn(async move {
            let private = CmRequest::new(0, ENTRIES, 0);
            let connect = || {
                spawn(async move { QueuePair::connect(addr, sizes(), private.as_bytes()).await })
            };
            let all: Vec<_> = (0..REQUESTS).map(|_| connect()).collect();
            let (mut accepted, mut refused) = (Vec::new(), 0);
            for asked in all {
                match asked.await.expect("not killed") {
                    Ok((queue_pair, _)) => accepted.push(queue_pair),
                    Err(ConnectError::Rejected(private)) => {
                        let status = CmReject::parse(&private).expect("a rejection says why");
                        assert_eq!(status, RejectStatus::NoResources);
                        refused += 1;
                    }
                    // The listener's backlog was full.
                    Err(ConnectError::Failed(_)) => refused += 1,
                }
            }
            (accepted, refused)
        });
        let mut most = 0;
        for n in 0..100 {
            let bytes = pattern(4096, n);
            write(&ns, 0, &bytes).await;
            assert!(read(&ns, 0, 4096).await == bytes);
            most = most.max(devices::queue_pairs(served.machine));
        }
        let (accepted, refused) = flood.await.expect("not killed");
        assert_eq!(accepted.len() + refused, REQUESTS);
        assert!(refused > 0 && !accepted.is_empty());
        most = most.max(devices::queue_pairs(served.machine));
        let bound = io::limits::RDMA_BACKLOG + 256 + CONNECTING_MAX;
        assert!(most <= bound, "{most} queue pairs, at most {bound}");
        let (controller, late) = connected(config(addr, 2)).await;
        assert!(read(&late, 0, 4096).await == pattern(4096, 99));
        drop((late, controller, ns, _controller, accepted));
        attacker.kill();
        quiet(&served).await;
        assert_eq!(io::pool().stats().used, 0);
    });
}

/// Far more messages at once than the receives that all connections share: the hosts' devices send them again, and no command is lost.
#[test]
fn a_storm_of_messages_without_receives_loses_nothing() {
    const HOSTS: u8 = 32;
    const SHARED: u32 = 128;
    run(22, async {
        let served = serve(TargetConfig {
            rdma_shared_receives: SHARED,
            ..TargetConfig::default()
        })
        .await;
        let addr = served.addr;
        let storm = Node::new().spawn(async move {
            let mut hosts = Vec::new();
            for host in 1..=HOSTS {
                let admin = RdmaHost::admin(addr, host, 0).await;
                let io = RdmaHost::io(addr, &admin, host, (1, sizes())).await;
                hosts.push((admin, io));
            }
            for (_, io) in &mut hosts {
                for _ in 0..ENTRIES - 1 {
                    io.send(blocks(nvm::WRITE_ZEROES, 0, 1), &[]);
                }
            }
            let mut replies = 0;
            for (_, io) in &hosts {
                for _ in 0..ENTRIES - 1 {
                    drop(io.received().await);
                    replies += 1;
                }
            }
            (replies, hosts)
        });
        let (replies, hosts) = storm.await.expect("not killed");
        assert_eq!(replies, usize::from(HOSTS) * usize::from(ENTRIES - 1));
        assert!(replies > 7 * SHARED as usize, "it was a storm");
        assert_eq!(closed(&served), []);
        drop(hosts);
        quiet(&served).await;
    });
}

/// A host with two receives for 31 replies: the target's device sends each reply until it is taken, and no reply is lost.
#[test]
fn replies_wait_for_the_receives_of_a_slow_host() {
    run(23, async {
        let served = serve(TargetConfig::default()).await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let two = QueuePairConfig {
            receives: 2,
            ..sizes()
        };
        let mut io = RdmaHost::io(served.addr, &admin, 1, (1, two)).await;
        for _ in 0..ENTRIES - 1 {
            let memory = Memory::Writable(buffer(8, 0).await);
            let mut sqe = blocks(nvm::READ, 0, 8);
            sqe.sgl = keyed(io.queue_pair.expose(memory).expect("it is connected"));
            io.send(sqe, &[]);
        }
        for _ in 0..ENTRIES - 1 {
            let message = io.received().await;
            let (_, memory) = message.withdrawn.as_ref().expect("the reply withdraws it");
            let Memory::Writable(buf) = memory else {
                panic!("it was writable")
            };
            assert_eq!(buf.len(), 8 * BLOCK);
            // The receive is free again only after this.
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(closed(&served), []);
        drop((admin, io));
        quiet(&served).await;
    });
}
