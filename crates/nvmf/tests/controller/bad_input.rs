//! Invalid input from a host: each gets the status or the termination request that the specification names, and the
//! next host is served as if nothing had happened.

use crate::fixture::Fixture;
use crate::host::{Host, pattern, read, run, write};
use nvmf::controller::{CloseReason, TargetConfig};
use nvmf::wire::command::{Nsid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::opcode::{admin, io as nvm};
use nvmf::wire::pdu::{Digests, FatalErrorStatus, IcReq, Pda, PduType, encode};
use nvmf::wire::status::Status;
use zerocopy::little_endian::U64;

/// The connection ends with this status, is counted, and another host finds the target in order.
async fn ends(fx: &Fixture, mut h: Host, fes: FatalErrorStatus, fei: Option<u32>) {
    let term = h.terminated().await;
    assert_eq!(FatalErrorStatus::from_code(term.fes), Some(fes));
    if let Some(fei) = fei {
        assert_eq!(term.fei, fei);
    }
    h.close();
    let counted = fx
        .target
        .counters()
        .pdu_errors
        .iter()
        .any(|(f, n)| *f == fes && *n > 0);
    assert!(counted, "the error is counted");
    let (_admin, mut io) = fx.io(9).await;
    assert!(io.command(read(0, 1), &[]).await.status.is_success());
}

#[test]
fn a_command_before_icreq_is_a_sequence_error() {
    run(async {
        let fx = Fixture::new();
        let mut h = Host::raw(fx.addr).await;
        let bytes = h.capsule(&read(0, 1), &[]);
        h.send(&bytes).await;
        ends(&fx, h, FatalErrorStatus::SequenceError, None).await;
    });
}

#[test]
fn a_second_icreq_is_a_sequence_error() {
    run(async {
        let fx = Fixture::new();
        let mut h = fx.host().await;
        let mut out = [0; 256];
        let n = encode::ic_req(
            &IcReq {
                hpda: Pda::DWORD,
                digests: Digests::default(),
                max_r2t: 1,
            },
            &mut out,
        );
        h.send(&out[..n]).await;
        ends(&fx, h, FatalErrorStatus::SequenceError, None).await;
    });
}

#[test]
fn an_unknown_protocol_version_is_an_unsupported_parameter() {
    run(async {
        let fx = Fixture::new();
        let mut h = Host::raw(fx.addr).await;
        let mut out = [0; 256];
        let n = encode::ic_req(
            &IcReq {
                hpda: Pda::DWORD,
                digests: Digests::default(),
                max_r2t: 1,
            },
            &mut out,
        );
        out[8] = 1;
        h.send(&out[..n]).await;
        ends(&fx, h, FatalErrorStatus::UnsupportedParameter, Some(8)).await;
    });
}

#[test]
fn an_unknown_pdu_type_a_wrong_length_and_one_of_our_own_are_header_errors() {
    run(async {
        let fx = Fixture::new();
        for (at, byte, fei) in [
            (0, 0x55, 0),
            (0, PduType::CapsuleResp as u8, 0),
            (2, 71, 2),
            (4, 8, 4),
        ] {
            let (_admin, mut io) = fx.io(1).await;
            let mut bytes = io.capsule(&read(0, 1), &[]);
            bytes[at] = byte;
            io.send(&bytes).await;
            ends(&fx, io, FatalErrorStatus::InvalidHeaderField, Some(fei)).await;
        }
    });
}

#[test]
fn a_capsule_beyond_the_limit_is_refused_before_its_data_comes() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let mut bytes = io.capsule(&write(0, 8), &pattern(4096, 0));
        bytes[4..8].copy_from_slice(&0xffff_ff00u32.to_le_bytes());
        io.send(&bytes[..72]).await;
        ends(&fx, io, FatalErrorStatus::InvalidHeaderField, Some(4)).await;
    });
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_is_shown() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx
            .io_with(
                1,
                Digests {
                    header: true,
                    data: false,
                },
                false,
            )
            .await;
        let mut bytes = io.capsule(&read(0, 1), &[]);
        bytes[72..76].copy_from_slice(&0xdead_beefu32.to_le_bytes());
        io.send(&bytes).await;
        ends(&fx, io, FatalErrorStatus::HeaderDigest, Some(0xdead_beef)).await;
    });
}

