//! Stable storage: FUA, SYNCHRONIZE CACHE, WCE; and units without provisioning.

use crate::fixture::*;
use backend::memory::MemoryDisk;
use backend::{BlockBackend, Durable, Extent, Geometry, Lba, Reply, Run, StorageError};
use io::{IoBuf, Payload};
use scsi::{Device, UnitConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first block of [`Counting`] that cannot be read; it has space.
const BAD: u32 = 4000;

/// A RAM disk that claims a volatile cache, or no deallocation, and counts flushes and durable writes.
struct Counting {
    disk: MemoryDisk,
    cache: bool,
    thin: bool,
    flushes: AtomicUsize,
    durable_writes: AtomicUsize,
    /// Reads from here on fail.
    bad_from: u64,
}

impl BlockBackend for Counting {
    fn geometry(&self) -> Geometry {
        let g = self.disk.geometry();
        let deallocate_blocks = if self.thin { g.deallocate_blocks } else { 0 };
        Geometry {
            volatile_cache: self.cache,
            thin: self.thin,
            deallocate_blocks,
            ..g
        }
    }

    pass_on!(disk);

    /// Blocks 100 to 999 and from 4096 on are deallocated; one call examines 500 blocks.
    fn runs(&self, at: Extent) -> Reply<Vec<Run>> {
        let end = at.start.0 + at.blocks.min(500);
        let mut runs = Vec::new();
        let mut from = at.start.0;
        for (edge, mapped) in [(100, true), (1000, false), (4096, true), (u64::MAX, false)] {
            if from < edge.min(end) {
                let blocks = edge.min(end) - from;
                runs.push(Run { blocks, mapped });
                from += blocks;
            }
        }
        Reply::now(Ok(runs))
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        if at.start.0 >= self.bad_from {
            return Reply::now(Err(StorageError::MediaRead));
        }
        self.disk.read(at)
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        self.disk.write(at, data)
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        self.durable_writes.fetch_add(1, Ordering::Relaxed);
        self.disk.write_durable(at, data)
    }

    fn flush(&self) -> Reply<Durable> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.disk.flush()
    }

    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()> {
        self.disk.write_zeroes(at, deallocate)
    }
}

fn with(cache: bool, thin: bool) -> (Arc<Device>, Arc<Counting>) {
    let disk = Arc::new(Counting {
        disk: MemoryDisk::new(BLOCKS * BLOCK as u64, BLOCK as u32).expect("a RAM disk"),
        cache,
        thin,
        flushes: AtomicUsize::new(0),
        durable_writes: AtomicUsize::new(0),
        bad_from: BAD.into(),
    });
    let device = Device::new(config()).expect("valid");
    device
        .add_unit(
            lun(0),
            UnitConfig {
                backend: disk.clone(),
                ..unit(0)
            },
        )
        .expect("new");
    (device, disk)
}

impl Counting {
    /// Flushes and durable writes since the last call.
    fn counted(&self) -> (usize, usize) {
        (
            self.flushes.swap(0, Ordering::Relaxed),
            self.durable_writes.swap(0, Ordering::Relaxed),
        )
    }
}

fn caching(wce: bool) -> Vec<u8> {
    let mut list = vec![0, 0, 0, 0, 0x08, 0x12, u8::from(wce) << 2];
    list.resize(24, 0);
    list
}

#[test]
fn with_a_cache_only_what_asks_for_it_is_durable() {
    run(async {
        let (d, disk) = with(true, true);
        let h = host(&d, 1).await;
        let block = [1; BLOCK];
        for (cdb, data, counted) in [
            (cdb10(0x2a, 0, 0, 1).to_vec(), 1, (0, 0)),
            (cdb10(0x2a, 8, 0, 1).to_vec(), 1, (0, 1)),
            (cdb16(0x8a, 8, 0, 1).to_vec(), 1, (0, 1)),
            (cdb10(0x2e, 0, 0, 1).to_vec(), 1, (0, 1)),
            (cdb10(0x41, 0, 0, 1).to_vec(), 1, (0, 0)),
            (cdb16(0x8b, 8, 0, 1).to_vec(), 1, (1, 0)),
            (cdb10(0x35, 0, 0, 0).to_vec(), 0, (1, 0)),
            (cdb16(0x91, 2, 0, 0).to_vec(), 0, (1, 0)),
            (cdb10(0x28, 0, 0, 1).to_vec(), 0, (0, 0)),
            (cdb10(0x28, 8, 0, 1).to_vec(), 0, (1, 0)),
            (vec![0x1b, 0, 0, 0, 0, 0], 0, (1, 0)),
        ] {
            match data {
                0 => h.send(&cdb).await.good(),
                n => h.put(&cdb, &block.repeat(n)).await.good(),
            };
            assert_eq!(disk.counted(), counted, "{cdb:x?}");
        }
        let extended = h.send(&[0x12, 1, 0x86, 0, 255, 0]).await.good();
        assert_eq!(extended[6] & 1, 1, "V_SUP");
    });
}

