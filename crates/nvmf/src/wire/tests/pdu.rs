//! The PDU codec: golden bytes, round trips, and the error of each invalid PDU.

use proptest::prelude::*;
use zerocopy::FromBytes;

use crate::wire::command::{Cid, Nsid, Sgl, SglDescriptor, Sqe};
use crate::wire::completion::Cqe;
use crate::wire::opcode::io;
use crate::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, FatalErrorStatus, Frame, HEADER_LEN_MAX, IcReq, IcResp,
    Pda, Pdu, PduError, PduType, Phase, R2t, Receiver, RxRules, TermReq, decode, encode,
};
use crate::wire::status::Status;
use session::digest::crc32c;

const PLAIN: Encoder = Encoder {
    digests: Digests {
        header: false,
        data: false,
    },
    pda: Pda::DWORD,
};
const DIGESTED: Encoder = Encoder {
    digests: Digests {
        header: true,
        data: true,
    },
    pda: Pda::DWORD,
};

fn rules(receiver: Receiver, encoder: &Encoder) -> RxRules {
    RxRules {
        receiver,
        phase: Phase::Established,
        digests: encoder.digests,
        pda: encoder.pda,
        capsule_data_max: 8192,
        data_max: 131_072,
    }
}

fn frame(bytes: &[u8], rules: &RxRules) -> Frame {
    match decode(bytes, rules) {
        Ok(Decoded::Frame(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

fn refused(bytes: &[u8], rules: &RxRules) -> (FatalErrorStatus, u32) {
    let PduError { fes, fei, .. } = decode(bytes, rules).expect_err("refused");
    (fes, fei)
}

fn read_command() -> Sqe {
    let mut sqe = Sqe::new(io::READ, Nsid(1));
    sqe.cid = 0x1234.into();
    sqe.sgl = SglDescriptor::new(Sgl::Transport { length: 4096 });
    sqe.set_slba(0x1_0000_0002);
    sqe.cdw12 = 7.into();
    sqe
}

#[test]
fn golden_ic_req() {
    let req = IcReq {
        hpda: Pda::DWORD,
        digests: Digests {
            header: true,
            data: false,
        },
        max_r2t: 16,
    };
    let mut out = [0xffu8; HEADER_LEN_MAX];
    assert_eq!(encode::ic_req(&req, &mut out), 128);
    assert_eq!(
        out[..16],
        [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 1, 15, 0, 0, 0]
    );
    assert!(out[16..128].iter().all(|&b| b == 0));
    let found = frame(&out, &RxRules::connecting(Receiver::Controller));
    assert_eq!(
        found,
        Frame {
            pdu: Pdu::IcReq(req),
            data_offset: 128,
            data_len: 0,
            data_digest: false
        }
    );
}

#[test]
fn golden_ic_resp() {
    let resp = IcResp {
        cpda: Pda::new(1).unwrap(),
        digests: Digests {
            header: true,
            data: true,
        },
        max_h2c_data: 65536,
    };
    let mut out = [0xffu8; HEADER_LEN_MAX];
    encode::ic_resp(&resp, &mut out);
    assert_eq!(
        out[..16],
        [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 3, 0, 0, 1, 0]
    );
    assert_eq!(
        frame(&out, &RxRules::connecting(Receiver::Host)).pdu,
        Pdu::IcResp(resp)
    );
}

#[test]
fn golden_read_capsule() {
    let mut out = [0u8; HEADER_LEN_MAX];
    assert_eq!(PLAIN.capsule_cmd(&read_command(), 0, &mut out), 72);
    let mut golden = [0u8; 72];
    golden[..8].copy_from_slice(&[4, 0, 72, 0, 72, 0, 0, 0]);
    golden[8..16].copy_from_slice(&[0x02, 0x40, 0x34, 0x12, 1, 0, 0, 0]);
    golden[40..48].copy_from_slice(&[0x00, 0x10, 0, 0, 0, 0, 0, 0x5a]);
    golden[48..64].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(out[..72], golden);
}

#[test]
fn golden_response_with_header_digest() {
    let cqe = Cqe::with_result(Cid(5), Status::LBA_OUT_OF_RANGE.dnr(), 0x1122_3344);
    let mut out = [0u8; HEADER_LEN_MAX];
    assert_eq!(DIGESTED.capsule_resp(&cqe, &mut out), 28);
    let header = [
        5, 1, 24, 0, 28, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0x00, 0x81,
    ];
    assert_eq!(out[..24], header);
    assert_eq!(out[24..28], crc32c(&header).to_le_bytes());
    let Pdu::CapsuleResp(got) = frame(&out[..28], &rules(Receiver::Host, &DIGESTED)).pdu else {
        panic!()
    };
    assert_eq!(got.status(), Status::LBA_OUT_OF_RANGE.dnr());
    assert!(got.status().is_dnr() && got.status().is(Status::LBA_OUT_OF_RANGE));
}

#[test]
fn golden_data_and_r2t() {
    let mut out = [0u8; HEADER_LEN_MAX];
    let data = DataPdu {
        cccid: Cid(0x0102),
        ttag: 0x0304,
        offset: 0x1000,
        last: true,
        success: false,
    };
    assert_eq!(PLAIN.h2c_data(&data, 0x200, &mut out), 24);
    assert_eq!(
        out[..24],
        [
            6, 4, 24, 24, 0x18, 2, 0, 0, 2, 1, 4, 3, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0
        ]
    );
    let found = frame(&out[..24], &rules(Receiver::Controller, &PLAIN));
    assert_eq!(
        found,
        Frame {
            pdu: Pdu::H2cData(data),
            data_offset: 24,
            data_len: 0x200,
            data_digest: false
        }
    );

    let r2t = R2t {
        cccid: Cid(1),
        ttag: 2,
        offset: 4096,
        length: 8192,
    };
    assert_eq!(PLAIN.r2t(&r2t, &mut out), 24);
    assert_eq!(
        out[..24],
        [
            9, 0, 24, 0, 24, 0, 0, 0, 1, 0, 2, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0
        ]
    );
}

#[test]
fn golden_term_req() {
    let mut out = [0u8; 152];
    let len = encode::term_req(
        PduType::C2hTermReq,
        FatalErrorStatus::InvalidHeaderField,
        2,
        &[9, 8, 7],
        &mut out,
    );
    assert_eq!(len, 27);
    assert_eq!(
        out[..27],
        [
            3, 0, 24, 0, 27, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8, 7
        ]
    );
    let found = frame(&out[..27], &rules(Receiver::Host, &DIGESTED));
    assert_eq!(found.pdu, Pdu::C2hTermReq(TermReq { fes: 1, fei: 2 }));
    assert_eq!((found.data_offset, found.data_len), (24, 3));
    assert_eq!(
        encode::term_req(
            PduType::H2cTermReq,
            FatalErrorStatus::SequenceError,
            0,
            &[0; 300],
            &mut out
        ),
        152
    );
}

#[test]
fn padding_follows_the_negotiated_alignment() {
    let encoder = Encoder {
        pda: Pda::new(31).unwrap(),
        ..DIGESTED
    };
    let mut out = [0xffu8; HEADER_LEN_MAX];
    assert_eq!(encoder.capsule_cmd(&read_command(), 512, &mut out), 128);
    assert!(out[76..128].iter().all(|&b| b == 0), "padding is zero");
    let found = frame(&out, &rules(Receiver::Controller, &encoder));
    assert_eq!(
        (found.data_offset, found.data_len, found.data_digest),
        (128, 512, true)
    );
    assert_eq!(found.pdu_len(), 128 + 512 + 4);
    // The padding must have arrived too.
    assert_eq!(
        decode(&out[..100], &rules(Receiver::Controller, &encoder)),
        Ok(Decoded::NeedMore(28))
    );
}

#[test]
fn every_prefix_needs_more() {
    let mut out = [0u8; HEADER_LEN_MAX];
    let len = DIGESTED.capsule_cmd(&read_command(), 4096, &mut out);
    let rules = rules(Receiver::Controller, &DIGESTED);
    for cut in 0..len {
        let Ok(Decoded::NeedMore(more)) = decode(&out[..cut], &rules) else {
            panic!("at {cut}")
        };
        assert!(more > 0 && cut + more <= len, "at {cut}: {more}");
    }
}

#[test]
fn refuses_bad_common_headers() {
    use FatalErrorStatus::{InvalidHeaderField, LimitExceeded, SequenceError};
    let mut good = [0u8; HEADER_LEN_MAX];
    let len = PLAIN.capsule_cmd(&read_command(), 4096, &mut good);
    let to_controller = rules(Receiver::Controller, &PLAIN);
    let with = |at: usize, value: u8| {
        let mut bad = good;
        bad[at] = value;
        refused(&bad[..len], &to_controller)
    };
    assert_eq!(with(0, 0x08), (InvalidHeaderField, 0), "unknown type");
    assert_eq!(with(0, 0x05), (InvalidHeaderField, 0), "other direction");
    assert_eq!(with(0, 0x00), (SequenceError, 0), "second ICReq");
    assert_eq!(
        with(1, 0x01),
        (InvalidHeaderField, 1),
        "header digest not negotiated"
    );
    assert_eq!(
        with(1, 0x02),
        (InvalidHeaderField, 1),
        "data digest not negotiated"
    );
    assert_eq!(with(2, 71), (InvalidHeaderField, 2), "HLEN");
    assert_eq!(with(3, 71), (InvalidHeaderField, 3), "PDO in the header");
    assert_eq!(with(3, 73), (InvalidHeaderField, 3), "PDO not aligned");
    assert_eq!(
        with(6, 0xff),
        (InvalidHeaderField, 4),
        "in-capsule data beyond the limit"
    );
    good[5] = 0;
    good[4] = 71;
    assert_eq!(
        refused(&good[..len], &to_controller),
        (InvalidHeaderField, 4),
        "PLEN below HLEN"
    );
    good[4] = 73;
    good[3] = 76;
    assert_eq!(
        refused(&good[..len], &to_controller),
        (InvalidHeaderField, 4),
        "PLEN below PDO"
    );
    let len = PLAIN.capsule_cmd(&read_command(), 4096, &mut good);
    assert_eq!(
        refused(&good[..len], &RxRules::connecting(Receiver::Controller)),
        (SequenceError, 0)
    );

    let data = DataPdu {
        cccid: Cid(0),
        ttag: 0,
        offset: 0,
        last: true,
        success: false,
    };
    let len = PLAIN.h2c_data(&data, 131_076, &mut good);
    assert_eq!(refused(&good[..len], &to_controller), (LimitExceeded, 0));
    let len = PLAIN.h2c_data(&data, 0, &mut good);
    assert_eq!(
        refused(&good[..len], &to_controller),
        (InvalidHeaderField, 4),
        "no data"
    );
    let len = PLAIN.h2c_data(&data, 512, &mut good);
    good[16] = 1;
    assert_eq!(
        refused(&good[..len], &to_controller),
        (InvalidHeaderField, 16),
        "DATAL differs"
    );
    good[16] = 0;
    good[12] = 2;
    assert_eq!(
        refused(&good[..len], &to_controller),
        (InvalidHeaderField, 12),
        "DATAO not aligned"
    );
    let wide = DataPdu {
        offset: u32::MAX - 3,
        ..data
    };
    let len = PLAIN.h2c_data(&wide, 512, &mut good);
    assert_eq!(
        refused(&good[..len], &to_controller).0,
        FatalErrorStatus::DataOutOfRange
    );
}

#[test]
fn refuses_bad_digests_flags_and_parameters() {
    let mut out = [0u8; HEADER_LEN_MAX];
    let len = DIGESTED.capsule_cmd(&read_command(), 0, &mut out);
    let digested = rules(Receiver::Controller, &DIGESTED);
    let digest = u32::from_le_bytes([out[72], out[73], out[74], out[75]]);
    out[50] ^= 1;
    assert_eq!(
        refused(&out[..len], &digested),
        (FatalErrorStatus::HeaderDigest, digest)
    );
    out[50] ^= 1;
    out[1] = 0;
    assert_eq!(
        refused(&out[..len], &digested),
        (FatalErrorStatus::InvalidHeaderField, 1),
        "digest flag cleared"
    );

    let req = IcReq {
        hpda: Pda::DWORD,
        digests: Digests::default(),
        max_r2t: 1,
    };
    encode::ic_req(&req, &mut out);
    let connecting = RxRules::connecting(Receiver::Controller);
    out[8] = 1;
    assert_eq!(
        refused(&out, &connecting),
        (FatalErrorStatus::UnsupportedParameter, 8)
    );
    out[8] = 0;
    out[10] = 32;
    assert_eq!(
        refused(&out, &connecting),
        (FatalErrorStatus::InvalidHeaderField, 10)
    );
    out[10] = 0;
    out[4] = 129;
    assert_eq!(
        refused(&out, &connecting),
        (FatalErrorStatus::InvalidHeaderField, 4)
    );

    let resp = IcResp {
        cpda: Pda::DWORD,
        digests: Digests::default(),
        max_h2c_data: 4092,
    };
    encode::ic_resp(&resp, &mut out);
    assert_eq!(
        refused(&out, &RxRules::connecting(Receiver::Host)),
        (FatalErrorStatus::InvalidHeaderField, 12)
    );

    let data = DataPdu {
        cccid: Cid(0),
        ttag: 0,
        offset: 0,
        last: false,
        success: true,
    };
    let len = PLAIN.c2h_data(&data, 512, &mut out);
    assert_eq!(
        refused(&out[..len], &rules(Receiver::Host, &PLAIN)),
        (FatalErrorStatus::InvalidHeaderField, 1)
    );
    let none = R2t {
        cccid: Cid(0),
        ttag: 0,
        offset: 0,
        length: 0,
    };
    let len = PLAIN.r2t(&none, &mut out);
    assert_eq!(
        refused(&out[..len], &rules(Receiver::Host, &PLAIN)),
        (FatalErrorStatus::InvalidHeaderField, 16)
    );
}

fn any_encoder() -> impl Strategy<Value = Encoder> {
    (any::<bool>(), any::<bool>(), 0..=31u8).prop_map(|(header, data, pda)| Encoder {
        digests: Digests { header, data },
        pda: Pda::new(pda).unwrap(),
    })
}

proptest! {
    #[test]
    fn capsules_round_trip(encoder in any_encoder(), bytes in any::<[u8; 32]>(), data_len in 0..=8192u32) {
        let mut raw = [0u8; 64];
        raw[..32].copy_from_slice(&bytes);
        let sqe = Sqe::read_from_bytes(&raw).unwrap();
        let mut out = [0u8; HEADER_LEN_MAX];
        let len = encoder.capsule_cmd(&sqe, data_len, &mut out);
        let found = frame(&out[..len], &rules(Receiver::Controller, &encoder));
        prop_assert_eq!(found.pdu, Pdu::CapsuleCmd(sqe));
        prop_assert_eq!((found.data_offset, found.data_len), (len, data_len));
        prop_assert_eq!(found.data_digest, encoder.digests.data && data_len > 0);

        let cqe = Cqe::read_from_bytes(&bytes[..16]).unwrap();
        let len = encoder.capsule_resp(&cqe, &mut out);
        prop_assert_eq!(frame(&out[..len], &rules(Receiver::Host, &encoder)).pdu, Pdu::CapsuleResp(cqe));
    }

    #[test]
    fn transfers_round_trip(
        encoder in any_encoder(), cccid: u16, ttag: u16, dwords in 0..(1u32 << 29), len in 1..=131_072u32,
        last: bool, success: bool,
    ) {
        let mut out = [0u8; HEADER_LEN_MAX];
        let offset = dwords * 4;
        let data = DataPdu { cccid: Cid(cccid), ttag, offset, last, success: false };
        let n = encoder.h2c_data(&data, len, &mut out);
        let found = frame(&out[..n], &rules(Receiver::Controller, &encoder));
        prop_assert_eq!((found.pdu, found.data_len, found.data_offset), (Pdu::H2cData(data), len, n));

        let data = DataPdu { success: success && last, ..data };
        let n = encoder.c2h_data(&data, len, &mut out);
        let found = frame(&out[..n], &rules(Receiver::Host, &encoder));
        prop_assert_eq!((found.pdu, found.data_len, found.data_offset), (Pdu::C2hData(data), len, n));

        let r2t = R2t { cccid: Cid(cccid), ttag, offset, length: len };
        let n = encoder.r2t(&r2t, &mut out);
        prop_assert_eq!(frame(&out[..n], &rules(Receiver::Host, &encoder)).pdu, Pdu::R2t(r2t));
    }

    #[test]
    fn arbitrary_bytes_never_lie_about_lengths(
        encoder in any_encoder(), to_host: bool, mut bytes in proptest::collection::vec(any::<u8>(), 0..256), kind in 0..10u8,
        hlen in prop_oneof![Just(24u8), Just(72), Just(128), any::<u8>()],
    ) {
        if let Some(head) = bytes.first_chunk_mut::<8>() {
            *head = [kind, head[1], hlen, head[3], head[4], head[5] & 1, 0, 0];
        }
        let receiver = if to_host { Receiver::Host } else { Receiver::Controller };
        match decode(&bytes, &rules(receiver, &encoder)) {
            Ok(Decoded::Frame(f)) => {
                prop_assert!(f.data_offset <= bytes.len());
                prop_assert_eq!(f.pdu_len() as u64, u64::from(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])));
            }
            Ok(Decoded::NeedMore(n)) => prop_assert!(n > 0 && bytes.len() + n <= 256),
            Err(e) => prop_assert!(!e.what.is_empty()),
        }
    }
}
