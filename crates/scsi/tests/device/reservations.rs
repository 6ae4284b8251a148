//! PERSISTENT RESERVE IN and OUT over the wire format.

use crate::fixture::*;
use scsi::{Device, Lun, Reserved, Status, UnitConfig};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const TUR: [u8; 6] = [0; 6];

fn out(action: u8, kind: u8, len: usize) -> [u8; 10] {
    let mut cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 0, 0];
    cdb[5..9].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

fn list(key: u64, new: u64, flags: u8) -> Vec<u8> {
    let mut l = key.to_be_bytes().to_vec();
    l.extend(new.to_be_bytes());
    l.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    l
}

async fn reserve_out(h: &Host, action: u8, kind: u8, l: &[u8]) -> Reply {
    h.put(&out(action, kind, l.len()), l).await
}

async fn reserve_in(h: &Host, action: u8) -> Vec<u8> {
    h.send(&[0x5e, action, 0, 0, 0, 0, 0, 0x20, 0, 0])
        .await
        .good()
}

async fn can(h: &Host) -> (bool, bool) {
    let read = h.send(&cdb10(0x28, 0, 0, 1)).await.status == Status::Good;
    (
        read,
        h.put(&cdb10(0x2a, 0, 0, 1), &[0; BLOCK]).await.status == Status::Good,
    )
}

#[test]
fn each_type_lets_in_whom_it_says() {
    run(async {
        for (kind, registrant, stranger) in [
            (1, (true, false), (true, false)),
            (3, (false, false), (false, false)),
            (5, (true, true), (true, false)),
            (6, (true, true), (false, false)),
            (7, (true, true), (true, false)),
            (8, (true, true), (false, false)),
        ] {
            let d = device();
            let (a, b, c) = (host(&d, 1).await, host(&d, 2).await, host(&d, 3).await);
            reserve_out(&a, 0, 0, &list(0, 1, 0)).await.good();
            reserve_out(&b, 6, 0, &list(99, 2, 0)).await.good();
            reserve_out(&a, 1, kind, &list(1, 0, 0)).await.good();
            assert_eq!(
                (can(&a).await, can(&b).await, can(&c).await),
                ((true, true), registrant, stranger),
                "{kind}"
            );
            c.send(&TUR).await.good();
            let modes = c.send(&[0x1a, 0, 0x3f, 0, 255, 0]).await.status == Status::Good;
            assert_eq!(modes, stranger.0, "MODE SENSE needs what reading needs");
            let held = reserve_in(&b, 1).await;
            assert_eq!((held.len(), held[21]), (24, kind));
            assert_eq!(held[15], if kind > 6 { 0 } else { 1 }, "the holder's key");
            assert_eq!(
                reserve_out(&a, 2, kind ^ 2, &list(1, 0, 0)).await.check(),
                (ILLEGAL, 0x2604)
            );
            reserve_out(&a, 2, kind, &list(1, 0, 0)).await.good();
            assert_eq!(b.send(&TUR).await.asc(), if kind > 3 { 0x2a04 } else { 0 });
            assert_eq!(can(&c).await, (true, true));
        }
    });
}

#[test]
fn keys_and_lists_are_checked() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        assert_eq!(
            reserve_out(&h, 1, 1, &list(1, 0, 0)).await.status,
            Status::ReservationConflict
        );
        reserve_out(&h, 0, 0, &list(0, 1, 0)).await.good();
        assert_eq!(
            reserve_out(&h, 0, 0, &list(2, 1, 0)).await.status,
            Status::ReservationConflict
        );
        assert_eq!(
            reserve_out(&h, 1, 2, &list(1, 0, 0)).await.check(),
            INVALID_CDB,
            "no such type"
        );
        assert_eq!(
            reserve_out(&h, 1, 0x11, &list(1, 0, 0)).await.check(),
            INVALID_CDB,
            "no such scope"
        );
        assert_eq!(
            reserve_out(&h, 8, 1, &list(1, 0, 0)).await.check(),
            INVALID_CDB,
            "no such action"
        );
        assert_eq!(
            h.send(&[0x5e, 4, 0, 0, 0, 0, 0, 1, 0, 0]).await.check(),
            INVALID_CDB
        );
        for len in [1, 23, 25] {
            assert_eq!(
                reserve_out(&h, 0, 0, &vec![0; len]).await.check(),
                (ILLEGAL, 0x1a00)
            );
        }
        let mut long = list(1, 5, 8);
        long.extend(u32::MAX.to_be_bytes());
        assert_eq!(
            reserve_out(&host(&d, 2).await, 0, 0, &long).await.check().0,
            ILLEGAL
        );
        assert_eq!(
            reserve_in(&h, 0).await,
            [
                &1u32.to_be_bytes()[..],
                &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1]
            ]
            .concat()
        );
        let capabilities = reserve_in(&h, 2).await;
        assert_eq!(capabilities, [0, 8, 0x0d, 0xb0, 0xea, 1, 0, 0]);
        assert_eq!(
            h.send(&[0x16, 0, 0, 0, 0, 0]).await.status,
            Status::ReservationConflict,
            "RESERVE"
        );
    });
}

