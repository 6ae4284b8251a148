//! INQUIRY, REPORT LUNS, REPORT SUPPORTED OPERATION CODES, target port groups, and commands with constant answers.

use crate::fixture::*;
use backend::memory::MemoryDisk;
use scsi::{Device, UnitConfig};
use std::sync::Arc;

fn inquiry(page: u8) -> [u8; 6] {
    [0x12, 1, page, 2, 0, 0]
}

#[test]
fn inquiry_names_the_device() {
    run(async {
        let d = device();
        let mut h = host(&d, 1).await;
        let standard = h.send(&[0x12, 0, 0, 2, 0, 0]).await.good();
        assert_eq!((standard.len(), usize::from(standard[4]) + 5), (96, 96));
        assert_eq!((standard[0], standard[2], standard[3]), (0, 6, 0x12));
        assert_eq!(&standard[8..36], b"VENDOR  PRODUCT         1   ");
        assert_eq!(h.send(&[0x12, 0, 0, 0, 5, 0]).await.good().len(), 5);
        assert_eq!(
            h.send(&[0x12, 0, 0x80, 0, 255, 0]).await.check(),
            INVALID_CDB
        );
        h.lun = lun(9).to_bytes();
        assert_eq!(h.send(&[0x12, 0, 0, 0, 255, 0]).await.good()[0], 0x7f);
        assert_eq!(h.send(&[0; 6]).await.check(), (ILLEGAL, 0x2500));
        assert_eq!(h.send(&[3, 0, 0, 0, 18, 0]).await.good()[12], 0x25);
        h.lun = [0xff; 8];
        assert_eq!(h.send(&[0; 6]).await.check(), (ILLEGAL, 0x2500));
    });
}

#[test]
fn every_listed_page_is_there_and_whole() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let list = h.send(&inquiry(0)).await.good();
        assert!(list[4..].is_sorted());
        for page in &list[4..] {
            let data = h.send(&inquiry(*page)).await.good();
            let len = usize::from(u16::from_be_bytes([data[2], data[3]]));
            assert_eq!((data[0], data[1], data.len()), (0, *page, len + 4));
        }
        assert_eq!(h.send(&inquiry(0x8f)).await.check(), INVALID_CDB);
        let limits = h.send(&inquiry(0xb0)).await.good();
        assert_eq!((limits.len(), limits[5]), (64, 128));
        assert_eq!(
            limits[8..12],
            32768u32.to_be_bytes(),
            "MAXIMUM TRANSFER LENGTH"
        );
        assert_eq!(h.send(&inquiry(0xb1)).await.good()[5], 1, "not rotating");
    });
}

/// QEMU's iSCSI driver ends its process on an assertion if a unit of 4096-byte blocks reports the granularity of UNMAP as one
/// block.
#[test]
fn a_granularity_of_one_block_is_not_reported() {
    run(async {
        for (block, granularity, valid) in [(512, 8u32, 1u32 << 31), (4096, 0, 0)] {
            let d = Device::new(config()).expect("valid");
            let disk = MemoryDisk::new(BLOCKS * 4096, block).expect("a RAM disk");
            let backend = Arc::new(disk);
            let unit = UnitConfig { backend, ..unit(0) };
            d.add_unit(lun(0), unit).expect("new");
            let limits = host(&d, 1).await.send(&inquiry(0xb0)).await.good();
            assert_eq!(
                limits[28..32],
                granularity.to_be_bytes(),
                "blocks of {block}"
            );
            assert_eq!(limits[32..36], valid.to_be_bytes(), "blocks of {block}");
        }
    });
}