#[test]
fn without_write_cache_everything_is_durable() {
    run(async {
        let (d, disk) = with(true, true);
        let h = host(&d, 1).await;
        assert_eq!(
            h.send(&[0x1a, 8, 8, 0, 255, 0]).await.good()[6],
            4,
            "WCE is set at first"
        );
        h.put(&[0x15, 0x10, 0, 0, 24, 0], &caching(false))
            .await
            .good();
        assert_eq!(disk.counted(), (1, 0), "what was cached is flushed");
        let block = [1; BLOCK];
        h.put(&cdb10(0x2a, 0, 0, 1), &block).await.good();
        assert_eq!(disk.counted(), (0, 1));
        h.put(&caw(0, 1), &[block, [2; BLOCK]].concat())
            .await
            .good();
        assert_eq!(disk.counted(), (1, 0));
        h.put(&cdb10(0x41, 0, 0, 3), &block).await.good();
        assert_eq!(disk.counted(), (1, 0));
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend([0; 11]);
        list.extend([1, 0, 0, 0, 0]);
        h.put(&cdb10(0x42, 0, 0, 24), &list).await.good();
        assert_eq!(disk.counted(), (1, 0));
        h.put(&[0x15, 0x10, 0, 0, 24, 0], &caching(true))
            .await
            .good();
        h.put(&cdb10(0x2a, 0, 0, 1), &block).await.good();
        assert_eq!(disk.counted(), (0, 0));
    });
}

#[test]
fn a_disk_without_cache_does_not_get_one() {
    run(async {
        let (d, _) = with(false, true);
        let h = host(&d, 1).await;
        assert_eq!(
            h.put(&[0x15, 0x10, 0, 0, 24, 0], &caching(true))
                .await
                .check(),
            (ILLEGAL, 0x2600)
        );
    });
}

#[test]
fn without_provisioning_there_is_no_unmap() {
    run(async {
        let (d, _) = with(true, false);
        let h = host(&d, 1).await;
        assert_eq!(
            h.put(&cdb10(0x42, 0, 0, 24), &[0; 24]).await.check(),
            (ILLEGAL, 0x2000)
        );
        assert_eq!(
            h.put(&cdb10(0x41, 8, 0, 1), &[0; BLOCK]).await.check(),
            INVALID_CDB
        );
        h.put(&cdb10(0x41, 0, 0, 1), &[0; BLOCK]).await.good();
        assert_eq!(
            h.send(&cdb16(0x9e, 0x10, 0, 32)).await.good()[14],
            0,
            "LBPME"
        );
        assert_eq!(
            h.send(&[0x12, 1, 0xb2, 0, 255, 0]).await.good()[4..],
            [0; 4]
        );
        assert_eq!(
            h.send(&[0x12, 1, 0xb0, 0, 255, 0]).await.good()[20..36],
            [0; 16]
        );
        let ask = [0xa3, 0x0c, 1, 0x42, 0, 0, 0, 0, 0, 64, 0, 0];
        assert_eq!(h.send(&ask).await.good(), [0, 1, 0, 0]);
    });
}

#[test]
fn what_cannot_be_read_is_a_medium_error() {
    run(async {
        let (d, _) = with(true, true);
        let h = host(&d, 1).await;
        let bad = BAD;
        assert_eq!(h.send(&cdb10(0x28, 0, bad, 1)).await.check(), (3, 0x1100));
        assert_eq!(
            h.send(&cdb10(0x2f, 0, bad - 2048, 4096)).await.check(),
            (3, 0x1100)
        );
        // A copy reports the failed segment.
        let page = h.send(&[0x12, 1, 0x83, 1, 0, 0]).await.good();
        let mut target = [&[0xe4, 0, 0, 0][..], &page[4..16]].concat();
        target.resize(32, 0);
        target[30] = 2;
        let mut list = vec![1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 56, 0, 0, 0, 0];
        list.extend(target);
        for from in [0, bad] {
            let mut segment = vec![2, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
            segment.extend(from.to_be_bytes());
            segment.extend(9u64.to_be_bytes());
            list.extend(segment);
        }
        let r = h.put(&cdb16(0x83, 0, 0, list.len() as u32), &list).await;
        assert_eq!(
            (r.check(), &r.sense[8..12]),
            ((0xa, 0x0d01), &[0, 0, 0, 1][..])
        );
        let status = h
            .send(&cdb16(0x84, 0, 0x0100_0000_0000_0000, 64))
            .await
            .good();
        assert_eq!(
            status[4..7],
            [2, 0, 1],
            "completed with an error after one segment"
        );
        let details = h
            .send(&cdb16(0x84, 4, 0x0100_0000_0000_0000, 128))
            .await
            .good();
        assert_eq!((details[56], &details[60..]), (2, &r.sense[..]));
    });
}

#[test]
fn the_blocks_that_have_space_are_told_apart() {
    run(async {
        let (d, _) = with(true, true);
        let h = host(&d, 1).await;
        let told = async |lba: u64, allocation: u32| {
            let data = h.send(&cdb16(0x9e, 0x12, lba, allocation)).await.good();
            let len = u32::from_be_bytes(data[..4].try_into().expect("four"));
            assert_eq!(len as usize + 4, data.len());
            let descriptor = |d: &[u8]| {
                let lba = u64::from_be_bytes(d[..8].try_into().expect("eight"));
                let blocks = u32::from_be_bytes(d[8..12].try_into().expect("four"));
                (lba, blocks, d[12])
            };
            data[8..].chunks(16).map(descriptor).collect::<Vec<_>>()
        };
        let rest = (BLOCKS - 4096) as u32;
        let all = [(0, 100, 0), (100, 900, 1), (1000, 3096, 0), (4096, rest, 1)];
        assert_eq!(told(0, 4096).await, all);
        assert_eq!(
            told(0, 24 + 16).await,
            all[..2],
            "as many as were asked for"
        );
        assert_eq!(
            told(150, 24).await,
            [(150, 850, 1)],
            "from the middle, in two looks"
        );
        assert_eq!(told(BLOCKS - 1, 4096).await, [(BLOCKS - 1, 1, 1)]);
    });
}
