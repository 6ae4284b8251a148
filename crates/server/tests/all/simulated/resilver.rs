//! Resilvers of a server's pool: their rate, and other members meanwhile.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, write};
use io::sim::{Sim, SimConfig};
use io::time::sleep;
use server::ByteSize;
use server::api::{
    AddVdevs, Health, OfflineMember, OnlineMember, ResilverPool, ScanState, VdevSpec,
};
use std::time::Duration;

/// A resilver that has a rate rests after each part; clients wait neither for that nor for checkpoints that come meanwhile.
#[test]
fn a_resilver_keeps_to_its_rate_and_holds_no_client_up() {
    const RATE: u64 = 1 << 20;
    const BLOCKS: u64 = 8192;
    // parts are of 4 MiB, about
    const PART_MAX: u64 = 8 << 20;
    Sim::new(17, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, async |server| {
            make(server).await;
            let offline = OfflineMember {
                pool: "tank".into(),
                disk: "/b".into(),
            };
            server.offline_member(offline).await.expect("offline");
        })
        .await;
        let (_client, namespace) = connect(&node).await;
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, 1).await;
        }
        namespace.flush().await.expect("flushed");
        let serving = node.spawn(async move {
            let pace = ResilverPool {
                name: "tank".into(),
                rate: Some(ByteSize(RATE)),
            };
            server.resilver_pool(pace).await.expect("paced");
            let online = OnlineMember {
                pool: "tank".into(),
                disk: "/b".into(),
                path: None,
                expand: false,
            };
            server.online_member(online).await.expect("online");
            server
        });
        let server = serving.await.expect("it serves");
        let began = io::time::now();
        let mut slowest = Duration::ZERO;
        let mut turn = 0;
        let resilvered = loop {
            let asked = io::time::now();
            write(&namespace, turn * 7 % BLOCKS, 1, 2).await;
            namespace.flush().await.expect("flushed");
            let (read, _) = namespace
                .read(turn * 11 % BLOCKS, io::pool().alloc(4096).await)
                .await;
            read.expect("read");
            slowest = slowest.max(asked.elapsed());
            turn += 1;
            let shown = server.pools()[0].resilver.clone().unwrap_or_default();
            let most = RATE as f64 * began.elapsed().as_secs_f64();
            assert!(shown.done <= most as u64 + PART_MAX, "{shown:?}, {most}");
            if shown.state == ScanState::Finished {
                break shown;
            }
            sleep(Duration::from_millis(4)).await;
        };
        // what the client overwrote before it was met need not be copied
        assert!(resilvered.copied >= BLOCKS / 8, "{resilvered:?}");
        let least = Duration::from_secs_f64(resilvered.done as f64 / RATE as f64);
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        assert!(slowest < Duration::from_millis(50), "{slowest:?}");
        assert_eq!(server.pools()[0].health, Some(Health::Online));
    });
}

/// A disk that came back waited for the resilver of another one, which may take hours at its rate; so did a new rate.
#[test]
fn a_slow_resilver_keeps_no_other_disk_out() {
    Sim::new(18, SimConfig::default()).block_on(async {
        let (node, [_, b, _, d]) = machine(["/a", "/b", "/c", "/d"], &disk());
        let server = serve_new(&node, async |server| {
            make(server).await;
            let more = AddVdevs {
                pool: "tank".into(),
                vdevs: vec![VdevSpec::mirror(["/c", "/d"].map(Into::into).to_vec())],
                spares: Vec::new(),
                caches: Vec::new(),
                size: None,
                force: false,
            };
            server.add_vdevs(more).await.expect("added");
        })
        .await;
        let (_client, namespace) = connect(&node).await;
        let pace = async |rate| {
            let pace = ResilverPool {
                name: "tank".into(),
                rate: Some(ByteSize(rate)),
            };
            server.resilver_pool(pace).await.expect("paced");
        };
        let wait_for = async |vdev: usize, state: &str| {
            for n in 0..600 {
                if server.pools()[0].vdevs[vdev].members[1].state == state {
                    return;
                }
                write(&namespace, n * 16, 16, 1).await;
                namespace.flush().await.expect("flushed");
                sleep(Duration::from_millis(100)).await;
            }
            panic!("not {state}: {:?}", server.pools());
        };
        pace(1).await;
        b.kill();
        wait_for(0, "faulted").await;
        b.revive();
        wait_for(0, "stale").await;
        d.kill();
        wait_for(1, "faulted").await;
        d.revive();
        wait_for(1, "stale").await;
        assert_eq!(server.pools()[0].vdevs[0].members[1].state, "stale");
        pace(0).await;
        wait_for(0, "online").await;
        wait_for(1, "online").await;
    });
}