#[test]
fn preempt_and_clear_tell_those_who_lose() {
    run(async {
        let d = device();
        let (a, b, c) = (host(&d, 1).await, host(&d, 2).await, host(&d, 3).await);
        for (h, key) in [(&a, 1), (&b, 2), (&c, 3)] {
            reserve_out(h, 0, 0, &list(0, key, 0)).await.good();
        }
        reserve_out(&a, 1, 3, &list(1, 0, 0)).await.good();
        reserve_out(&b, 5, 1, &list(2, 1, 0)).await.good();
        assert_eq!(a.aborts.0.load(Ordering::Relaxed), 1, "PREEMPT AND ABORT");
        assert_eq!(
            (a.send(&TUR).await.asc(), c.send(&TUR).await.asc()),
            (0x2a05, 0)
        );
        assert_eq!(
            (can(&a).await, can(&b).await),
            ((true, false), (true, true))
        );
        reserve_out(&b, 3, 0, &list(2, 0, 0)).await.good();
        assert_eq!(
            (b.send(&TUR).await.asc(), c.send(&TUR).await.asc()),
            (0, 0x2a03)
        );
        assert_eq!(reserve_in(&c, 0).await.len(), 8);
        assert_eq!(can(&a).await, (true, true));
    });
}

#[test]
fn registrations_outlive_their_nexus() {
    run(async {
        let d = device();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        reserve_out(&a, 0, 0, &list(0, 1, 0)).await.good();
        reserve_out(&a, 1, 1, &list(1, 0, 0)).await.good();
        d.logout(&a.nexus);
        assert_eq!(can(&b).await, (true, false));
        let again = host(&d, 1).await;
        assert_eq!(can(&again).await, (true, true));
        d.task_management(&b.nexus, scsi::TaskManagement::LogicalUnitReset, [0; 8])
            .expect("there");
        b.send(&TUR).await.check();
        assert_eq!(can(&b).await, (true, false), "a reset keeps them");
    });
}

#[test]
fn named_ports_all_ports_and_moves() {
    run(async {
        let d = device();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        // The TransportID of the other host, as READ FULL STATUS shows it.
        reserve_out(&b, 0, 0, &list(0, 9, 0)).await.good();
        let status = reserve_in(&a, 3).await;
        let id = status[32..].to_vec();
        assert_eq!((status[27], usize::from(status[31])), (1, id.len()));
        reserve_out(&b, 0, 0, &list(9, 0, 0)).await.good();
        let mut l = list(0, 5, 0x0c);
        l.extend((id.len() as u32).to_be_bytes());
        l.extend(&id);
        reserve_out(&a, 0, 0, &l).await.good();
        assert_eq!(
            reserve_in(&a, 0).await.len(),
            8 + 4 * 8,
            "two hosts at two ports"
        );
        reserve_out(&b, 1, 1, &list(5, 0, 0)).await.good();
        assert_eq!(can(&a).await, (true, false));

        let own = {
            let s = reserve_in(&a, 3).await;
            s[32..32 + id.len()].to_vec()
        };
        let mut l = list(5, 6, 0);
        (l[17], l[19], l[23]) = (0, 1, own.len() as u8);
        l[20] = 0;
        l.extend(&own);
        reserve_out(&b, 7, 0, &l).await.good();
        assert_eq!(
            (can(&a).await, can(&b).await),
            ((true, true), (true, false))
        );
        assert_eq!(
            reserve_out(&b, 7, 0, &l).await.status,
            Status::ReservationConflict,
            "not the holder"
        );
    });
}