#[test]
fn a_wrong_data_digest_fails_the_command_and_changes_nothing() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx
            .io_with(
                1,
                Digests {
                    header: false,
                    data: true,
                },
                false,
            )
            .await;
        let before = pattern(512, 1);
        assert!(io.command(write(0, 1), &before).await.status.is_success());
        // In the capsule.
        let mut sqe = write(0, 1);
        sqe.cid.set(900);
        sqe.sgl = SglDescriptor::new(Sgl::InCapsule {
            offset: 0,
            length: 512,
        });
        let mut bytes = io.capsule(&sqe, &[3; 512]);
        *bytes.last_mut().expect("a digest") ^= 1;
        io.send(&bytes).await;
        assert!(
            io.answer(900)
                .await
                .status
                .is(Status::TRANSIENT_TRANSPORT_ERROR)
        );
        // After an R2T.
        let cid = io.submit(write(0, 1), &[]).await;
        let r2t = io.r2t(cid).await.expect("an R2T");
        let mut bytes = io.h2c(&r2t, 0, &[3; 512], true);
        *bytes.last_mut().expect("a digest") ^= 1;
        io.send(&bytes).await;
        assert!(
            io.answer(cid)
                .await
                .status
                .is(Status::TRANSIENT_TRANSPORT_ERROR)
        );
        assert_eq!(io.command(read(0, 1), &[]).await.data, before);
        assert_eq!(fx.target.counters().data_digest_errors, 2);
    });
}

#[test]
fn data_that_nobody_asked_for_or_that_does_not_fit_ends_the_connection() {
    run(async {
        let fx = Fixture::new();
        type Spoil = fn(&mut nvmf::wire::pdu::R2t, &mut u32, &mut bool);
        let cases: [(Spoil, FatalErrorStatus, u32); 5] = [
            (
                |r, _, _| r.ttag = 99,
                FatalErrorStatus::InvalidHeaderField,
                10,
            ),
            (
                |r, _, _| r.cccid.0 ^= 0x100,
                FatalErrorStatus::InvalidHeaderField,
                8,
            ),
            (
                |_, offset, _| *offset = 512,
                FatalErrorStatus::DataOutOfRange,
                0,
            ),
            (
                |_, offset, _| *offset = 16384 - 512,
                FatalErrorStatus::DataOutOfRange,
                0,
            ),
            (
                |_, _, last| *last = true,
                FatalErrorStatus::InvalidHeaderField,
                1,
            ),
        ];
        for (spoil, fes, fei) in cases {
            let (_admin, mut io) = fx.io(1).await;
            let cid = io.submit(write(0, 32), &[]).await;
            let mut r2t = io.r2t(cid).await.expect("an R2T");
            let (mut offset, mut last) = (0, false);
            spoil(&mut r2t, &mut offset, &mut last);
            let bytes = io.h2c(&r2t, offset, &[1; 1024], last);
            io.send(&bytes).await;
            ends(&fx, io, fes, Some(fei)).await;
        }
    });
}

#[test]
fn a_replayed_data_pdu_ends_the_connection() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let cid = io.submit(write(0, 8), &[]).await;
        let r2t = io.r2t(cid).await.expect("an R2T");
        let bytes = io.h2c(&r2t, 0, &[1; 2048], false);
        io.send(&bytes).await;
        io.send(&bytes).await;
        ends(&fx, io, FatalErrorStatus::DataOutOfRange, None).await;
    });
}

