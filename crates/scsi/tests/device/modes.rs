//! MODE SENSE, MODE SELECT, LOG SENSE and what they change.

use crate::fixture::*;
use backend::Usage;
use std::sync::atomic::Ordering;

/// A MODE SELECT(6) list with the control page.
fn control(d_sense: bool, swp: bool, tas: bool) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, 0x0a, 0x0a, u8::from(d_sense) << 2, 0x10];
    out.extend([
        u8::from(swp) << 3,
        u8::from(tas) << 6,
        0,
        0,
        0xff,
        0xff,
        0,
        0,
    ]);
    out
}

fn select(list: &[u8]) -> [u8; 6] {
    [0x15, 0x10, 0, 0, list.len() as u8, 0]
}

#[test]
fn pages_are_whole_and_in_order() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let six = h.send(&[0x1a, 0, 0x3f, 0xff, 255, 0]).await.good();
        assert_eq!((usize::from(six[0]) + 1, six[3]), (six.len(), 8));
        let mut pages = &six[12..];
        let mut codes = Vec::new();
        while let [code, rest @ ..] = pages {
            let long = code & 0x40 != 0;
            let len = if long {
                4 + usize::from(rest[2])
            } else {
                2 + usize::from(rest[0])
            };
            codes.push((code & 0x3f, if long { rest[0] } else { 0 }));
            pages = &pages[len..];
        }
        assert_eq!(codes, [(8, 0), (0x0a, 0), (0x1c, 0), (0x1c, 2)]);
        let ten = h
            .send(&[0x5a, 0x08, 0x3f, 0xff, 0, 0, 0, 1, 0, 0])
            .await
            .good();
        assert_eq!(ten[8..], six[12..], "DBD, and the same pages");
        let long = h
            .send(&[0x5a, 0x10, 0x08, 0, 0, 0, 0, 1, 0, 0])
            .await
            .good();
        assert_eq!(
            (long[4], long[7], &long[8..16]),
            (1, 16, &BLOCKS.to_be_bytes()[..])
        );
        assert_eq!(
            h.send(&[0x1a, 0, 0xff, 0, 255, 0]).await.check(),
            (ILLEGAL, 0x3900),
            "saved"
        );
        assert_eq!(
            h.send(&[0x1a, 0, 0x02, 0, 255, 0]).await.check(),
            INVALID_CDB,
            "no such page"
        );
        assert_eq!(h.send(&[0x1a, 0, 0x3f, 0, 4, 0]).await.good().len(), 4);
        let changeable = h.send(&[0x1a, 8, 0x4a, 0, 255, 0]).await.good();
        assert_eq!(
            changeable[4..],
            [0x0a, 0x0a, 4, 0, 8, 0x40, 0, 0, 0, 0, 0, 0]
        );
    });
}

#[test]
fn the_control_page_changes_what_it_says() {
    run(async {
        let d = device();
        let (h, other) = (host(&d, 1).await, host(&d, 2).await);
        let list = control(true, true, false);
        h.put(&select(&list), &list).await.good();
        assert_eq!(other.send(&[0; 6]).await.check(), (6, 0x2a01));
        let refused = h.put(&cdb10(0x2a, 0, 0, 1), &[0; BLOCK]).await;
        assert_eq!((refused.sense[0], refused.check()), (0x72, (7, 0x2702)));
        let list = control(false, false, false);
        h.put(&select(&list), &list).await.good();
        h.write(0, &[0; BLOCK]).await;
        assert_eq!(
            h.send(&cdb10(0x28, 0, u32::MAX, 1)).await.sense[0] & 0x7f,
            0x70
        );
    });
}

#[test]
fn a_wrong_list_changes_nothing() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let good = control(true, false, false);
        let with = |at: usize, byte: u8| {
            let mut list = good.clone();
            list[at] = byte;
            list
        };
        for (list, asc) in [
            (with(7, 0x20), 0x2600),
            (with(4, 0x0b), 0x2600),
            (with(5, 0x0b), 0x2600),
            (with(3, 1), 0x2600),
            (with(3, 200), 0x1a00),
            (good[..10].to_vec(), 0x1a00),
            (good[..3].to_vec(), 0x1a00),
            ([good.clone(), vec![8, 0x12, 4]].concat(), 0x1a00),
        ] {
            assert_eq!(
                h.put(&select(&list), &list).await.check(),
                (ILLEGAL, asc),
                "{list:x?}"
            );
        }
        assert_eq!(
            h.put(&[0x15, 0x11, 0, 0, 16, 0], &good).await.check(),
            INVALID_CDB,
            "SP"
        );
        assert_eq!(
            h.put(&[0x15, 0, 0, 0, 16, 0], &good).await.check(),
            INVALID_CDB,
            "PF"
        );
        h.send(&[0x15, 0x10, 0, 0, 0, 0]).await.good();
        assert_eq!(
            h.send(&cdb10(0x28, 0, u32::MAX, 1)).await.sense[0] & 0x7f,
            0x70,
            "still fixed format"
        );
    });
}

#[test]
fn what_was_sensed_can_be_selected() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let mut list = h
            .send(&[0x5a, 0, 0x3f, 0xff, 0, 0, 0, 1, 0, 0])
            .await
            .good();
        (list[0], list[1]) = (0, 0);
        let len = (list.len() as u16).to_be_bytes();
        h.put(&[0x55, 0x10, 0, 0, 0, 0, 0, len[0], len[1], 0], &list)
            .await
            .good();
    });
}

#[test]
fn log_pages_tell_the_space() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let sense = |page: u8, sub: u8| [0x4d, 0, page | 0x40, sub, 0, 0, 0, 1, 0, 0];
        assert_eq!(h.send(&sense(0, 0)).await.good(), [0, 0, 0, 2, 0, 0x0c]);
        assert_eq!(
            h.send(&sense(0, 0xff)).await.good(),
            [0x40, 0xff, 0, 6, 0, 0, 0, 0xff, 0x0c, 0]
        );
        let page = h.send(&sense(0x0c, 0)).await.good();
        assert_eq!(
            (page[0], page[3], &page[4..8], &page[16..20]),
            (0x0c, 24, &[0, 1, 3, 8][..], &[0, 2, 3, 8][..])
        );
        assert_eq!(h.send(&sense(0x0d, 0)).await.check(), INVALID_CDB);
        h.write(0, &[1; 4000 * BLOCK]).await;
        d.check_threshold(lun(0), None).await.expect("there");
        assert_eq!(h.send(&[0; 6]).await.asc(), 0, "half full");
        h.write(4000, &[1; 4000 * BLOCK]).await;
        d.check_threshold(lun(0), None).await.expect("there");
        assert_eq!(h.send(&[0; 6]).await.check(), (6, 0x3807), "nearly full");
        d.check_threshold(lun(0), None).await.expect("there");
        assert_eq!(h.send(&[0; 6]).await.asc(), 0, "told once");
        let zeroes = [0x93, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0xa0, 0, 0];
        h.put(&zeroes, &[0; BLOCK]).await.good();
        let pool = |used| {
            Some(Usage {
                provisioned: 1000,
                used,
            })
        };
        d.check_threshold(lun(0), pool(799)).await.expect("there");
        assert_eq!(h.send(&[0; 6]).await.asc(), 0, "there is space again");
        d.check_threshold(lun(0), pool(800)).await.expect("there");
        let full = h.send(&[0; 6]).await.check();
        assert_eq!(full, (6, 0x3807), "what it shares is nearly full");
        assert_eq!(h.aborts.0.load(Ordering::Relaxed), 0);
    });
}
