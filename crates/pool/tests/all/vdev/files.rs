//! The device layer on files, through the kernel.

use std::path::Path;

use io::disk::{Disk, OpenOptions as DiskOptions};
use io::{Runtime, RuntimeConfig};
use pool::format::BlockPtr;
use pool::vdev::{OpenOptions, PoolSpec, SetupError, create, open, scan};

use crate::vdev::world::{BLOCK, DISK_SIZE, get_all, host, place, pointer, put_all};

async fn file(dir: &Path, name: &str) -> io::Result<Disk> {
    let options = DiskOptions {
        create_size: Some(DISK_SIZE),
        ..DiskOptions::default()
    };
    Disk::open(dir.join(name), options).await
}

#[test]
fn a_pool_of_files_is_created_written_found_and_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    runtime.block_on(async move {
        let all = async || {
            let mut disks = Vec::new();
            for name in ["a", "b", "c"] {
                disks.push(file(&path, name).await.expect("it opens"));
            }
            disks
        };
        let mut disks = all().await;
        let single = disks.pop().expect("three");
        let spec = PoolSpec::new("tank", vec![disks, vec![single]], host());
        let opened = create(spec).await.expect("made");
        put_all(&opened.vdevs, 0..64, 1).await;
        let _stable = opened.vdevs.flush().await.expect("flushed");
        let at = place(&opened.vdevs, 1, 100);
        opened.vdevs.trim(at, BLOCK as u64).await;
        assert!(file(&path, "a").await.is_err(), "it is ours alone");
        drop(opened);
        let mut pools = scan(all().await).await.pools;
        let found = pools.pop().expect("it is there");
        let opened = open(found, OpenOptions::new(host()))
            .await
            .expect("it opens");
        get_all(&opened.vdevs, 0..64, 1).await;
        let even = (0..64)
            .step_by(2)
            .map(|n| pointer(place(&opened.vdevs, 0, n), 1));
        let even: Vec<BlockPtr> = even.collect();
        let run = opened
            .vdevs
            .read_run(&even[..1], &io::pool())
            .await
            .expect("read");
        assert!(even[0].verify(&run).is_ok());
        drop(opened);
        let short = file(&path, "c").await.expect("it opens");
        short.resize(DISK_SIZE / 2).await.expect("shorter");
        drop(short);
        let found = scan(all().await).await.pools.pop().expect("it is there");
        let error = open(found, OpenOptions::new(host())).await.map(|_| ());
        assert!(
            matches!(error, Err(SetupError::Truncated { .. })),
            "{error:?}"
        );
    });
}
