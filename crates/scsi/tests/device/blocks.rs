//! Commands that read and write blocks.

use crate::fixture::*;
use backend::memory::MemoryDisk;
use scsi::{Device, ExpectedLength, Residual, Status, UnitConfig, limits};
use std::sync::Arc;

fn pattern(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * BLOCK).map(|i| (i / 3) as u8 ^ seed).collect()
}

fn reads(len: usize) -> ExpectedLength {
    ExpectedLength {
        read: len as u32,
        write: 0,
    }
}

#[test]
fn every_write_is_read_by_every_read() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let writes: [Vec<u8>; 8] = [
            vec![0x0a, 0, 0, 7, 2, 0],
            cdb10(0x2a, 0x18, 7, 2).to_vec(),
            cdb12(0xaa, 0x10, 7, 2).to_vec(),
            cdb16(0x8a, 0x08, 7, 2).to_vec(),
            cdb10(0x2e, 0, 7, 2).to_vec(),
            cdb12(0xae, 0x02, 7, 2).to_vec(),
            cdb16(0x8e, 0x02, 7, 2).to_vec(),
            cdb16(0x8a, 0, 7, 2).to_vec(),
        ];
        for (i, w) in writes.iter().enumerate() {
            let data = pattern(2, i as u8);
            h.put(w, &data).await.good();
            let reads: [Vec<u8>; 4] = [
                vec![0x08, 0, 0, 7, 2, 0],
                cdb10(0x28, 0x18, 7, 2).to_vec(),
                cdb12(0xa8, 0, 7, 2).to_vec(),
                cdb16(0x88, 0x08, 7, 2).to_vec(),
            ];
            for r in &reads {
                assert_eq!(h.send(r).await.good(), data, "{w:x?} then {r:x?}");
            }
        }
    });
}

#[test]
fn ranges_protection_and_limits_are_checked() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let last = BLOCKS as u32;
        for code in [0x28, 0x2f, 0x34, 0x35] {
            h.send(&cdb10(code, 0, last - 1, 1)).await.good();
            assert_eq!(
                h.send(&cdb10(code, 0, last, 1)).await.check(),
                OUT_OF_RANGE,
                "{code:x}"
            );
            assert_eq!(
                h.send(&cdb10(code, 0, last + 1, 0)).await.check(),
                OUT_OF_RANGE,
                "{code:x}"
            );
        }
        for code in [0x88, 0x8f, 0x90, 0x91] {
            assert_eq!(
                h.send(&cdb16(code, 0, u64::MAX, 2)).await.check(),
                OUT_OF_RANGE,
                "{code:x}"
            );
        }
        for code in [0x28, 0x2a, 0x2e, 0x2f, 0x41] {
            assert_eq!(
                h.put(&cdb10(code, 0x20, 0, 1), &[0; BLOCK]).await.check(),
                INVALID_CDB,
                "{code:x}"
            );
        }
        // An undefined value of BYTCHK.
        assert_eq!(h.send(&cdb10(0x2f, 0x04, 0, 1)).await.check(), INVALID_CDB);
        assert_eq!(h.send(&cdb10(0x28, 0, 0, 0)).await.good(), []);
        // READ(6) with a length of zero is 256 blocks.
        let data = h
            .exchange(
                &[8, 0, 0, 0, 0, 0],
                &[],
                ExpectedLength {
                    read: 1 << 20,
                    write: 0,
                },
            )
            .await;
        assert_eq!(data.good().len(), 256 * BLOCK);
    });
}

