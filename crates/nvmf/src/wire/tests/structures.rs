//! Commands and data structures: golden bytes, round trips, and refusals.

use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

use crate::wire::FormatError;
use crate::wire::command::{Fuse, IoFlags, Nsid, Psdt, Sgl, SglDescriptor, Sqe};
use crate::wire::copy::{self, CopyRange};
use crate::wire::dsm::{self, DsmAttributes, DsmRange};
use crate::wire::fabrics::{
    CNTLID_DYNAMIC, Cap, Cc, Connect, ConnectAttributes, ConnectData, ConnectFault, Property,
    property,
};
use crate::wire::features::{self, AsyncEvent, NumberOfQueues, Select, fid};
use crate::wire::identify::{
    self, IdentifyController, IdentifyNamespace, NamespaceDescriptor, NamespaceList, cns,
};
use crate::wire::log::{AnaGroup, AnaLog, AnaState, DiscoveryEntry, DiscoveryLog, GetLogPage};
use crate::wire::nqn::{HostId, Nqn, NqnField};
use crate::wire::opcode::{DataDirection, io};
use crate::wire::reservation::{
    self, AcquireAction, PersistChange, RegisterAction, RegistrantStatus, ReleaseAction,
    ReservationStatus, ReservationType,
};
use crate::wire::status::{Status, StatusType};