#[test]
fn a_cid_in_use_is_refused_and_the_first_command_lives() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let cid = io.submit(write(0, 32), &[]).await;
        let r2t = io.r2t(cid).await.expect("an R2T");
        let mut twin = read(0, 1);
        twin.cid.set(cid);
        let bytes = io.capsule(&twin, &[]);
        io.send(&bytes).await;
        assert!(io.answer(cid).await.status.is(Status::COMMAND_ID_CONFLICT));
        let bytes = io.h2c(&r2t, 0, &[1; 32 * 512], true);
        io.send(&bytes).await;
        assert!(io.answer(cid).await.status.is_success());
    });
}

#[test]
fn sgls_that_lie_are_refused() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let data = pattern(4096, 0);
        let in_capsule = |offset, length| Sgl::InCapsule { offset, length };
        for (sgl, status) in [
            (in_capsule(0, 8192), Status::DATA_SGL_LENGTH_INVALID),
            (in_capsule(0, 512), Status::DATA_SGL_LENGTH_INVALID),
            (in_capsule(4097, 4096), Status::SGL_OFFSET_INVALID),
            (in_capsule(u64::MAX, 4096), Status::SGL_OFFSET_INVALID),
            (in_capsule(512, 4096), Status::DATA_SGL_LENGTH_INVALID),
            (
                Sgl::Transport { length: u32::MAX },
                Status::DATA_SGL_LENGTH_INVALID,
            ),
            (Sgl::Empty, Status::DATA_SGL_LENGTH_INVALID),
            (
                Sgl::Unsupported { identifier: 0x40 },
                Status::SGL_TYPE_INVALID,
            ),
        ] {
            let mut sqe = write(0, 8);
            sqe.sgl = SglDescriptor::new(sgl);
            sqe.cid.set(7);
            let bytes = io.capsule(&sqe, &data);
            io.send(&bytes).await;
            let answer = io.answer(7).await;
            assert!(answer.status.is(status), "{sgl:?}: {}", answer.status);
        }
        let mut sqe = read(0, 1);
        sqe.sgl = SglDescriptor::new(Sgl::Transport { length: 1 << 20 });
        assert!(
            io.command(sqe, &[])
                .await
                .status
                .is(Status::DATA_SGL_LENGTH_INVALID)
        );
    });
}

#[test]
fn ranges_opcodes_and_namespaces_that_do_not_exist_are_refused() {
    run(async {
        let fx = Fixture::new();
        let (mut admin, mut io) = fx.io(1).await;
        let mut far = read(0, 1);
        far.set_slba(u64::MAX);
        for (sqe, status) in [
            (far, Status::LBA_OUT_OF_RANGE),
            (read(8191, 2), Status::LBA_OUT_OF_RANGE),
            (read(0, 4096), Status::INVALID_FIELD),
            (Sqe::new(0xc0, Nsid(1)), Status::INVALID_OPCODE),
            (
                Sqe::new(nvm::WRITE_UNCORRECTABLE, Nsid(1)),
                Status::INVALID_OPCODE,
            ),
            (Sqe::new(nvm::FLUSH, Nsid(2)), Status::INVALID_NAMESPACE),
            (Sqe::new(nvm::FLUSH, Nsid(0)), Status::INVALID_NAMESPACE),
            (
                Sqe {
                    nsid: 0xffff_fff0.into(),
                    ..read(0, 1)
                },
                Status::INVALID_NAMESPACE,
            ),
        ] {
            let answer = io.command(sqe, &[]).await;
            assert!(
                answer.status.is(status) && answer.status.is_dnr(),
                "{sqe:?}: {}",
                answer.status
            );
        }
        for opcode in [
            admin::FORMAT_NVM,
            admin::NAMESPACE_MANAGEMENT,
            admin::SANITIZE,
            0xff,
        ] {
            assert!(
                admin
                    .command(Sqe::new(opcode, Nsid(1)), &[])
                    .await
                    .status
                    .is(Status::INVALID_OPCODE)
            );
        }
        assert_eq!(fx.target.counters().errors_of(Status::LBA_OUT_OF_RANGE), 2);
    });
}

