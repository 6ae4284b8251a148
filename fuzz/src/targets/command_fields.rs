//! Every view of a submission queue entry with random bytes.

use nvmf::wire::command::{SQE_LEN, Sgl, SglDescriptor, Sqe};
use nvmf::wire::fabrics::{Connect, Property};
use nvmf::wire::log::GetLogPage;
use nvmf::wire::pdu::{Decoded, Digests, Pda, Pdu, Phase, Receiver, RxRules, decode};
use nvmf::wire::reservation::{AcquireAction, RegisterAction, ReleaseAction};
use nvmf::wire::{copy, dsm};

pub fn run(input: &[u8]) {
    let Some(bytes) = input.first_chunk::<SQE_LEN>() else { return };
    let sqe = capsule(bytes);
    assert!((1..=65536).contains(&sqe.block_count()));
    assert!((1..=256).contains(&dsm::range_count(&sqe)) && (1..=256).contains(&copy::range_count(&sqe)));
    let connect = Connect::from_sqe(&sqe);
    assert_eq!(Connect::from_sqe(&connect.to_sqe()), connect);
    let get = GetLogPage::from_sqe(&sqe);
    assert_eq!(GetLogPage::from_sqe(&get.to_sqe(sqe.nsid())), get);
    if let sgl @ (Sgl::InCapsule { .. } | Sgl::Transport { .. } | Sgl::Keyed { .. }) = sqe.sgl.parse() {
        assert_eq!(SglDescriptor::new(sgl).parse(), sgl);
    }
    let _ = (Property::from_sqe(&sqe), sqe.fuse(), sqe.psdt(), sqe.io_flags(), sqe.feature_select());
    let _ = (RegisterAction::from_sqe(&sqe), AcquireAction::from_sqe(&sqe), ReleaseAction::from_sqe(&sqe));
    let _ = (sqe.reservation_type(), sqe.persist_change(), sqe.report_len(), format!("{sqe:?}"));
}

/// The entry as it comes out of a capsule.
fn capsule(sqe: &[u8; SQE_LEN]) -> Sqe {
    let mut pdu = [0; 8 + SQE_LEN];
    pdu[..8].copy_from_slice(&[4, 0, 72, 0, 72, 0, 0, 0]);
    pdu[8..].copy_from_slice(sqe);
    let rules = RxRules {
        receiver: Receiver::Controller,
        phase: Phase::Established,
        digests: Digests::default(),
        pda: Pda::DWORD,
        capsule_data_max: 0,
        data_max: 0,
    };
    match decode(&pdu, &rules) {
        Ok(Decoded::Frame(frame)) => match frame.pdu {
            Pdu::CapsuleCmd(sqe) => sqe,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
