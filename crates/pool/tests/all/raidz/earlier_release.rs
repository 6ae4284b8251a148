//! Classes of vdevs and a cache device for a pool of an earlier release.
//!
//! `images/earlier_release.img.zst` is the disk of a pool that the release of 2026-11-24 made, copied while it was open: the volume `vm` of 1,024
//! records, the snapshot `monday`, 256 records written since, a checkpoint, and 100 records that only its journal leads to. That release knew no
//! classes, no sizes of blocks in roots, and no contents in the journal.

use io::disk::{Disk, OpenOptions};
use pool::Pool;
use pool::vdev::VdevSpec;

use crate::blocks::{byte, first, free_all, simulated, sound};
use crate::raidz::class_moves::rested;
use crate::raidz::disks;
use crate::raidz::inspect::inspect;
use crate::raidz::members::import;
use crate::raidz::remove::{close, ended};
use crate::raidz::special_class::{class, features, set, special};

const IMAGE: &[u8] = include_bytes!("../../images/earlier_release.img.zst");
/// Bytes of one write of the image.
const CHUNK: usize = 1 << 20;

/// Disk `d0` with the image.
async fn restore() {
    let image = zstd::decode_all(IMAGE).expect("a zstd stream");
    let mib = image.len() as u64 >> 20;
    let disk = disks(0, (1, 0, mib)).await.remove(0);
    for (n, chunk) in image.chunks(CHUNK).enumerate() {
        if chunk.iter().any(|byte| *byte != 0) {
            let mut buf = io::pool().alloc(chunk.len()).await;
            buf.copy_from_slice(chunk);
            let at = (n * CHUNK) as u64;
            disk.write(buf, at).await.expect("written");
        }
    }
    let _durable = disk.flush().await.expect("flushed");
}

async fn check(pool: &Pool) {
    let vm = pool.volume("vm").expect("there");
    let monday = pool.snapshot("vm", "monday").expect("there");
    for n in 0..1024 {
        assert_eq!(first(&monday, n).await, byte(n), "record {n} of monday");
        let now = if n % 2 == 0 && n < 512 { n + 1 } else { n };
        assert_eq!(first(&vm, n).await, byte(now), "record {n}");
    }
    for n in 0..100 {
        let at = 1024 + n;
        assert_eq!(first(&vm, at).await, byte(n), "record {at}");
    }
    sound(pool).await;
}

#[test]
fn a_pool_of_an_earlier_release_gets_each_class() {
    simulated(1, async || {
        restore().await;
        assert_eq!(features().await, Vec::<String>::new());
        let pool = import(0..1).await.expect("its disk is there");
        check(&pool).await;
        let sizes = pool.volume_spaces()["vm"].sizes;
        assert_eq!(sizes, None, "records from before are not counted");
        let before = pool.space().used;
        set(&pool, None, 4096).await;
        let added = pool.add_vdev(special(1, 1, 96).await, false).await;
        let special = added.expect("a special vdev");
        let log = VdevSpec::log(disks(2, (1, 0, 64)).await);
        let log = pool.add_vdev(log, false).await.expect("a log");
        assert_eq!(pool.journal_vdevs(), [log]);
        let cache = disks(3, (1, 0, 64)).await.remove(0);
        pool.add_cache(cache, false).await.expect("a cache device");
        rested(&pool).await;
        free_all(&pool).await;
        let left = pool.space().used;
        assert!(left < before / 4, "{left} of {before} bytes stayed");
        assert!(class(&pool).space.used > before / 2, "{:?}", class(&pool));
        check(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(3, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..3).await.expect("all its disks are there");
        let cache = Disk::open("d3", OpenOptions::default()).await;
        let cache = pool.open_cache(cache.expect("open")).await;
        cache.expect("its cache device");
        check(&pool).await;
        // without a class again
        for vdev in [special, log] {
            pool.remove_vdev(vdev).await.expect("it begins");
            ended(&pool).await;
        }
        check(&pool).await;
        close(pool).await;
    });
}
