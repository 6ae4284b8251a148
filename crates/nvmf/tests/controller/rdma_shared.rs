//! The target over RDMA with receives that its connections share.

use crate::fixture::ram;
use crate::host::{blocks, pattern};
use crate::rdma::{
    Served, closed, config, connected, quiet, read, run, serve_on, take_nothing_beside_a_good_one,
    write,
};
use crate::rdma_host::{ENTRIES, RdmaHost, sizes};
use io::rdma::Ending;
use io::sim::{Node, rdma as devices};
use io::time::sleep;
use nvmf::controller::{CloseReason, TargetConfig};
use nvmf::wire::opcode::io as nvm;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);
/// Receives of the target.
const SHARED: u32 = 256;

fn shared() -> TargetConfig {
    TargetConfig {
        rdma_shared_receives: SHARED,
        ..TargetConfig::default()
    }
}

async fn serve() -> Served {
    serve_on(Node::new(), shared(), ram(4 << 20)).await
}

/// A host reads and writes with the data in the capsule and outside of it.
async fn works(served: &Served, host: u8) {
    let (controller, ns) = connected(config(served.addr, host)).await;
    for len in [512, 4096, 1 << 20] {
        let bytes = pattern(len, host);
        write(&ns, 0, &bytes).await;
        assert!(read(&ns, 0, len).await == bytes);
    }
    drop(ns);
    controller.shutdown().await;
}

#[test]
fn a_thousand_idle_connections_have_the_receives_of_one_queue() {
    run(1, async {
        let served = serve().await;
        let machine = Node::new();
        let addr = served.addr;
        let idle = machine.spawn(async move {
            let mut all = Vec::new();
            for host in 1..=200 {
                let admin = RdmaHost::admin(addr, host, 0).await;
                for qid in 1..=4 {
                    all.push(RdmaHost::io(addr, &admin, host, (qid, sizes())).await);
                }
                all.push(admin);
            }
            all
        });
        let idle = idle.await.expect("not killed");
        assert_eq!(devices::queue_pairs(served.machine), 1000);
        assert_eq!(devices::receives(served.machine), SHARED as usize);
        works(&served, 201).await;
        sleep(SEC).await;
        assert_eq!(devices::receives(served.machine), SHARED as usize);
        drop(idle);
        quiet(&served).await;
        assert_eq!(devices::receives(served.machine), 0);
    });
}

/// A host with more commands than its queue has entries is disconnected; its receives return, and others do not notice.
#[test]
fn a_host_that_sends_too_much_gives_the_receives_back() {
    run(3, async {
        let served = serve().await;
        let idle = RdmaHost::admin(served.addr, 1, 0).await;
        let admin = RdmaHost::admin(served.addr, 2, 0).await;
        let mut bad = RdmaHost::io(served.addr, &admin, 2, (1, sizes())).await;
        for _ in 0..4 * ENTRIES {
            bad.send(blocks(nvm::READ, 0, 1), &[]);
        }
        assert_eq!(bad.ended().await, Ending::Peer);
        sleep(SEC).await;
        assert!(closed(&served).contains(&CloseReason::Protocol));
        drop((bad, admin));
        works(&served, 3).await;
        sleep(SEC).await;
        assert_eq!(devices::receives(served.machine), SHARED as usize);
        drop(idle);
        quiet(&served).await;
    });
}

#[test]
fn hosts_that_take_nothing_do_not_slow_a_good_one() {
    take_nothing_beside_a_good_one(shared());
}
