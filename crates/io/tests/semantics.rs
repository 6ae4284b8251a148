//! Guarantees that both drivers give to tasks: sockets, disks, timers, cancellation. Each body runs on io_uring and, for some
//! seeds, in the simulator; the bodies about disks also run on files in memory.

use io::disk::{Disk, OpenOptions};
use io::net::{TcpListener, TcpOptions, TcpStream};
use io::sim::{Sim, SimConfig};
use io::{
    Error, Payload, RecvBuf, Runtime, RuntimeConfig, SendBatch, SharedBuf, pool, spawn, timeout,
};
use std::cell::Cell;
use std::time::Duration;
use tempfile::TempDir;

/// Seeds with which each body runs in the simulator.
const SEEDS: u64 = 20;

thread_local! {
    /// Whether the files of this thread's test are in memory.
    static IN_MEMORY: Cell<bool> = const { Cell::new(false) };
}

fn directory() -> TempDir {
    let made = match IN_MEMORY.get() {
        true => tempfile::tempdir_in("/dev/shm"),
        false => tempfile::tempdir(),
    };
    made.expect("a directory")
}

fn on_linux(body: impl Future<Output = ()> + 'static) {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(body);
}

macro_rules! on_both_drivers {
    ($($name:ident),+ $(,)?) => {
        mod real {
            $(#[test]
            fn $name() {
                super::on_linux(super::$name());
            })+
        }
        mod simulated {
            use super::*;
            $(#[test]
            fn $name() {
                for seed in 0..SEEDS {
                    Sim::new(seed, SimConfig::default()).block_on(super::$name());
                }
            })+
        }
    };
}

on_both_drivers!(
    a_large_batch_arrives_whole_in_pieces_and_partly_direct,
    a_dropped_receive_is_cancelled_and_the_stream_goes_on,
    a_close_and_a_refused_connection_are_different_errors,
    a_peer_that_does_not_read_holds_the_sender_back,
    data_sent_before_a_close_still_arrives,
    a_close_that_aborts_sends_nothing_more,
    a_shutdown_wakes_the_receiver,
    a_dropped_connect_and_a_dropped_accept_leave_the_listener_in_order,
    a_connection_whose_accept_was_dropped_is_closed,
    overlapping_writes_leave_one_of_them_in_each_block,
    the_buffer_of_a_dropped_write_returns_to_its_pool,
    a_file_is_locked_and_keeps_flushed_data,
    a_closed_file_is_free_at_once,
    reserved_space_is_taken_and_keeps_its_contents,
    sleeps_end_in_order_and_never_early,
    an_aborted_task_is_dropped_and_a_killed_one_yields_nothing,
);

macro_rules! in_memory_as_well {
    ($($name:ident),+ $(,)?) => {
        mod in_memory {
            $(#[test]
            fn $name() {
                super::IN_MEMORY.set(true);
                super::on_linux(super::$name());
            })+
        }
    };
}

in_memory_as_well!(
    overlapping_writes_leave_one_of_them_in_each_block,
    the_buffer_of_a_dropped_write_returns_to_its_pool,
    a_file_is_locked_and_keeps_flushed_data,
    a_closed_file_is_free_at_once,
    reserved_space_is_taken_and_keeps_its_contents,
);

async fn pair() -> (TcpStream, TcpStream) {
    let l = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
    let addr = l.local_addr();
    let accept = spawn(async move { l.accept().await.expect("accept") });
    let a = TcpStream::connect(addr).await.expect("connect");
    (a, accept.await.expect("not killed"))
}

/// Receives until `n` bytes are readable: a stream may deliver them one by one.
async fn recv_at_least(from: &TcpStream, mut staging: RecvBuf, n: usize) -> RecvBuf {
    while staging.readable().len() < n {
        let (r, back) = from.recv(staging).await;
        assert!(r.expect("receive") > 0, "the stream ended early");
        staging = back;
    }
    staging
}

fn batch_of_all(times: usize, bytes: Vec<u8>) -> SendBatch {
    let mut batch = SendBatch::new();
    for _ in 0..times {
        batch.put_payload(Payload::from(bytes.clone()));
    }
    batch
}

fn batch_of(bytes: Vec<u8>) -> SendBatch {
    let mut batch = SendBatch::new();
    batch.put_payload(Payload::from(bytes));
    batch
}

async fn a_large_batch_arrives_whole_in_pieces_and_partly_direct() {
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
    let mut staging = recv_at_least(&b, RecvBuf::new(65_536), 4).await;
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
}

