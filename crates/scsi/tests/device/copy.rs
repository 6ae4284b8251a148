//! EXTENDED COPY and RECEIVE COPY RESULTS.

use crate::fixture::*;
use backend::memory::MemoryDisk;
use backend::{BlockBackend, Durable, Extent, Geometry, Lba, Reply, Run};
use io::{IoBuf, Payload};
use scsi::*;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A RAM disk that reports only its first blocks as allocated, and counts requests.
struct Sparse {
    disk: MemoryDisk,
    mapped: u64,
    largest_read: AtomicU64,
    /// Chunks that were read and not written yet, and the largest number of them so far.
    moving: AtomicU64,
    most_moving: AtomicU64,
    /// Duration of each read.
    latency: Duration,
    read: AtomicU64,
    written: AtomicU64,
    zeroed: Mutex<Vec<(u64, u64, bool)>>,
}

impl Sparse {
    fn new(bytes: u64, mapped: u64) -> Arc<Sparse> {
        Sparse::slow(bytes, mapped, Duration::ZERO)
    }

    fn slow(bytes: u64, mapped: u64, latency: Duration) -> Arc<Sparse> {
        Arc::new(Sparse {
            latency,
            moving: AtomicU64::new(0),
            most_moving: AtomicU64::new(0),
            disk: MemoryDisk::new(bytes, BLOCK as u32).expect("a RAM disk"),
            mapped,
            largest_read: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            zeroed: Mutex::default(),
        })
    }
}

impl BlockBackend for Sparse {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    pass_on!(disk);

    fn runs(&self, at: Extent) -> Reply<Vec<Run>> {
        let mapped = self.mapped.saturating_sub(at.start.0).min(at.blocks);
        let run = |blocks, mapped| Run { blocks, mapped };
        let runs = [run(mapped, true), run(at.blocks - mapped, false)];
        Reply::now(Ok(runs.into_iter().filter(|r| r.blocks > 0).collect()))
    }
    fn read(&self, at: Extent) -> Reply<Payload> {
        self.read.fetch_add(at.blocks, Ordering::Relaxed);
        self.largest_read.fetch_max(at.blocks, Ordering::Relaxed);
        let moving = self.moving.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_moving.fetch_max(moving, Ordering::Relaxed);
        let (reply, latency) = (self.disk.read(at), self.latency);
        if latency.is_zero() {
            return reply;
        }
        Reply::later(async move {
            io::time::sleep(latency).await;
            reply.await
        })
    }
    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        let blocks = (data.len() / BLOCK) as u64;
        self.written.fetch_add(blocks, Ordering::Relaxed);
        self.moving.fetch_sub(1, Ordering::Relaxed);
        self.disk.write(at, data)
    }
    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        self.disk.write_durable(at, data)
    }
    fn flush(&self) -> Reply<Durable> {
        self.disk.flush()
    }
    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()> {
        let zeroed = (at.start.0, at.blocks, deallocate);
        self.zeroed.lock().expect("no panic").push(zeroed);
        self.disk.write_zeroes(at, deallocate)
    }
}

fn device_of(disk: &Arc<Sparse>) -> Arc<Device> {
    let device = Device::new(config()).expect("valid");
    let backend = disk.clone();
    let unit = UnitConfig { backend, ..unit(0) };
    device.add_unit(lun(0), unit).expect("new");
    device
}

/// A CSCD descriptor for a unit: its NAA designator, as the device identification page has it.
async fn target(h: &Host, n: u16) -> Vec<u8> {
    let h = Host {
        device: h.device.clone(),
        nexus: h.nexus.clone(),
        aborts: h.aborts.clone(),
        lun: lun(n).to_bytes(),
    };
    let page = h.send(&[0x12, 1, 0x83, 1, 0, 0]).await.good();
    let mut out = vec![0xe4, 0, 0, 0];
    out.extend(&page[4..16]);
    out.resize(32, 0);
    out[29..32].copy_from_slice(&[0, 2, 0]);
    out
}

fn segment(from: (u16, u64), to: (u16, u64), blocks: u16) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 24];
    out.extend(from.0.to_be_bytes());
    out.extend(to.0.to_be_bytes());
    out.extend([0, 0]);
    out.extend(blocks.to_be_bytes());
    out.extend(from.1.to_be_bytes());
    out.extend(to.1.to_be_bytes());
    out
}

fn list(targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut out = vec![5, 0];
    out.extend((targets.len() as u16).to_be_bytes());
    out.extend([0; 4]);
    out.extend((segments.len() as u32).to_be_bytes());
    out.extend([0; 4]);
    out.extend(targets);
    out.extend(segments);
    out
}