#[test]
fn identification_has_every_designator() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let page = h.send(&inquiry(0x83)).await.good();
        let mut at = 4;
        let mut found = Vec::new();
        while at < page.len() {
            let len = usize::from(page[at + 3]);
            found.push((page[at + 1] & 0x3f, len));
            at += 4 + len;
        }
        assert_eq!(
            found,
            [
                (3, 8),
                (1, 40),
                (0x14, 4),
                (0x15, 4),
                (0x18, 40),
                (0x28, 32)
            ]
        );
        assert_eq!(page[8] >> 4, 3, "locally assigned NAA");
        let mut other = host(&d, 2).await;
        other.lun = lun(1).to_bytes();
        assert_ne!(other.send(&inquiry(0x83)).await.good()[8..16], page[8..16]);
    });
}

#[test]
fn luns_are_reported() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        d.add_unit(lun(300), unit(3)).expect("new");
        assert_eq!(h.send(&[0; 6]).await.check(), (6, 0x3f0e));
        let report = |select| [0xa0, 0, select, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        let luns = h.send(&report(0)).await.good();
        assert_eq!(luns[..4], 24u32.to_be_bytes());
        assert_eq!(luns[24..28], [0x41, 0x2c, 0, 0]);
        assert_eq!(h.send(&report(1)).await.good(), [0; 8]);
        assert_eq!(h.send(&report(9)).await.check(), INVALID_CDB);
        d.remove_unit(lun(300)).expect("there");
        h.send(&report(0)).await.good();
        assert_eq!(h.send(&[0; 6]).await.asc(), 0, "REPORT LUNS cleared it");
    });
}

/// Regression: a target had at most 256 logical units. LUNs from 256 on have the flat space addressing method (SAM-5 4.7.7.3), and an
/// allocation length that cuts the list leaves its length whole (SPC-4 4.2.5.6).
#[test]
fn a_device_has_more_units_than_the_peripheral_method_has_numbers() {
    run(async {
        let d = device();
        let there = d.luns().len();
        for n in 2..300 {
            d.add_unit(lun(n), unit(u128::from(n) + 9)).expect("new");
        }
        let mut h = host(&d, 1).await;
        let count = there + 298;
        let luns = h
            .send(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0])
            .await
            .good();
        assert_eq!(luns[..4], (count as u32 * 8).to_be_bytes());
        assert_eq!(luns.len(), 8 + count * 8);
        let entries: Vec<&[u8]> = luns[8..].chunks(8).collect();
        assert!(entries.contains(&&[0, 255, 0, 0, 0, 0, 0, 0][..]));
        assert!(entries.contains(&&[0x41, 0x2b, 0, 0, 0, 0, 0, 0][..]));
        let cut = h
            .send(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0])
            .await
            .good();
        assert_eq!(cut, luns[..64]);
        for n in [255, 256, 299] {
            h.lun = lun(n).to_bytes();
            h.send(&inquiry(0x83)).await.good();
        }
    });
}

#[test]
fn operation_codes_are_reported_as_they_are() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let ask = |options: u8, code: u8, action: u8| {
            [0xa3, 0x0c, options, code, 0, action, 0, 0, 0xff, 0xff, 0, 0]
        };
        for rctd in [0, 0x80] {
            let all = h.send(&ask(rctd, 0, 0)).await.good();
            let len = u32::from_be_bytes([all[0], all[1], all[2], all[3]]) as usize;
            assert_eq!(len + 4, all.len());
            let step = if rctd == 0 { 8 } else { 20 };
            for e in all[4..].chunks_exact(step) {
                assert_eq!(e[5] & 2 != 0, rctd != 0);
                let how = if e[5] & 1 == 0 { 1 } else { 2 };
                let one = h.send(&ask(rctd | how, e[0], e[3])).await.good();
                assert_eq!((one[1] & 7, &one[2..4], one[4]), (3, &e[6..8], e[0]));
                let size = usize::from(one[3]);
                assert_eq!(one.len(), 4 + size + if rctd == 0 { 0 } else { 12 });
                assert_eq!(h.send(&ask(3 - how, e[0], e[3])).await.check(), INVALID_CDB);
                assert_eq!(h.send(&ask(3, e[0], e[3])).await.good()[1] & 7, 3);
            }
        }
        assert_eq!(h.send(&ask(1, 0xff, 0)).await.good(), [0, 1, 0, 0]);
        assert_eq!(h.send(&ask(2, 0x9e, 0x1f)).await.good(), [0, 1, 0, 0]);
        assert_eq!(h.send(&ask(4, 0, 0)).await.check(), INVALID_CDB);
        assert_eq!(h.send(&[0xff; 16]).await.check(), (ILLEGAL, 0x2000));
        assert_eq!(
            h.send(&[0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .await
                .check(),
            INVALID_CDB
        );
        assert_eq!(
            h.send(&[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0])
                .await
                .good(),
            [0xda, 0, 0, 0]
        );
    });
}