async fn a_dropped_receive_is_cancelled_and_the_stream_goes_on() {
    let (a, b) = pair().await;
    let waited = timeout(Duration::from_millis(20), b.recv(RecvBuf::new(64))).await;
    assert_eq!(waited.err(), Some(Error::TimedOut));
    let mut batch = SendBatch::new();
    batch.put(b"later");
    a.send(batch).await.0.expect("send");
    let buf = recv_at_least(&b, RecvBuf::new(64), 5).await;
    assert_eq!(buf.readable(), b"later");
}

async fn a_close_and_a_refused_connection_are_different_errors() {
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
}

async fn a_file_is_locked_and_keeps_flushed_data() {
    let dir = directory();
    let path = dir.path().join("disk");
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
    let data = SharedBuf::from(buf);
    let written = d.write_through(data.clone(), 4096).await;
    let _flushed = written.expect("write");
    let buf = data.into_inner().expect("the disk holds it no more");
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
}

/// Regression: the kernel thread that had flushed the file sometimes still held its lock.
async fn a_closed_file_is_free_at_once() {
    let dir = directory();
    let options = OpenOptions {
        create_size: Some(1 << 20),
        ..OpenOptions::default()
    };
    for n in 0..500 {
        let opened = Disk::open(dir.path().join("disk"), options.clone()).await;
        let disk = opened.unwrap_or_else(|e| panic!("time {n}: {e}"));
        let mut buf = pool().alloc(4096).await;
        buf.fill(n as u8);
        disk.write(buf, 0).await.expect("write");
        let _flushed = disk.flush().await.expect("flush");
    }
}

async fn reserved_space_is_taken_and_keeps_its_contents() {
    const MIB: u64 = 1 << 20;
    let dir = directory();
    let options = OpenOptions {
        create_size: Some(8 * MIB),
        ..OpenOptions::default()
    };
    let disk = Disk::open(dir.path().join("disk"), options).await;
    let disk = disk.expect("it opens");
    let mut buf = pool().alloc(4096).await;
    buf.fill(7);
    disk.write(buf, MIB).await.expect("write");
    match disk.reserve(MIB, 3 * MIB).await {
        // The file system may not support it.
        Err(Error::Unsupported(_)) => return,
        reserved => reserved.expect("reserved"),
    }
    assert_eq!(disk.size().await, Ok(8 * MIB));
    let taken = disk.allocated().await.expect("told");
    assert!((3 * MIB..8 * MIB).contains(&taken), "{taken} bytes");
    for (at, byte) in [(MIB, 7), (2 * MIB, 0)] {
        let (read, buf) = disk.read(pool().alloc(4096).await, at).await;
        read.expect("read");
        assert_eq!(buf[..], [byte; 4096]);
    }
    disk.deallocate(MIB, 3 * MIB).await.expect("given back");
    let taken = disk.allocated().await.expect("told");
    assert!(taken < MIB, "{taken} bytes");
}

async fn sleeps_end_in_order_and_never_early() {
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
}

async fn an_aborted_task_is_dropped_and_a_killed_one_yields_nothing() {
    let h = spawn(std::future::pending::<()>());
    h.abort();
    assert_eq!(h.await, None, "killed before it ever ran");
    let h = spawn(std::future::pending::<()>());
    io::yield_now().await;
    h.abort();
    assert_eq!(h.await, None, "killed while it waited");
    assert_eq!(spawn(async { 7 }).await, Some(7));
}