fn list4(targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut out = vec![0; 48];
    out[0] = 1;
    out[20..24].copy_from_slice(&77u32.to_be_bytes());
    out[42..44].copy_from_slice(&(targets.len() as u16).to_be_bytes());
    out[44..46].copy_from_slice(&(segments.len() as u16).to_be_bytes());
    out.extend(targets);
    out.extend(segments);
    out
}

fn copy(action: u8, list: &[u8]) -> [u8; 16] {
    cdb16(0x83, action, 0, list.len() as u32)
}

fn results(action: u8, id: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x84, action, 0, 1024);
    cdb[if action == 5 { 5 } else { 2 }] = id;
    cdb
}

#[test]
fn blocks_are_copied_between_units() {
    run(async {
        let d = device();
        let mut h = host(&d, 1).await;
        let data: Vec<u8> = (0..3000 * BLOCK).map(|i| (i / 7) as u8).collect();
        h.write(10, &data).await;
        let both = [target(&h, 0).await, target(&h, 1).await];
        let l = list(
            &both,
            &[
                segment((0, 10), (1, 100), 3000),
                segment((0, 10), (0, 5000), 1),
            ],
        );
        h.put(&copy(0, &l), &l).await.good();
        let status = h.send(&results(0, 5)).await.good();
        assert_eq!(status, [0, 0, 0, 8, 1, 0, 2, 1, 0, 0, 0x05, 0xdc]);
        assert_eq!(h.send(&results(4, 5)).await.good(), [0; 4]);
        assert_eq!(
            h.send(&results(0, 6)).await.check(),
            INVALID_CDB,
            "nobody remembers it"
        );
        let l = list4(&both, &[segment((0, 10), (0, 6000), 1)]);
        h.put(&copy(1, &l), &l).await.good();
        let status = h.send(&results(5, 77)).await.good();
        assert_eq!((status.len(), status[5], status[12]), (32, 1, 0));
        assert_eq!(
            (h.read(5000, 1).await, h.read(6000, 1).await),
            (data[..BLOCK].to_vec(), data[..BLOCK].to_vec())
        );
        h.lun = lun(1).to_bytes();
        assert_eq!(h.read(100, 3000).await, data);
    });
}

#[test]
fn wrong_lists_copy_nothing() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let t = [target(&h, 0).await];
        let good = segment((0, 0), (0, 100), 8);
        let mut other_type = t[0].clone();
        other_type[0] = 0xe0;
        let mut stranger = t[0].clone();
        stranger[8] ^= 1;
        let mut stream = good.clone();
        stream[0] = 3;
        let aborted = (0x0a, 0);
        for (l, sense) in [
            (list(&t, &[segment((0, 0), (1, 0), 8)]), (0x0a, 0x0d02)),
            (
                list(&[stranger], std::slice::from_ref(&good)),
                (0x0a, 0x0d02),
            ),
            (
                list(&t, &[good.clone(), segment((0, 0), (0, BLOCKS - 1), 2)]),
                aborted,
            ),
            (
                list(&[other_type], std::slice::from_ref(&good)),
                (ILLEGAL, 0x2607),
            ),
            (list(&t, &[stream]), (ILLEGAL, 0x2609)),
            (
                list(&vec![t[0].clone(); 9], std::slice::from_ref(&good)),
                (ILLEGAL, 0x2606),
            ),
            (list(&t, &vec![good.clone(); 17]), (ILLEGAL, 0x2608)),
            (
                list(&vec![t[0].clone(); 9], &vec![good.clone(); 17]),
                (ILLEGAL, 0x1a00),
            ),
        ] {
            assert_eq!(h.put(&copy(0, &l), &l).await.check(), sense, "{l:x?}");
        }
        let l = list(&t, &[good]);
        for cut in 1..l.len() {
            assert_eq!(
                h.put(&copy(0, &l[..cut]), &l[..cut]).await.check(),
                (ILLEGAL, 0x1a00)
            );
        }
        h.send(&copy(0, &[])).await.good();
        let parameters = h.send(&results(3, 0)).await.good();
        assert_eq!(
            u32::from_be_bytes([0, 0, parameters[2], parameters[3]]) as usize + 4,
            parameters.len()
        );
        assert_eq!((parameters[9], parameters[11]), (8, 16));
    });
}

