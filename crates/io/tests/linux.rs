//! The real driver: sockets on loopback, files, timers, wakes across threads, cancellation.

use io::disk::{Disk, OpenOptions};
use io::net::{TcpListener, TcpStream};
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::{Error, Payload, RecvBuf, Runtime, RuntimeConfig, SendBatch, pool, spawn, timeout};
use std::time::Duration;

fn run<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(f)
}

async fn pair() -> (TcpStream, TcpStream) {
    let l = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
    let addr = l.local_addr();
    let accept = spawn(async move { l.accept().await.expect("accept") });
    let a = TcpStream::connect(addr).await.expect("connect");
    (a, accept.await.expect("not killed"))
}

#[test]
fn a_large_batch_arrives_whole_in_pieces_and_partly_direct() {
    run(async {
        let (a, b) = pair().await;
        let body: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let sent = body.clone();
        let sender = spawn(async move {
            let mut batch = SendBatch::new();
            batch.put(b"head");
            batch.put_payload(Payload::from(sent));
            batch.put(b"tail");
            let (r, batch) = a.send(batch).await;
            r.expect("send");
            assert!(batch.is_empty());
            a.shutdown();
        });
        let mut staging = RecvBuf::new(65_536);
        let (r, s) = b.recv(staging).await;
        assert!(r.expect("first bytes") >= 4);
        staging = s;
        assert_eq!(&staging.readable()[..4], b"head");
        staging.consume(4);
        let mut got = staging.readable().to_vec();
        staging.consume(got.len());
        loop {
            let direct = pool().alloc(100_000).await;
            let (r, direct, s) = b.recv_direct(direct, 0, staging).await;
            staging = s;
            let n = r.expect("receive");
            if n == 0 {
                break;
            }
            got.extend_from_slice(&direct[..n.min(100_000)]);
            got.extend_from_slice(staging.readable());
            staging.consume(staging.readable().len());
        }
        sender.await.expect("not killed");
        assert_eq!(got.len(), body.len() + 4);
        assert!(got[..body.len()] == body[..] && got.ends_with(b"tail"));
    });
}

#[test]
fn a_dropped_receive_is_cancelled_and_the_stream_goes_on() {
    run(async {
        let (a, b) = pair().await;
        let waited = timeout(Duration::from_millis(20), b.recv(RecvBuf::new(64))).await;
        assert_eq!(waited.err(), Some(Error::TimedOut));
        let mut batch = SendBatch::new();
        batch.put(b"later");
        a.send(batch).await.0.expect("send");
        let (r, buf) = b.recv(RecvBuf::new(64)).await;
        assert_eq!((r.expect("receive"), buf.readable()), (5, &b"later"[..]));
    });
}

#[test]
fn closing_and_refusing_are_told_apart() {
    run(async {
        let (a, b) = pair().await;
        drop(a);
        assert_eq!(b.recv(RecvBuf::new(64)).await.0, Ok(0));
        let l = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
        let addr = l.local_addr();
        assert!(matches!(
            TcpListener::bind(addr).err(),
            Some(Error::Busy(_))
        ));
        drop(l);
        assert!(matches!(
            TcpStream::connect(addr).await.err(),
            Some(Error::Unreachable(_))
        ));
    });
}

#[test]
fn a_file_is_ours_alone_and_keeps_what_was_flushed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let options = OpenOptions {
            create_size: Some(1 << 20),
            ..OpenOptions::default()
        };
        let d = Disk::open(&path, options.clone()).await.expect("open");
        assert!(matches!(
            Disk::open(&path, options).await.err(),
            Some(Error::Busy(_))
        ));
        assert_eq!(d.info().size, 1 << 20);
        let mut buf = pool().alloc(8192).await;
        buf.fill(0x5a);
        let (r, buf) = d.write_through(buf, 4096).await;
        let _flushed = r.expect("write");
        let _flushed = d.flush().await.expect("flush");
        d.deallocate(8192, 4096).await.expect("punch a hole");
        let (r, buf) = d.read(buf, 4096).await;
        r.expect("read");
        assert!(buf[..4096].iter().all(|b| *b == 0x5a) && buf[4096..].iter().all(|b| *b == 0));
        d.resize(4096).await.expect("shrink");
        assert_eq!(d.size().await, Ok(4096));
        let (r, _) = d.read(buf, 4096).await;
        assert_eq!(r.err(), Some(Error::Truncated));
        assert!(matches!(
            Disk::open("/nowhere", OpenOptions::default()).await.err(),
            Some(Error::NotFound)
        ));
    });
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

#[test]
fn sleeps_end_in_order_and_never_early() {
    run(async {
        let start = io::time::now();
        let ends: Vec<_> = [30u64, 10, 20]
            .map(|ms| {
                spawn(async move {
                    io::time::sleep(Duration::from_millis(ms)).await;
                    (ms, io::time::now().since(start))
                })
            })
            .into();
        for end in ends {
            let (ms, after) = end.await.expect("not killed");
            assert!(after >= Duration::from_millis(ms));
        }
    });
}

#[test]
fn an_aborted_task_is_dropped_and_a_killed_one_yields_nothing() {
    run(async {
        let h = spawn(std::future::pending::<()>());
        h.abort();
        assert_eq!(h.await, None, "killed before it ever ran");
        let h = spawn(std::future::pending::<()>());
        io::yield_now().await;
        h.abort();
        assert_eq!(h.await, None, "killed while it waited");
        assert_eq!(spawn(async { 7 }).await, Some(7));
    });
}