async fn a_peer_that_does_not_read_holds_the_sender_back() {
    let (a, b) = pair().await;
    let sender = spawn(async move {
        let (r, _) = a.send(batch_of_all(16, vec![7; 1 << 20])).await;
        r.expect("send");
    });
    let waited = timeout(Duration::from_millis(50), async {
        while !sender.is_finished() {
            io::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(waited.await, Err(Error::TimedOut), "16 MiB fit nowhere");
    let mut left = 16 << 20;
    let mut staging = RecvBuf::new(1 << 20);
    while left > 0 {
        let (r, back) = b.recv(staging).await;
        let n = r.expect("receive");
        assert!(n > 0 && back.readable().iter().all(|x| *x == 7));
        left -= n;
        staging = back;
        staging.consume(n);
    }
    assert_eq!(sender.await, Some(()));
}

async fn data_sent_before_a_close_still_arrives() {
    let (a, b) = pair().await;
    a.send(batch_of(vec![9; 100_000])).await.0.expect("send");
    drop(a);
    let staging = recv_at_least(&b, RecvBuf::new(200_000), 100_000).await;
    assert_eq!(staging.readable(), vec![9; 100_000]);
    assert_eq!(b.recv(staging).await.0, Ok(0));
}

/// Regression: a repeated command overtook the first one, which the closed connection still retransmitted.
async fn a_close_that_aborts_sends_nothing_more() {
    const LEN: usize = 16 << 20;
    let (a, b) = pair().await;
    let options = TcpOptions {
        abort_on_close: true,
        ..TcpOptions::default()
    };
    a.set_options(&options).expect("options");
    let sender = spawn(async move { a.send(batch_of(vec![7; LEN])).await.0 });
    io::time::sleep(Duration::from_millis(20)).await;
    sender.abort();
    let mut staging = RecvBuf::new(1 << 20);
    let end = loop {
        let (r, back) = b.recv(staging).await;
        staging = back;
        match r {
            Ok(0) => break Ok(0),
            Ok(n) => staging.consume(n),
            Err(e) => break Err(e),
        }
    };
    assert!(end.is_err(), "the connection was reset");
}

async fn a_shutdown_wakes_the_receiver() {
    let (a, b) = pair().await;
    let a = std::rc::Rc::new(a);
    let waiting = a.clone();
    let receiver = spawn(async move { waiting.recv(RecvBuf::new(64)).await.0 });
    io::yield_now().await;
    a.shutdown();
    assert_eq!(receiver.await, Some(Ok(0)));
    assert_eq!(a.send(batch_of(vec![1])).await.0, Err(Error::Closed));
    assert_eq!(b.recv(RecvBuf::new(64)).await.0, Ok(0));
}

async fn a_dropped_connect_and_a_dropped_accept_leave_the_listener_in_order() {
    let l = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
    let addr = l.local_addr();
    let waited = timeout(Duration::from_millis(5), l.accept()).await;
    assert!(waited.is_err(), "nobody came");
    let gone = spawn(async move { TcpStream::connect(addr).await.map(drop) });
    io::yield_now().await;
    gone.abort();
    let accept = spawn(async move {
        loop {
            let stream = l.accept().await.expect("accept");
            let (r, buf) = stream.recv(RecvBuf::new(64)).await;
            // The abandoned connection may have arrived first.
            if r.is_ok_and(|n| n > 0) {
                return buf.readable().to_vec();
            }
        }
    });
    let a = TcpStream::connect(addr).await.expect("connect");
    a.send(batch_of(b"x".to_vec())).await.0.expect("send");
    assert_eq!(accept.await.as_deref(), Some(&b"x"[..]));
}

async fn open_new(dir: &TempDir) -> Disk {
    let options = OpenOptions {
        create_size: Some(1 << 20),
        ..OpenOptions::default()
    };
    Disk::open(dir.path().join("disk"), options)
        .await
        .expect("open")
}

/// Regression: the accept had completed when its future was dropped, and its socket stayed open for ever.
async fn a_connection_whose_accept_was_dropped_is_closed() {
    let l = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
    let client = TcpStream::connect(l.local_addr()).await.expect("connect");
    let mut accept = Box::pin(l.accept());
    std::future::poll_fn(|cx| {
        assert!(accept.as_mut().poll(cx).is_pending(), "not submitted yet");
        std::task::Poll::Ready(())
    })
    .await;
    io::time::sleep(Duration::from_millis(100)).await;
    drop(accept);
    drop(l);
    let (end, _) = timeout(Duration::from_secs(20), client.recv(RecvBuf::new(64)))
        .await
        .expect("the connection ends");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

async fn overlapping_writes_leave_one_of_them_in_each_block() {
    let dir = directory();
    let disk = open_new(&dir).await;
    let writers: Vec<_> = (1..=8u8)
        .map(|byte| {
            let disk = disk.clone();
            spawn(async move {
                let mut buf = pool().alloc(64 << 10).await;
                buf.fill(byte);
                disk.write(buf, u64::from(byte) * 4096)
                    .await
                    .expect("write");
            })
        })
        .collect();
    for w in writers {
        w.await.expect("not killed");
    }
    let (r, buf) = disk.read(pool().alloc(128 << 10).await, 0).await;
    r.expect("read");
    for (i, block) in buf.chunks(4096).enumerate() {
        assert!(block.iter().all(|b| *b == block[0]), "block {i} is mixed");
        let writers = i.saturating_sub(15)..=i;
        let legal =
            (block[0] == 0 && !(1..24).contains(&i)) || writers.contains(&usize::from(block[0]));
        assert!(legal, "block {i} holds {}", block[0]);
    }
}

async fn the_buffer_of_a_dropped_write_returns_to_its_pool() {
    let dir = directory();
    let disk = open_new(&dir).await;
    for _ in 0..50 {
        let buf = pool().alloc(4096).await;
        let d = disk.clone();
        let writer = spawn(async move { d.write(buf, 0).await });
        io::yield_now().await;
        writer.abort();
    }
    while pool().stats().used > 0 {
        io::time::sleep(Duration::from_millis(1)).await;
    }
    let (r, _) = disk.read(pool().alloc(4096).await, 0).await;
    r.expect("read");
}