#[test]
fn golden_connect() {
    let connect = Connect {
        record_format: 0,
        qid: 1,
        sqsize: 127,
        attributes: ConnectAttributes::NO_SQ_FLOW_CONTROL,
        kato_ms: 5000,
    };
    let sqe = connect.to_sqe();
    let bytes = sqe.as_bytes();
    assert_eq!(bytes[..5], [0x7f, 0x40, 0, 0, 0x01]);
    assert_eq!(bytes[40..52], [0, 0, 1, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
    assert_eq!(Connect::from_sqe(&sqe), connect);
    assert_eq!(sqe.psdt(), Psdt::Sgl);
}

#[test]
fn connect_data_names_the_bad_field() {
    let (sub, host) = (Nqn::discovery(), Nqn::new("nqn.2024-01.x:h").unwrap());
    let mut data = ConnectData::new(HostId([7; 16]), CNTLID_DYNAMIC, &sub, &host);
    assert_eq!(
        data.as_bytes()[..18],
        [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0xff, 0xff]
    );
    assert_eq!(&data.as_bytes()[256..260], b"nqn.");
    assert_eq!(&data.as_bytes()[512..527], b"nqn.2024-01.x:h");
    assert_eq!(data.names(), Ok((sub, host)));
    data.hostnqn = NqnField([1; 256]);
    let (fault, _) = data.names().unwrap_err();
    assert_eq!(
        fault,
        ConnectFault {
            in_data: true,
            offset: 512
        }
    );
    assert_eq!(fault.to_result(), 0x1_0200);
    assert_eq!(ConnectFault::from_result(0x1_0200), fault);
    assert!(matches!(
        ConnectData::parse(&[0; 1023]),
        Err(FormatError::Short { need: 1024, .. })
    ));
}

#[test]
fn golden_properties() {
    let sqe = Property::set(property::CC, false, 0x0046_0001);
    assert_eq!(sqe.as_bytes()[4], 0);
    assert_eq!(
        sqe.as_bytes()[40..56],
        [0, 0, 0, 0, 0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0]
    );
    assert_eq!(Property::from_sqe(&sqe).value, 0x0046_0001);
    let sqe = Property::get(property::CAP, true);
    assert_eq!(
        (sqe.fabrics_type(), Property::from_sqe(&sqe).wide),
        (4, Some(true))
    );
    assert_eq!(Cc::enabled(0).bits(), 0x0046_0001);
    assert_eq!(
        (
            Cc::enabled(6).css(),
            Cc::enabled(6).iosqes(),
            Cc::enabled(6).iocqes()
        ),
        (6, 6, 4)
    );
    assert_eq!(Cc::enabled(0).with_shn(1).shn(), 1);
    let cap = Cap::new(1023, 15, Cap::CONTIGUOUS_QUEUES | Cap::NVM_COMMAND_SET);
    assert_eq!(cap.bits(), 0x20_0f01_03ff);
    assert_eq!(
        (cap.mqes(), cap.timeout_500ms(), cap.mpsmin()),
        (1023, 15, 0)
    );
}

#[test]
fn sgl_forms() {
    let cases = [
        (
            Sgl::InCapsule {
                offset: 0,
                length: 512,
            },
            0x01,
        ),
        (Sgl::Transport { length: 4096 }, 0x5a),
        (Sgl::Empty, 0),
        (Sgl::Unsupported { identifier: 0x41 }, 0x41),
        (
            Sgl::Keyed {
                address: 1,
                length: 0x00ab_cdef,
                key: 0x1234_5678,
                invalidate: false,
            },
            0x40,
        ),
        (
            Sgl::Keyed {
                address: u64::MAX,
                length: 0,
                key: u32::MAX,
                invalidate: true,
            },
            0x4f,
        ),
    ];
    for (sgl, identifier) in cases {
        let descriptor = SglDescriptor::new(sgl);
        assert_eq!(
            (descriptor.identifier, descriptor.parse()),
            (identifier, sgl)
        );
    }
    let mut address = SglDescriptor::new(Sgl::Empty);
    address.length = 512.into();
    assert_eq!(
        address.parse(),
        Sgl::Unsupported { identifier: 0 },
        "host memory cannot be reached"
    );
}

#[test]
fn io_fields() {
    let mut sqe = Sqe::new(io::WRITE, Nsid(9)).with_fuse(Fuse::Second);
    sqe.set_slba(u64::MAX - 1);
    sqe.cdw12 = (0xffff | IoFlags::FUA.bits()).into();
    assert_eq!(
        (sqe.slba(), sqe.block_count(), sqe.fuse()),
        (u64::MAX - 1, 65536, Fuse::Second)
    );
    assert_eq!(sqe.io_flags(), IoFlags::FUA);
    assert_eq!(
        DataDirection::of(io::WRITE),
        DataDirection::HostToController
    );
    assert_eq!(DataDirection::of(io::READ), DataDirection::ControllerToHost);
    assert_eq!(DataDirection::of(io::FLUSH), DataDirection::None);
}

#[test]
fn statuses_are_named_and_flagged() {
    assert_eq!(Status::COMPARE_FAILURE.bits(), 0x285);
    assert_eq!(Status::ANA_INACCESSIBLE.kind(), StatusType::PATH);
    assert!(Status::SUCCESS.more().is_success());
    assert_eq!(
        Status::INVALID_FIELD.dnr().to_string(),
        "invalid field in command (sct 0h sc 02h, do not retry)"
    );
    assert_eq!(Status::new(StatusType::VENDOR, 0x55).name(), None);
}

#[test]
fn range_lists_are_bounded_by_what_arrived() {
    let bytes = DsmRange::new(5, 8);
    assert_eq!(
        bytes.as_bytes(),
        [0, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(dsm::parse_ranges(bytes.as_bytes(), 1), Ok(&[bytes][..]));
    assert!(matches!(
        dsm::parse_ranges(bytes.as_bytes(), 2),
        Err(FormatError::Short {
            got: 16,
            need: 32,
            ..
        })
    ));
    assert!(dsm::parse_ranges(bytes.as_bytes(), 0).is_err());
    let sqe = dsm::command(Nsid(1), 256, DsmAttributes::DEALLOCATE);
    assert_eq!(
        (dsm::range_count(&sqe), dsm::attributes(&sqe)),
        (256, DsmAttributes::DEALLOCATE)
    );

    let range = CopyRange::new(0x10, 0x1_0000);
    assert_eq!(
        range.as_bytes()[8..18],
        [0x10, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    );
    assert_eq!(copy::parse_ranges(range.as_bytes(), 1), Ok(&[range][..]));
    assert!(copy::parse_ranges(&range.as_bytes()[..31], 1).is_err());
    let sqe = copy::command(Nsid(1), 77, 3);
    assert_eq!(
        (
            sqe.slba(),
            copy::range_count(&sqe),
            copy::descriptor_format(&sqe)
        ),
        (77, 3, 0)
    );
}

#[test]
fn golden_identify() {
    let sqe = identify::command(cns::NAMESPACE_CSI, Nsid(3), 2);
    assert_eq!(
        (sqe.identify_cns(), sqe.nsid(), sqe.identify_csi()),
        (5, Nsid(3), 2)
    );
    let mut ctrl = IdentifyController::new_zeroed();
    ctrl.ioccsz = 516.into();
    ctrl.kas = 0x0a0b.into();
    assert_eq!(ctrl.as_bytes()[1792..1796], [4, 2, 0, 0]);
    assert_eq!(ctrl.as_bytes()[320..322], [0x0b, 0x0a]);
    assert_eq!(ctrl.in_capsule_data_max(), 8192);
    assert_eq!(IdentifyController::new_zeroed().in_capsule_data_max(), 0);
    let mut ns = IdentifyNamespace::new_zeroed();
    assert_eq!(ns.block_size(), None);
    ns.flbas = 0x21;
    assert_eq!(ns.format_index(), 17);
    ns.lbaf[17].data_size = 12;
    assert_eq!(ns.block_size(), Some(4096));
    assert_eq!(ns.as_bytes()[128 + 17 * 4 + 2], 12);
    ns.lbaf[17].data_size = 255;
    assert_eq!(ns.block_size(), None);
    let list = NamespaceList::new([Nsid(1), Nsid(7)]);
    assert_eq!(list.iter().collect::<Vec<_>>(), [Nsid(1), Nsid(7)]);
    assert_eq!(NamespaceList::new((1..).map(Nsid)).iter().count(), 1024);
}

#[test]
fn descriptor_list_round_trips_and_refuses() {
    let all = [
        NamespaceDescriptor::Eui64([1; 8]),
        NamespaceDescriptor::Nguid([2; 16]),
        NamespaceDescriptor::Uuid([3; 16]),
        NamespaceDescriptor::Csi(0),
    ];
    let list = identify::descriptor_list(&all);
    assert_eq!(list[..6], [1, 8, 0, 0, 1, 1]);
    assert_eq!(identify::parse_descriptor_list(&list[..]), Ok(all.to_vec()));
    assert!(
        identify::parse_descriptor_list(&[
            3, 15, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
        ])
        .is_err()
    );
    assert!(matches!(
        identify::parse_descriptor_list(&[3, 16, 0, 0, 1]),
        Err(FormatError::Short { need: 20, .. })
    ));
    assert_eq!(
        identify::parse_descriptor_list(&[9, 1, 0, 0, 1]),
        Ok(vec![]),
        "unknown types are skipped"
    );
}

#[test]
fn golden_get_log_page() {
    let get = GetLogPage {
        offset: 0x1_0000_0400,
        retain_event: true,
        ..GetLogPage::new(0x70, 0x4_0004)
    };
    let sqe = get.to_sqe(Nsid::NONE);
    assert_eq!(
        sqe.as_bytes()[40..56],
        [0x70, 0x80, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(GetLogPage::from_sqe(&sqe), get);
}

#[test]
fn discovery_log_believes_no_count() {
    let mut entry = DiscoveryEntry::new_zeroed();
    entry.trtype = 3;
    crate::wire::text::put_padded(&mut entry.trsvcid, "4420");
    let log = DiscoveryLog {
        generation: 9,
        entries: vec![entry; 2],
    };
    let mut bytes = log.to_bytes();
    assert_eq!(bytes.len(), 3072);
    assert_eq!(&bytes[1024 + 32..1024 + 37], b"4420 ");
    assert_eq!(DiscoveryLog::parse(&bytes), Ok(log));
    assert!(DiscoveryLog::parse(&bytes[..3071]).is_err());
    bytes[8..16].fill(0xff);
    assert!(matches!(
        DiscoveryLog::parse(&bytes),
        Err(FormatError::Short { .. })
    ));
    bytes[16] = 1;
    assert!(matches!(
        DiscoveryLog::parse(&bytes),
        Err(FormatError::Field { offset: 16, .. })
    ));
}

#[test]
fn ana_log_round_trips_and_believes_no_count() {
    let group = AnaGroup {
        id: 1,
        change_count: 4,
        state: AnaState::Optimized,
        nsids: vec![Nsid(1), Nsid(2)],
    };
    let log = AnaLog {
        change_count: 4,
        groups: vec![group],
    };
    let mut bytes = log.to_bytes();
    assert_eq!(bytes.len(), 16 + 32 + 8);
    assert_eq!((bytes[8], bytes[16], bytes[20], bytes[32]), (1, 1, 2, 1));
    assert_eq!(AnaLog::parse(&bytes), Ok(log));
    bytes[20..24].fill(0xff);
    assert!(matches!(
        AnaLog::parse(&bytes),
        Err(FormatError::Short { .. })
    ));
    bytes[20..24].fill(0);
    bytes[32] = 7;
    assert!(matches!(
        AnaLog::parse(&bytes),
        Err(FormatError::Field { offset: 32, .. })
    ));
}

#[test]
fn feature_values() {
    let queues = NumberOfQueues {
        submission: 4,
        completion: 8,
    };
    assert_eq!(queues.to_dword(), 0x0007_0003);
    assert_eq!(NumberOfQueues::from_dword(0x0007_0003), queues);
    assert_eq!(AsyncEvent::NAMESPACE_CHANGED.to_dword(), 0x0004_0002);
    assert_eq!(AsyncEvent::ANA_CHANGED.to_dword(), 0x000c_0302);
    assert_eq!(AsyncEvent::DISCOVERY_CHANGED.to_dword(), 0x0070_f002);
    assert_eq!(AsyncEvent::RESERVATION_NOTICE.to_dword(), 0x0080_0006);
    assert_eq!(
        AsyncEvent::from_dword(0x0070_f002),
        AsyncEvent::DISCOVERY_CHANGED
    );
    let sqe = features::get(fid::KEEP_ALIVE_TIMER, Select::Supported, Nsid::NONE);
    assert_eq!(
        (sqe.feature_id(), sqe.feature_select()),
        (0x0f, Some(Select::Supported))
    );
}

#[test]
fn golden_reservation_commands() {
    let sqe = reservation::register(Nsid(1), RegisterAction::Replace, true, PersistChange::On);
    assert_eq!(sqe.cdw10.get(), 0xc000_000a);
    assert_eq!(
        RegisterAction::from_sqe(&sqe),
        Some(RegisterAction::Replace)
    );
    assert_eq!(
        (sqe.ignores_existing_key(), sqe.persist_change()),
        (true, Some(PersistChange::On))
    );
    let sqe = reservation::acquire(
        Nsid(1),
        AcquireAction::PreemptAndAbort,
        ReservationType::ExclusiveAccess,
    );
    assert_eq!(sqe.cdw10.get(), 0x202);
    assert_eq!(
        sqe.reservation_type(),
        Some(ReservationType::ExclusiveAccess)
    );
    let sqe = reservation::release(Nsid(1), ReleaseAction::Clear, None);
    assert_eq!((sqe.cdw10.get(), sqe.reservation_type()), (1, None));
    let sqe = reservation::report(Nsid(1), 1024, true);
    assert_eq!((sqe.report_len(), sqe.report_is_extended()), (4096, true));
}

fn any_status() -> impl Strategy<Value = ReservationStatus> {
    let registrant = (any::<u16>(), any::<bool>(), any::<u64>(), any::<[u8; 16]>()).prop_map(
        |(cntlid, holder, key, id)| RegistrantStatus {
            cntlid,
            holder,
            key,
            host_id: HostId(id),
        },
    );
    (
        any::<u32>(),
        0..=6u8,
        any::<bool>(),
        proptest::collection::vec(registrant, 0..5),
    )
        .prop_map(
            |(generation, kind, persist, registrants)| ReservationStatus {
                generation,
                kind: ReservationType::from_code(kind),
                persist,
                registrants,
            },
        )
}

proptest! {
    #[test]
    fn reservation_status_round_trips(status in any_status(), cut in 0usize..400) {
        let bytes = status.to_bytes(true);
        prop_assert_eq!(bytes.len(), 64 + 64 * status.registrants.len());
        prop_assert_eq!(ReservationStatus::parse(&bytes, true).unwrap(), status.clone());
        let bytes = status.to_bytes(false);
        prop_assert_eq!(bytes.len(), 24 + 24 * status.registrants.len());
        let short = ReservationStatus::parse(&bytes, false).unwrap();
        for (a, b) in short.registrants.iter().zip(&status.registrants) {
            prop_assert_eq!((a.key, &a.host_id.0[..8]), (b.key, &b.host_id.0[..8]));
        }
        let cut = cut.min(bytes.len());
        prop_assert_eq!(ReservationStatus::parse(&bytes[..cut], false).is_ok(), cut >= 24);
    }

    #[test]
    fn nothing_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..5000), n in 0usize..300) {
        let _ = ConnectData::parse(&bytes).map(|data| data.names());
        let _ = dsm::parse_ranges(&bytes, n);
        let _ = copy::parse_ranges(&bytes, n);
        let _ = identify::parse_descriptor_list(&bytes);
        let _ = AnaLog::parse(&bytes);
        let _ = DiscoveryLog::parse(&bytes);
        let _ = ReservationStatus::parse(&bytes, n % 2 == 0);
        let _ = IdentifyController::parse(&bytes).map(|c| c.in_capsule_data_max());
        let _ = IdentifyNamespace::parse(&bytes).map(|n| n.block_size());
    }

    #[test]
    fn get_log_page_round_trips(lid: u8, lsp in 0..128u8, retain_event: bool, dwords in 1..=(1u64 << 32), lsi: u16, offset: u64, offset_is_index: bool, csi: u8) {
        let get = GetLogPage { lid, lsp, retain_event, len: dwords * 4, lsi, offset, offset_is_index, csi };
        prop_assert_eq!(GetLogPage::from_sqe(&get.to_sqe(Nsid(1))), get);
    }
}