#[test]
fn target_port_groups_can_be_set() {
    run(async {
        let d = device();
        let (h, other) = (host(&d, 1).await, host(&d, 2).await);
        let report = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
        let groups = h.send(&report).await.good();
        assert_eq!(groups[..4], 24u32.to_be_bytes());
        assert_eq!(groups[4..16], [0, 0x0f, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
        let set = [0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
        h.put(&set, &[0, 0, 0, 0, 2, 0, 0, 1]).await.good();
        assert_eq!(other.send(&[0; 6]).await.check(), (6, 0x2a06));
        assert_eq!(h.send(&[0; 6]).await.check(), (2, 0x040b), "standby");
        assert_eq!(h.send(&report).await.good()[4], 2);
        assert_eq!(
            h.put(&set, &[0, 0, 0, 0, 9, 0, 0, 1]).await.check(),
            (ILLEGAL, 0x2600)
        );
        assert_eq!(
            h.put(&set, &[0, 0, 0, 0, 0, 0, 0, 7]).await.check(),
            (ILLEGAL, 0x2600)
        );
        h.put(&set, &[0, 0, 0, 0, 0, 0, 0, 1]).await.good();
        h.send(&[0; 6]).await.good();
    });
}

#[test]
fn small_commands_answer() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        assert_eq!(
            h.send(&[0x37, 0, 0x1c, 0, 0, 0, 0, 0, 32, 0]).await.good(),
            [0, 0x1c, 0, 0]
        );
        assert_eq!(
            h.send(&[0xb7, 0x08, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0])
                .await
                .good(),
            [0, 8, 0, 0, 0, 0, 0, 0]
        );
        h.send(&[0x1b, 0, 0, 0, 1, 0]).await.good();
        h.send(&[0x1b, 1, 0, 0, 0, 0]).await.good();
        h.send(&[0x1b, 0, 0, 0, 0, 0]).await.good();
        assert_eq!(h.send(&[0x1b, 0, 0, 0, 2, 0]).await.check(), INVALID_CDB);
        assert_eq!(h.send(&[0x1b, 0, 0, 0, 0x20, 0]).await.check(), INVALID_CDB);
        h.send(&[0x1e, 0, 0, 0, 1, 0]).await.good();
        h.send(&[0x1e, 0, 0, 0, 0, 0]).await.good();
        h.send(&[0x1d, 4, 0, 0, 0, 0]).await.good();
        assert_eq!(h.send(&[0x1d, 0x20, 0, 0, 0, 0]).await.check(), INVALID_CDB);
        assert_eq!(
            h.send(&[0x1c, 1, 0, 0, 32, 0]).await.good(),
            [0, 0, 0, 1, 0]
        );
        assert_eq!(
            h.send(&[3, 1, 0, 0, 252, 0]).await.good(),
            [0x72, 0, 0, 0, 0, 0, 0, 0]
        );
        for code in [0x35, 0x34] {
            h.send(&cdb10(code, 0, 0, 0)).await.good();
            h.send(&cdb10(code, 2, 0, 8)).await.good();
        }
        assert_eq!(
            h.send(&[0, 0, 0, 0, 0, 4]).await.check(),
            INVALID_CDB,
            "NACA"
        );
    });
}
