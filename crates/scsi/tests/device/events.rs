//! Unit attention conditions, nexuses, task management, RESERVE and RELEASE.

use crate::fixture::*;
use backend::BlockBackend;
use scsi::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const TUR: [u8; 6] = [0; 6];
const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];

#[test]
fn a_new_size_is_told_once_to_everybody() {
    run(async {
        let d = Device::new(config()).expect("valid");
        let config = unit(0);
        let disk: Arc<dyn BlockBackend> = config.backend.clone();
        d.add_unit(lun(0), config).expect("new");
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        disk.resize(BLOCKS * 2).await.expect("grows");
        assert_eq!(a.send(&TUR).await.check(), (6, 0x2a09));
        assert_eq!(
            b.send(&[3, 0, 0, 0, 18, 0]).await.good()[12..14],
            [0x2a, 0x09],
            "REQUEST SENSE clears it"
        );
        assert_eq!((a.send(&TUR).await.asc(), b.send(&TUR).await.asc()), (0, 0));
        let ten = a.send(&cdb10(0x25, 0, 0, 0)).await.good();
        assert_eq!(ten[..4], (BLOCKS as u32 * 2 - 1).to_be_bytes());
    });
}

#[test]
fn inquiry_and_report_luns_leave_conditions_pending() {
    run(async {
        let d = device();
        let h = host_at(&d, 1, 1);
        h.send(&[0x12, 0, 0, 0, 36, 0]).await.good();
        h.send(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0])
            .await
            .good();
        assert_eq!(h.send(&TUR).await.check(), (6, 0x2900));
        h.send(&TUR).await.good();
    });
}

#[test]
fn reserve_keeps_others_out_until_it_ends() {
    run(async {
        let d = device();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        a.send(&RESERVE).await.good();
        a.send(&RESERVE).await.good();
        for cdb in [
            &TUR[..],
            &RESERVE,
            &cdb10(0x28, 0, 0, 1),
            &[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        ] {
            assert_eq!(
                b.send(cdb).await.status,
                Status::ReservationConflict,
                "{cdb:x?}"
            );
        }
        b.send(&[0x12, 0, 0, 0, 36, 0]).await.good();
        b.send(&RELEASE).await.good();
        assert_eq!(
            b.send(&TUR).await.status,
            Status::ReservationConflict,
            "not his to release"
        );
        a.send(&RELEASE).await.good();
        b.send(&TUR).await.good();
        b.send(&RESERVE).await.good();
        d.logout(&b.nexus);
        a.send(&TUR).await.good();
        a.send(&RESERVE).await.good();
        let lun0 = [0; 8];
        d.task_management(&a.nexus, TaskManagement::LogicalUnitReset, lun0)
            .expect("there");
        let c = host_at(&d, 3, 1);
        assert_eq!(c.send(&TUR).await.asc(), 0x2900);
        c.send(&TUR).await.good();
    });
}

#[test]
fn resets_abort_others_and_tell_everybody() {
    run(async {
        let d = device();
        let (a, b) = (host(&d, 1).await, host(&d, 2).await);
        let aborts = |h: &Host| h.aborts.0.load(Ordering::Relaxed);
        d.task_management(&a.nexus, TaskManagement::LogicalUnitReset, [0; 8])
            .expect("there");
        assert_eq!((aborts(&a), aborts(&b)), (0, 1));
        for h in [&a, &b] {
            assert_eq!(h.send(&TUR).await.check(), (6, 0x2903));
        }
        d.task_management(&a.nexus, TaskManagement::ClearTaskSet, [0; 8])
            .expect("there");
        assert_eq!(
            (a.send(&TUR).await.asc(), b.send(&TUR).await.asc()),
            (0, 0x2f00)
        );
        d.task_management(&a.nexus, TaskManagement::TargetReset, [0; 8])
            .expect("there");
        assert_eq!(
            (a.send(&TUR).await.asc(), b.send(&TUR).await.asc()),
            (0x2900, 0x2900)
        );
        let gone = d.task_management(&a.nexus, TaskManagement::AbortTaskSet, lun(9).to_bytes());
        assert_eq!(gone, Err(DeviceError::NoSuchLun(9)));
    });
}

#[test]
fn mistakes_of_configuration_are_refused() {
    let d = device();
    assert_eq!(d.add_unit(lun(0), unit(0)), Err(DeviceError::LunTaken(0)));
    assert_eq!(d.remove_unit(lun(5)), Err(DeviceError::NoSuchLun(5)));
    assert_eq!(d.unit_resized(lun(5)), Err(DeviceError::NoSuchLun(5)));
    let port = InitiatorPort::iscsi("iqn.x", [0; 6]);
    assert!(d.login(port, 9, Arc::new(Aborts::default())).is_err());
    let twice = TargetPort {
        relative: 1,
        portal_group: 1,
        group: 1,
    };
    assert_eq!(
        d.set_ports(vec![twice, twice]),
        Err(DeviceError::InvalidPort(1))
    );
}

#[test]
fn a_command_that_was_given_up_stops() {
    run(async {
        let d = device();
        let h = host(&d, 1).await;
        let expected = ExpectedLength {
            read: 0,
            write: BLOCK as u32,
        };
        let task = d
            .accept(
                &h.nexus,
                h.lun,
                &cdb10(0x41, 0, 0, 100),
                TaskAttribute::Simple,
                expected,
            )
            .expect("accepted");
        let mut buf = io::pool().alloc(BLOCK).await;
        buf.fill(7);
        let cancel = Cancel::default();
        cancel.cancel();
        let Step::Ended(outcome) = task.step(Some(buf), cancel).await else {
            panic!("one piece")
        };
        assert_eq!(
            (outcome.status, outcome.sense[2]),
            (Status::CheckCondition, 0xb)
        );
        assert_eq!(h.read(0, 1).await, [0; BLOCK]);
    });
}
