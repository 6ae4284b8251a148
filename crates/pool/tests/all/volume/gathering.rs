//! Flushes that wait for the requests that clients send at once.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use io::time::sleep;
use pool::{Pool, Volume};

use crate::volume::{BLOCK, disk_config, pool_with_volume};

const CLIENTS: u64 = 16;
const WRITES: u64 = 40;

fn flushes(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.times.flush.count()).sum()
}

/// Writes durably, one write after the other, each `pause` after the answer to the one before.
async fn client(volume: Volume, number: u64, pause: Duration) {
    for n in 0..WRITES {
        let mut data = io::pool().alloc(BLOCK).await;
        data.fill(n as u8);
        let _durable = volume
            .write_durable(Lba(number), data)
            .await
            .expect("written");
        sleep(pause).await;
    }
}

/// Regression: clients behind a network were split into two halves, each of which waited for the flush of the other one.
#[test]
fn clients_behind_a_network_share_one_flush() {
    let slow_to_flush = DiskConfig {
        flush_latency: Some(Latency {
            base: Duration::from_millis(1),
            ..Latency::default()
        }),
        ..disk_config()
    };
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", slow_to_flush);
        node.spawn(many_clients())
            .await
            .expect("the power stays on");
    });
}

async fn many_clients() {
    let (pool, volume) = pool_with_volume().await;
    let before = flushes(&pool);
    let clients = (0..CLIENTS).map(|number| {
        let volume = volume.clone();
        io::spawn(async move {
            // an uneven start
            sleep(Duration::from_micros(300 * number)).await;
            let round_trip = Duration::from_micros(50 + 5 * number);
            client(volume, number, round_trip).await;
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("ended");
    }
    let flushes = flushes(&pool) - before;
    assert!(
        flushes < WRITES * 2,
        "{flushes} flushes for {WRITES} writes of each client"
    );
    pool.close().await.expect("closed");
}