#[test]
fn aptpl_survives_the_device() {
    run(async {
        let kept = Arc::new(Kept::default());
        let start = || {
            let d = Device::new(config()).expect("valid");
            d.add_unit(
                lun(0),
                UnitConfig {
                    reservations: kept.clone(),
                    ..unit(0)
                },
            )
            .expect("sound");
            d
        };
        let d = start();
        let a = host(&d, 1).await;
        reserve_out(&a, 0, 0, &list(0, 1, 1)).await.good();
        reserve_out(&a, 1, 1, &list(1, 0, 0)).await.good();
        let d = start();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        assert_eq!(
            (can(&a).await, can(&b).await),
            ((true, true), (true, false))
        );
        reserve_out(&a, 0, 0, &list(1, 1, 0)).await.good();
        let d = start();
        assert_eq!(
            can(&host(&d, 2).await).await,
            (true, true),
            "without APTPL nothing is kept"
        );
        *kept.0.lock().expect("no panic") = Some(b"rot".to_vec());
        let d = Device::new(config()).expect("valid");
        let damaged = d.add_unit(
            lun(0),
            UnitConfig {
                reservations: kept.clone(),
                ..unit(0)
            },
        );
        assert!(
            matches!(&damaged, Err(scsi::DeviceError::DamagedReservations { lun: 0, place }) if place.contains("memory")),
            "{damaged:?}"
        );
    });
}

#[test]
fn a_change_that_cannot_be_saved_has_not_happened() {
    run(async {
        let kept = Arc::new(Kept::default());
        let start = || {
            let d = Device::new(config()).expect("valid");
            let kept = UnitConfig {
                reservations: kept.clone(),
                ..unit(0)
            };
            d.add_unit(lun(0), kept).expect("sound");
            d
        };
        let d = start();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        reserve_out(&a, 0, 0, &list(0, 1, 1)).await.good();
        reserve_out(&b, 0, 0, &list(0, 2, 1)).await.good();
        reserve_out(&a, 1, 1, &list(1, 0, 0)).await.good();
        // PREEMPT, CLEAR, RELEASE, REGISTER without APTPL.
        for (from, action, l) in [
            (&b, 4, list(2, 1, 0)),
            (&a, 3, list(1, 0, 0)),
            (&a, 2, list(1, 0, 0)),
            (&b, 0, list(2, 2, 0)),
        ] {
            kept.1.store(1, Ordering::SeqCst);
            let ended = reserve_out(from, action, 1, &l).await;
            assert_eq!(ended.status, Status::CheckCondition, "action {action}");
            assert_eq!(
                (can(&a).await, can(&b).await),
                ((true, true), (true, false)),
                "action {action}"
            );
        }
        // Nor does a restart find what was refused.
        let d = start();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        assert_eq!(
            (can(&a).await, can(&b).await),
            ((true, true), (true, false))
        );
        reserve_out(&b, 4, 1, &list(2, 1, 0)).await.good();
        assert_eq!(can(&b).await, (true, true));
    });
}

fn lun(number: u16) -> Lun {
    Lun::new(number).expect("a LUN")
}

/// An initiator that died held the unit: the operator ends its reservation without the key, also one by RESERVE.
#[test]
fn the_operator_clears_reservations_of_others() {
    run(async {
        let d = device();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        reserve_out(&a, 0, 0, &list(0, 0xabc, 0)).await.good();
        reserve_out(&a, 1, 3, &list(0xabc, 0, 0)).await.good();
        assert_eq!(can(&b).await, (false, false));
        let reserved = d.reservations(lun(0)).expect("served");
        assert_eq!(reserved.kind, Some("exclusive access"));
        let of = &reserved.registrants[..];
        assert!(
            matches!(of, [one] if one.key == 0xabc && one.is_holder),
            "{of:?}"
        );

        d.clear_reservations(lun(9)).expect_err("no such unit");
        d.clear_reservations(lun(0)).expect("cleared");
        assert_eq!(d.reservations(lun(0)).expect("served"), Reserved::default());
        assert_eq!(can(&b).await, (true, true));
        assert_eq!(a.send(&TUR).await.asc(), 0x2a03, "it is told");

        a.send(&[0x16, 0, 0, 0, 0, 0]).await.good();
        assert_eq!(can(&b).await, (false, false));
        let reserved = d.reservations(lun(0)).expect("served");
        assert_eq!(reserved.kind, Some("RESERVE of SPC-2"));
        assert!(reserved.registrants[0].is_holder);
        d.clear_reservations(lun(0)).expect("cleared");
        assert_eq!(can(&b).await, (true, true));
    });
}
