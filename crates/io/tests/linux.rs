//! Properties of the Linux driver alone: shards on threads of their own, and the kernel's worker threads.

use io::disk::{Disk, OpenOptions};
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::{Error, Runtime, RuntimeConfig, pool};
use std::time::Duration;

fn run<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(f)
}

#[test]
fn shards_take_work_and_wake_each_other() {
    let shard = Shard::start(ShardConfig {
        name: "other".into(),
        cpu: None,
        runtime: RuntimeConfig {
            spin_max: Duration::ZERO,
            ..RuntimeConfig::default()
        },
    })
    .expect("start");
    let there = shard.clone();
    let sum = run(async move {
        let mut sum = 0;
        for i in 0..1000u64 {
            let (tx, rx) = oneshot::channel();
            there
                .spawn(move || async move { tx.send(i * 2) })
                .expect("it lives");
            sum += rx.await.expect("an answer");
        }
        sum
    });
    assert_eq!(sum, 999_000);
    shard.stop();
    assert_eq!(shard.spawn(|| async {}).err(), Some(Error::Cancelled));
}

/// Number of worker threads that the kernel created for the ring of the calling thread.
fn kernel_workers() -> usize {
    let me = std::fs::read_link("/proc/thread-self").expect("procfs");
    let me = me.file_name().expect("a thread").to_string_lossy();
    let is_ours = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == format!("iou-wrk-{me}"))
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    tasks.flatten().filter(is_ours).count()
}

#[test]
fn a_file_is_created_also_for_reading_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let options = OpenOptions {
            create_size: Some(1 << 20),
            read_only: true,
            ..OpenOptions::default()
        };
        let disk = Disk::open(path, options).await.expect("made and opened");
        assert_eq!(disk.info().size, 1 << 20);
        assert!(disk.info().read_only);
        let (read, buf) = disk.read(pool().alloc(4096).await, 0).await;
        read.expect("read");
        assert!(buf.iter().all(|b| *b == 0));
    });
}

/// Regression: a 4 KiB read through a kernel worker took 29 µs of processor time; the copy takes 1 µs.
#[test]
fn a_file_in_memory_is_read_without_a_kernel_worker() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let options = OpenOptions {
            create_size: Some(1 << 20),
            ..OpenOptions::default()
        };
        let disk = Disk::open(path, options).await.expect("open");
        for block in 0..200 {
            let mut buf = pool().alloc(4096).await;
            buf.fill(block as u8);
            disk.write(buf, block * 4096).await.expect("write");
            let (read, buf) = disk.read(pool().alloc(4096).await, block * 4096).await;
            read.expect("read");
            assert!(buf.iter().all(|b| *b == block as u8));
            let _flushed = disk.flush().await.expect("flush");
        }
        assert_eq!(kernel_workers(), 0);
    });
}