#[test]
fn residuals_tell_how_lengths_differ() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let one = cdb10(0x28, 0, 0, 1);
        for (expected, residual, len) in [
            (0, Residual::Overflow(512), 0),
            (200, Residual::Overflow(312), 200),
            (512, Residual::None, 512),
            (10000, Residual::Underflow(9488), 512),
        ] {
            let r = h
                .exchange(
                    &one,
                    &[],
                    ExpectedLength {
                        read: expected,
                        write: 0,
                    },
                )
                .await;
            assert_eq!(
                (r.status, r.residual, r.data.len()),
                (Status::Good, residual, len)
            );
        }
        let data = vec![b'b'; 2 * BLOCK];
        for (blocks, expected, residual, written) in [
            (1, 0, Residual::Overflow(512), false),
            (1, 200, Residual::Overflow(312), false),
            (2, 512, Residual::Overflow(512), true),
            (1, 1024, Residual::Underflow(512), true),
        ] {
            h.write(0, &[b'a'; 2 * BLOCK]).await;
            let r = h
                .exchange(
                    &cdb10(0x2a, 0, 0, blocks),
                    &data,
                    ExpectedLength {
                        read: 0,
                        write: expected,
                    },
                )
                .await;
            assert_eq!(r.residual, residual);
            assert_eq!(r.status, Status::Good, "what there is is written");
            let stored = h.read(0, 2).await;
            assert_eq!((stored[0] == b'b', stored[BLOCK]), (written, b'a'));
        }
    });
}

#[test]
fn compare_and_write_is_all_or_nothing() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let (old, new) = (pattern(2, 1), pattern(2, 2));
        h.write(4, &old).await;
        h.put(&caw(4, 2), &[old.clone(), new.clone()].concat())
            .await
            .good();
        assert_eq!(h.read(4, 2).await, new);
        let mut wrong = new.clone();
        wrong[700] ^= 1;
        let r = h.put(&caw(4, 2), &[wrong, old].concat()).await;
        assert_eq!(r.check(), (0xe, 0x1d00));
        assert_eq!(r.sense[0], 0xf0, "INFORMATION is valid");
        assert_eq!(r.sense[3..7], 700u32.to_be_bytes());
        assert_eq!(h.read(4, 2).await, new);
        assert_eq!(
            h.put(&caw(4, 2), &[0; 8 * BLOCK]).await.check(),
            INVALID_CDB
        );
        assert_eq!(
            h.put(&caw(4, 0), &[0; 512 * BLOCK]).await.check(),
            INVALID_CDB,
            "256 blocks do not fit"
        );
        assert_eq!(h.put(&caw(4, 2), &[0; BLOCK]).await.asc(), 0x0e03);
        assert_eq!(
            h.put(&caw(4, 129), &[0; 258 * BLOCK]).await.check(),
            INVALID_CDB
        );
    });
}

#[test]
fn verify_compares_what_is_asked_for() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let data = pattern(1, 5).repeat(3);
        h.write(9, &data).await;
        let mut wrong = data.clone();
        wrong[BLOCK + 3] ^= 0xff;
        for (all, one, plain) in [
            (
                cdb10(0x2f, 2, 9, 3).to_vec(),
                cdb10(0x2f, 6, 9, 3).to_vec(),
                cdb10(0x2f, 0, 9, 3).to_vec(),
            ),
            (
                cdb12(0xaf, 2, 9, 3).to_vec(),
                cdb12(0xaf, 6, 9, 3).to_vec(),
                cdb12(0xaf, 0, 9, 3).to_vec(),
            ),
            (
                cdb16(0x8f, 2, 9, 3).to_vec(),
                cdb16(0x8f, 6, 9, 3).to_vec(),
                cdb16(0x8f, 0, 9, 3).to_vec(),
            ),
        ] {
            h.put(&all, &data).await.good();
            h.put(&one, &data[..BLOCK]).await.good();
            h.send(&plain).await.good();
            let r = h.put(&all, &wrong).await;
            assert_eq!(
                (r.check(), &r.sense[3..7]),
                ((0xe, 0x1d00), &(BLOCK as u32 + 3).to_be_bytes()[..])
            );
        }
        h.write(11, &[0; BLOCK]).await;
        let r = h.put(&cdb10(0x2f, 6, 9, 3), &data[..BLOCK]).await;
        assert_eq!(
            r.check(),
            (0xe, 0x1d00),
            "the third block differs from the one block"
        );
    });
}

#[test]
fn or_write_sets_bits() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        h.write(0, &[0x0f; BLOCK]).await;
        h.put(&cdb16(0x8b, 0, 0, 1), &[0x30; BLOCK]).await.good();
        assert_eq!(h.read(0, 1).await, [0x3f; BLOCK]);
        h.put(&cdb16(0x8b, 0, 0, 0), &[]).await.good();
    });
}

