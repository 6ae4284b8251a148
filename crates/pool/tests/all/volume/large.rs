//! Large writes, which are written from the client's buffer.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::sim::{Latency, SimDisk};
use pool::Volume;

use crate::volume::{BLOCK, on_disk, pool_with_volume, read};

const LARGE: usize = 128 << 10;
/// Most bytes of large writes that are acknowledged while they are in flight.
const AHEAD: usize = 4 << 20;

async fn filled(len: usize, byte: u8) -> io::IoBuf {
    let mut data = io::pool().alloc(len).await;
    data.fill(byte);
    data
}

async fn first(volume: &Volume, block: u64) -> u8 {
    let data = read(volume, block, 1).await;
    assert!(data.iter().all(|b| *b == data[0]), "one write's");
    data[0]
}

fn slow(disk: &SimDisk) {
    disk.slow(Some(Latency {
        base: Duration::from_secs(1),
        ..Latency::default()
    }));
}

/// Regression: with a client of a few large writes at a time, the disk waited for the client and the client for the disk.
#[test]
fn large_writes_run_ahead_of_the_devices_as_far_as_small_ones() {
    on_disk(|disk| async move {
        let (pool, volume) = pool_with_volume().await;
        slow(&disk);
        let begun = io::time::now();
        let (blocks, ahead) = ((LARGE / BLOCK) as u64, (AHEAD / LARGE) as u64);
        for n in 0..ahead {
            let data = filled(LARGE, n as u8 + 1).await;
            volume.write(Lba(n * blocks), data).await.expect("taken");
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "no device had it");
        for n in 0..ahead {
            assert_eq!(first(&volume, n * blocks).await, n as u8 + 1);
        }
        let data = filled(LARGE, 99).await;
        let next = volume.write(Lba(ahead * blocks), data);
        next.await.expect("written");
        assert!(begun.elapsed() >= Duration::from_secs(1), "it waited");
        disk.slow(None);
        let _durable = volume.flush().await.expect("durable");
        pool.close().await.expect("closed");
    });
}

/// Regression: a client that disconnected while its write waited in overlap order lost its place. A later, acknowledged write
/// of another client was written first, and the older write then overwrote it.
#[test]
fn an_abandoned_large_write_keeps_its_place_in_overlap_order() {
    on_disk(|disk| async move {
        let (pool, volume) = pool_with_volume().await;
        slow(&disk);
        let mut durable = Vec::new();
        for n in 0..6u64 {
            let volume = volume.clone();
            durable.push(io::spawn(async move {
                let data = filled(BLOCK, 1).await;
                volume.write_durable(Lba(1000 + n), data).await
            }));
            io::time::sleep(Duration::from_millis(100)).await;
        }
        let large = io::spawn({
            let volume = volume.clone();
            async move { volume.write(Lba(0), filled(LARGE, 1).await).await }
        });
        io::time::sleep(Duration::from_millis(1)).await;
        large.abort();
        volume
            .write(Lba(3), filled(BLOCK, 2).await)
            .await
            .expect("taken");
        // Time for write-back.
        for _ in 0..20 {
            assert_eq!(first(&volume, 3).await, 2);
            io::time::sleep(Duration::from_millis(500)).await;
        }
        disk.slow(None);
        for write in durable {
            let _durable = write.await.expect("written").expect("durable");
        }
        let _durable = volume.flush().await.expect("durable");
        assert_eq!([first(&volume, 3).await, first(&volume, 4).await], [2, 1]);
        pool.close().await.expect("closed");
    });
}