#[test]
fn holes_are_neither_read_nor_written() {
    run(async {
        let disk = Sparse::new(16 << 20, 4);
        let d = device_of(&disk);
        let h = host(&d, 1).await;
        h.write(0, &[7; 4 * BLOCK]).await;
        h.write(10_000, &[9; 100 * BLOCK]).await;
        disk.written.store(0, Ordering::Relaxed);
        disk.read.store(0, Ordering::Relaxed);
        let l = list(&[target(&h, 0).await], &[segment((0, 1), (0, 10_000), 100)]);
        h.put(&copy(0, &l), &l).await.good();
        let moved = [&disk.read, &disk.written].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(moved, [3, 3]);
        assert_eq!(*disk.zeroed.lock().expect("no panic"), [(10_003, 97, true)]);
        let read = h.read(10_000, 101).await;
        assert!(read[..3 * BLOCK].iter().all(|b| *b == 7));
        assert!(read[3 * BLOCK..100 * BLOCK].iter().all(|b| *b == 0));
    });
}

#[test]
fn a_large_copy_goes_in_pieces_that_others_come_between() {
    run(async {
        // As many blocks as a descriptor can name.
        const BLOCKS: u64 = 0xffff;
        let disk = Sparse::new(BLOCKS * 2 * BLOCK as u64, u64::MAX);
        let d = device_of(&disk);
        let h = host(&d, 1).await;
        let there = segment((0, 0), (0, BLOCKS), BLOCKS as u16);
        let l = list(&[target(&h, 0).await], &[there]);
        let accept = || {
            let expected = ExpectedLength {
                read: 0,
                write: l.len() as u32,
            };
            let accepted = d.accept(
                &h.nexus,
                h.lun,
                &copy(0, &l),
                TaskAttribute::Simple,
                expected,
            );
            accepted.unwrap_or_else(|o| panic!("sense {:x?}", o.sense))
        };
        let mut list = io::pool().alloc(l.len()).await;
        list.copy_from_slice(&l);
        let cancel = Cancel::default();
        let mut copying = pin!(accept().step(Some(list), cancel.clone()));
        let mut turn = || {
            copying
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        };
        for _ in 0..9 {
            assert!(turn().is_pending(), "it lets others have their turn");
        }
        let status = h.send(&results(0, 5)).await.good();
        let kib = u32::from_be_bytes(status[8..12].try_into().expect("four bytes"));
        assert_eq!(status[4..8], [0, 0, 0, 1], "in progress, in KiB");
        assert!(kib > 0 && u64::from(kib) < BLOCKS / 2, "{kib}");
        let again = h.put(&copy(0, &l), &l).await.check();
        assert_eq!(again, (ILLEGAL, 0x0016), "the list identifier is in use");
        cancel.cancel();
        let Poll::Ready(Step::Ended(outcome)) = turn() else {
            panic!("it was given up")
        };
        assert_eq!(
            (outcome.status, outcome.sense[2]),
            (Status::CheckCondition, 0xb)
        );
        assert_eq!(
            h.send(&results(0, 5)).await.good()[4],
            2,
            "ended with errors"
        );
        assert!(disk.written.load(Ordering::Relaxed) < BLOCKS);

        h.put(&copy(0, &l), &l).await.good();
        let status = h.send(&results(0, 5)).await.good();
        let kib = (BLOCKS as u32 / 2).to_be_bytes();
        assert_eq!(status[4..], [&[1, 0, 1, 1], &kib[..]].concat());
        let piece = u64::from(limits::COPY_STEP_BYTES) / BLOCK as u64;
        assert_eq!(disk.largest_read.load(Ordering::Relaxed), piece);
        let parameters = h.send(&results(3, 0)).await.good();
        let most = u32::from_be_bytes(parameters[16..20].try_into().expect("four bytes"));
        assert!(u64::from(most) >= BLOCKS * 4096, "MAXIMUM SEGMENT LENGTH");
    });
}

#[test]
fn many_copies_move_a_bounded_number_of_chunks_at_a_time() {
    const BYTES: u64 = 64 << 20;
    const COPIES: u8 = 40;
    run(async {
        let disk = Sparse::slow(BYTES, u64::MAX, Duration::from_millis(1));
        let d = device_of(&disk);
        let before = disk.moving.load(Ordering::Relaxed);
        let mut copies = Vec::new();
        for n in 0..COPIES {
            let d = d.clone();
            copies.push(io::spawn(async move {
                let h = host(&d, n).await;
                let blocks = (4 * limits::COPY_STEP_BYTES as usize / BLOCK) as u16;
                let l = list(
                    &[target(&h, 0).await],
                    &[segment((0, 0), (0, 65536), blocks)],
                );
                h.put(&copy(0, &l), &l).await.good();
            }));
        }
        for copy in copies {
            copy.await;
        }
        assert_eq!(disk.moving.load(Ordering::Relaxed), before);
        let most = disk.most_moving.load(Ordering::Relaxed);
        assert_eq!(most, limits::COPY_STEPS_AT_ONCE as u64);
    });
}