#[test]
fn a_read_only_unit_takes_no_writes() {
    run(async {
        let d = device();
        d.add_unit(
            lun(2),
            scsi::UnitConfig {
                read_only: true,
                ..unit(2)
            },
        )
        .expect("new");
        let mut h = host_at(&d, 1, 1);
        h.lun = lun(2).to_bytes();
        assert_eq!(h.send(&[0; 6]).await.asc(), 0x2900);
        for (cdb, len) in [
            (cdb10(0x2a, 0, 0, 1).to_vec(), BLOCK),
            (cdb10(0x2e, 0, 0, 1).to_vec(), BLOCK),
            (cdb10(0x41, 0, 0, 1).to_vec(), BLOCK),
            (cdb10(0x42, 0, 0, 24).to_vec(), 24),
            (cdb16(0x8b, 0, 0, 1).to_vec(), BLOCK),
            (caw(0, 1).to_vec(), 2 * BLOCK),
        ] {
            assert_eq!(
                h.put(&cdb, &vec![0; len]).await.check(),
                (7, 0x2700),
                "{cdb:x?}"
            );
        }
        h.read(0, 1).await;
        let modes = h.send(&[0x1a, 0, 0x3f, 0, 255, 0]).await.good();
        assert_eq!(modes[2] & 0x80, 0x80, "WP");
    });
}

#[test]
fn transfers_longer_than_a_buffer_move_in_pieces() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let blocks = 3 * limits::PIECE_BYTES_MAX as usize / 2 / BLOCK;
        let data = pattern(blocks, 5);
        let count = blocks as u32;
        for write in [0x8a, 0x8e, 0x8b] {
            h.put(&cdb16(0x93, 8, 0, count), &[0; BLOCK]).await.good();
            h.put(&cdb16(write, 0, 9, count), &data).await.good();
            let read = h
                .exchange(&cdb16(0x88, 0, 9, count), &[], reads(data.len()))
                .await;
            assert_eq!(read.residual, Residual::None);
            assert!(read.good() == data, "{write:x}");
        }
        let mut other = data.clone();
        let at = limits::PIECE_BYTES_MAX as usize + 700;
        h.put(&cdb16(0x8f, 2, 9, count), &other).await.good();
        other[at] ^= 1;
        let r = h.put(&cdb16(0x8f, 2, 9, count), &other).await;
        assert_eq!(r.check(), (0x0e, 0x1d00));
        assert_eq!(r.sense[3..7], (at as u32).to_be_bytes(), "INFORMATION");
        // Blocks beyond the expected length are not read.
        let cut = limits::PIECE_BYTES_MAX as usize + 5;
        let read = h.exchange(&cdb16(0x88, 0, 9, count), &[], reads(cut)).await;
        assert_eq!(read.residual, Residual::Overflow((data.len() - cut) as u32));
        assert!(read.good() == data[..cut]);
    });
}

#[test]
fn transfers_beyond_the_limit_are_refused() {
    run(async {
        let d = Device::new(config()).expect("valid");
        let size = 2 * u64::from(limits::TRANSFER_BYTES_MAX);
        let disk = MemoryDisk::new(size, BLOCK as u32).expect("a RAM disk");
        let backend = Arc::new(disk);
        d.add_unit(lun(0), UnitConfig { backend, ..unit(0) })
            .expect("new");
        let h = host(&d, 1).await;
        let most = limits::TRANSFER_BYTES_MAX / BLOCK as u32;
        for code in [0x88, 0x8a, 0x8b, 0x8e] {
            let beyond = h.send(&cdb16(code, 0, 0, most + 1)).await;
            assert_eq!(beyond.check(), INVALID_CDB, "{code:x}");
        }
        let whole = reads(limits::TRANSFER_BYTES_MAX as usize);
        let read = h
            .exchange(&cdb16(0x88, 0, 0, most), &[], whole)
            .await
            .good();
        assert_eq!(read.len(), limits::TRANSFER_BYTES_MAX as usize);
    });
}
