//! Capacity, UNMAP, WRITE SAME.

use crate::fixture::*;

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let len = ranges.len() as u16 * 16;
    let mut out = Vec::from((len + 6).to_be_bytes());
    out.extend(len.to_be_bytes());
    out.extend([0; 4]);
    for (lba, blocks) in ranges {
        out.extend(lba.to_be_bytes());
        out.extend(blocks.to_be_bytes());
        out.extend([0; 4]);
    }
    out
}

#[test]
fn unmap_zeroes_what_it_names_or_nothing() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let unmap = |list: &[u8]| cdb10(0x42, 0, 0, list.len() as u16);
        h.write(0, &[7; 32 * BLOCK]).await;
        let list = unmap_list(&[(1, 2), (8, 8), (20, 0)]);
        h.put(&unmap(&list), &list).await.good();
        let data = h.read(0, 32).await;
        let zero: Vec<usize> = (0..32)
            .filter(|b| data[b * BLOCK..(b + 1) * BLOCK].iter().all(|x| *x == 0))
            .collect();
        assert_eq!(zero, [1, 2, 8, 9, 10, 11, 12, 13, 14, 15]);

        // The second range is wrong: the first one is not touched.
        let list = unmap_list(&[(0, 1), (BLOCKS, 1)]);
        assert_eq!(h.put(&unmap(&list), &list).await.check(), OUT_OF_RANGE);
        assert_eq!(h.read(0, 1).await, [7; BLOCK]);
        let list = unmap_list(&[(0, 1 << 20), (0, 1)]);
        assert_ne!(h.put(&unmap(&list), &list).await.asc(), 0);
        let list = unmap_list(&vec![(0, 1); 257]);
        assert_eq!(h.put(&unmap(&list), &list).await.check(), (ILLEGAL, 0x2600));
        // Lists that lie about their length, or have none.
        let mut list = unmap_list(&[(0, 1)]);
        list[2..4].copy_from_slice(&0xffffu16.to_be_bytes());
        h.put(&unmap(&list[..20]), &list[..20]).await.good();
        assert_eq!(
            h.read(0, 1).await,
            [7; BLOCK],
            "an incomplete descriptor is not looked at"
        );
        assert_eq!(
            h.put(&unmap(&list[..7]), &list[..7]).await.check(),
            (ILLEGAL, 0x1a00)
        );
        h.send(&unmap(&[])).await.good();
        assert_eq!(
            h.put(&cdb10(0x42, 1, 0, 8), &[0; 8]).await.check(),
            INVALID_CDB,
            "ANCHOR"
        );
    });
}

#[test]
fn write_same_repeats_its_block() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let block: Vec<u8> = (0..BLOCK).map(|i| i as u8).collect();
        h.put(&cdb10(0x41, 0, 3, 5), &block).await.good();
        assert_eq!(h.read(3, 5).await, block.repeat(5));
        assert_eq!(h.read(8, 1).await, [0; BLOCK]);
        assert_eq!(
            h.put(&cdb16(0x93, 0, 0, 0), &block).await.check(),
            INVALID_CDB,
            "WSNZ"
        );
        h.put(&cdb16(0x93, 0x08, 4, 1), &[0; BLOCK]).await.good();
        h.send(&cdb16(0x93, 0x01, 5, 1)).await.good();
        assert_eq!(h.read(4, 2).await, [0; 2 * BLOCK]);
        for (len, asc) in [(BLOCK / 2, 0x0e03), (2 * BLOCK, 0x2400)] {
            let r = h.put(&cdb16(0x93, 0x08, 0, 1), &vec![0; len]).await;
            assert_eq!(r.asc(), asc);
        }
        assert_eq!(
            h.put(&cdb16(0x93, 0x10, 0, 1), &block).await.check(),
            INVALID_CDB,
            "ANCHOR"
        );
        assert_eq!(
            h.put(&cdb16(0x93, 0, BLOCKS, 1), &block).await.check(),
            OUT_OF_RANGE
        );
    });
}

#[test]
fn capacity_is_told_alike_everywhere() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let ten = h.send(&cdb10(0x25, 0, 0, 0)).await.good();
        assert_eq!(
            ten,
            [
                &(BLOCKS as u32 - 1).to_be_bytes()[..],
                &512u32.to_be_bytes()
            ]
            .concat()
        );
        let mut cdb = cdb16(0x9e, 0x10, 0, 32);
        let sixteen = h.send(&cdb).await.good();
        assert_eq!(sixteen.len(), 32);
        assert_eq!(sixteen[..8], (BLOCKS - 1).to_be_bytes());
        assert_eq!(
            (sixteen[13], sixteen[14]),
            (0, 0xc0),
            "RAM has no larger physical blocks; LBPME, LBPRZ"
        );
        cdb[13] = 12;
        assert_eq!(h.send(&cdb).await.good().len(), 12);
        assert_eq!(h.send(&cdb10(0x25, 0, 1, 0)).await.check(), INVALID_CDB);
        let status = h.send(&cdb16(0x9e, 0x12, 5, 24)).await.good();
        assert_eq!(
            (status.len(), &status[8..16]),
            (24, &5u64.to_be_bytes()[..])
        );
        assert_eq!(
            h.send(&cdb16(0x9e, 0x12, BLOCKS, 24)).await.check(),
            OUT_OF_RANGE
        );
        let lbp = h.send(&[0x12, 1, 0xb2, 0, 255, 0]).await.good();
        assert_eq!((lbp.len(), lbp[5] & 0xe4, lbp[6]), (8, 0xe4, 2));
    });
}