#[test]
fn protection_information_and_prps_are_refused() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let mut sqe = read(0, 1);
        sqe.cdw12.set(1 << 29);
        assert!(
            io.command(sqe, &[])
                .await
                .status
                .is(Status::NVM_INVALID_PROTECTION_INFO)
        );
        let mut sqe = read(0, 1);
        sqe.flags = 0;
        sqe.mptr = U64::new(0x1000);
        assert!(io.command(sqe, &[]).await.status.is(Status::INVALID_FIELD));
    });
}

#[test]
fn more_commands_than_the_queue_holds_end_the_connection() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let mut bytes = Vec::new();
        for cid in 0..300 {
            let mut sqe = write(0, 8);
            sqe.cid.set(cid);
            bytes.extend(io.capsule(&sqe, &[]));
        }
        io.send(&bytes).await;
        ends(&fx, io, FatalErrorStatus::LimitExceeded, None).await;
    });
}

#[test]
fn a_termination_request_from_the_host_closes() {
    run(async {
        let fx = Fixture::new();
        let mut h = fx.host().await;
        let mut out = [0; 256];
        let n = encode::term_req(
            PduType::H2cTermReq,
            FatalErrorStatus::SequenceError,
            0,
            &[1; 24],
            &mut out,
        );
        h.send(&out[..n]).await;
        assert!(h.closed().await);
        assert_eq!(
            fx.target.counters().closed_for(CloseReason::HostTerminated),
            1
        );
    });
}

#[test]
fn a_host_that_does_not_close_after_a_termination_request_is_closed() {
    run(async {
        let config = TargetConfig {
            linger: std::time::Duration::from_millis(20),
            ..TargetConfig::default()
        };
        let fx = Fixture::with(config, None);
        let mut h = fx.host().await;
        h.send(&[0xff; 200]).await;
        h.terminated().await;
        h.send(&[0xff; 5000]).await;
        assert!(h.closed().await);
        assert_eq!(fx.target.counters().closed_for(CloseReason::Protocol), 1);
    });
}

mod hostile {
    use super::{Fixture, Host, run};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Random bytes before or after ICReq, in a queue or not: the connection ends or goes on, the target does not panic,
        /// and the next host is served.
        #[test]
        fn bytes_of_any_kind_do_no_harm(
            stage in 0u8..4,
            mut bytes in proptest::collection::vec(any::<u8>(), 1..600),
            kind in prop_oneof![Just(None), (0u8..10).prop_map(Some)],
        ) {
            run(async move {
                let fx = Fixture::new();
                let mut h = match stage {
                    0 => Host::raw(fx.addr).await,
                    1 => fx.host().await,
                    2 => fx.admin(1).await,
                    _ => fx.io(1).await.1,
                };
                // Often close to a PDU, so that the fields behind the common header are reached.
                if let Some(kind) = kind {
                    let hlen = match kind { 0 | 1 => 128, 4 => 72, _ => 24 };
                    bytes.resize(bytes.len().max(hlen as usize + 8), 0);
                    let plen = (bytes.len() as u32).to_le_bytes();
                    bytes[0] = kind;
                    bytes[1] &= 0xc;
                    bytes[2] = hlen;
                    bytes[3] = hlen;
                    bytes[4..8].copy_from_slice(&plen);
                }
                h.send(&bytes).await;
                h.close();
                while h.recv().await.is_some() {}
                let mut next = fx.admin(2).await;
                let ok = next.command(nvmf::wire::command::Sqe::new(nvmf::wire::opcode::admin::KEEP_ALIVE, nvmf::wire::command::Nsid::NONE), &[]).await;
                assert!(ok.status.is_success());
            });
        }
    }
}
