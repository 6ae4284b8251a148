//! I/O commands beyond the common path, fused pairs, and durability.

use crate::disk::Scripted;
use crate::fixture::{Fixture, ram};
use crate::host::{BLOCK, blocks, pattern, read, run, write};
use backend::StorageError;
use nvmf::controller::TargetConfig;
use nvmf::wire::command::{Fuse, IoFlags, Nsid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::copy::{self, CopyRange};
use nvmf::wire::dsm::{self, DsmAttributes, DsmRange};
use nvmf::wire::features::{self, fid};
use nvmf::wire::opcode::io as nvm;
use nvmf::wire::status::Status;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

fn with_flags(mut sqe: Sqe, flags: IoFlags) -> Sqe {
    sqe.cdw12 = U32::new(sqe.cdw12.get() | flags.bits());
    sqe
}

#[test]
fn compare_tells_equal_from_different() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let data = pattern(4096, 1);
        io.command(write(0, 8), &data).await;
        assert!(
            io.command(blocks(nvm::COMPARE, 0, 8), &data)
                .await
                .status
                .is_success()
        );
        let mut other = data.clone();
        other[4000] ^= 1;
        assert!(
            io.command(blocks(nvm::COMPARE, 0, 8), &other)
                .await
                .status
                .is(Status::COMPARE_FAILURE)
        );
        assert!(
            io.transfer(blocks(nvm::COMPARE, 0, 8), &data)
                .await
                .status
                .is_success()
        );
    });
}

#[test]
fn zeroes_trim_verify_and_copy() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let data = pattern(64 * BLOCK, 2);
        assert!(io.transfer(write(0, 64), &data).await.status.is_success());
        let zero = with_flags(
            blocks(nvm::WRITE_ZEROES, 0, 8),
            IoFlags::DEALLOCATE | IoFlags::FUA,
        );
        assert!(io.command(zero, &[]).await.status.is_success());
        assert_eq!(io.command(read(0, 8), &[]).await.data, vec![0; 8 * BLOCK]);
        let trim = dsm::command(Nsid(1), 2, DsmAttributes::DEALLOCATE);
        let ranges = [DsmRange::new(8, 8), DsmRange::new(40, 8)];
        assert!(
            io.command(trim, ranges.as_bytes())
                .await
                .status
                .is_success()
        );
        assert_eq!(io.command(read(40, 8), &[]).await.data, vec![0; 8 * BLOCK]);
        // A Linux host sends a buffer for 256 ranges, also for fewer: it was refused, and trim never worked.
        let mut roomy = [DsmRange::new(48, 8)].as_bytes().to_vec();
        roomy.resize(4096, 0);
        let one = dsm::command(Nsid(1), 1, DsmAttributes::DEALLOCATE);
        assert!(io.command(one, &roomy).await.status.is_success());
        assert_eq!(io.command(read(48, 8), &[]).await.data, vec![0; 8 * BLOCK]);
        let beyond = [DsmRange::new(8, 8), DsmRange::new(8190, 8)];
        assert!(
            io.command(trim, beyond.as_bytes())
                .await
                .status
                .is(Status::LBA_OUT_OF_RANGE)
        );
        assert!(
            io.command(blocks(nvm::VERIFY, 0, 8192), &[])
                .await
                .status
                .is_success()
        );
        assert!(
            io.command(blocks(nvm::VERIFY, 1, 8192), &[])
                .await
                .status
                .is(Status::LBA_OUT_OF_RANGE)
        );
        let sources = [CopyRange::new(16, 8), CopyRange::new(56, 4)];
        assert!(
            io.command(copy::command(Nsid(1), 1000, 2), sources.as_bytes())
                .await
                .status
                .is_success()
        );
        let moved = [&data[16 * BLOCK..24 * BLOCK], &data[56 * BLOCK..60 * BLOCK]].concat();
        assert_eq!(io.command(read(1000, 12), &[]).await.data, moved);
        let long = [CopyRange::new(0, 4096)];
        let answer = io
            .command(copy::command(Nsid(1), 1000, 1), long.as_bytes())
            .await;
        assert!(answer.status.is(Status::NVM_COMMAND_SIZE_LIMIT));
    });
}

/// Sends a fused pair as two capsules in one segment; the answers in the order of the commands.
async fn fused(
    io: &mut crate::host::Host,
    compare: (Sqe, &[u8]),
    write: (Sqe, &[u8]),
) -> (Status, Status) {
    let mut bytes = Vec::new();
    let mut cids = [0; 2];
    for (i, ((mut sqe, data), fuse)) in [(compare, Fuse::First), (write, Fuse::Second)]
        .into_iter()
        .enumerate()
    {
        sqe = sqe.with_fuse(fuse);
        cids[i] = io.cid();
        sqe.cid.set(cids[i]);
        sqe.sgl = SglDescriptor::new(Sgl::InCapsule {
            offset: 0,
            length: data.len() as u32,
        });
        bytes.extend(io.capsule(&sqe, data));
    }
    io.send(&bytes).await;
    (
        io.answer(cids[0]).await.status,
        io.answer(cids[1]).await.status,
    )
}

#[test]
fn a_fused_pair_writes_only_what_compares() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let (old, new) = (pattern(BLOCK, 1), pattern(BLOCK, 2));
        io.command(write(3, 1), &old).await;
        let compare = blocks(nvm::COMPARE, 3, 1);
        let (a, b) = fused(&mut io, (compare, &old), (write(3, 1), &new)).await;
        assert!(a.is_success() && b.is_success());
        assert_eq!(io.command(read(3, 1), &[]).await.data, new);
        let (a, b) = fused(&mut io, (compare, &old), (write(3, 1), &old)).await;
        assert!(
            a.is(Status::COMPARE_FAILURE) && b.is(Status::ABORTED_FAILED_FUSED),
            "{a} {b}"
        );
        let (a, b) = fused(&mut io, (compare, &new), (write(4, 1), &old)).await;
        assert!(
            a.is(Status::INVALID_FIELD) && b.is(Status::INVALID_FIELD),
            "{a} {b}"
        );
        let (a, b) = fused(
            &mut io,
            (blocks(nvm::COMPARE, 9000, 1), &new),
            (write(9000, 1), &old),
        )
        .await;
        assert!(
            a.is(Status::LBA_OUT_OF_RANGE) && b.is(Status::LBA_OUT_OF_RANGE),
            "{a} {b}"
        );
        let (a, b) = fused(&mut io, (write(3, 1), &new), (write(3, 1), &old)).await;
        assert!(
            a.is(Status::INVALID_FIELD) && b.is(Status::ABORTED_FAILED_FUSED),
            "{a} {b}"
        );
        assert_eq!(io.command(read(3, 1), &[]).await.data, new);
    });
}

#[test]
fn a_half_of_a_pair_alone_is_aborted() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let second = write(0, 1).with_fuse(Fuse::Second);
        assert!(
            io.command(second, &[1; BLOCK])
                .await
                .status
                .is(Status::ABORTED_MISSING_FUSED)
        );
        let first = io
            .submit(
                blocks(nvm::COMPARE, 0, 1).with_fuse(Fuse::First),
                &[0; BLOCK],
            )
            .await;
        let next = io.submit(read(0, 1), &[]).await;
        assert!(
            io.answer(first)
                .await
                .status
                .is(Status::ABORTED_MISSING_FUSED)
        );
        assert!(io.answer(next).await.status.is_success());
        // By R2T: the first half is answered when its data has come.
        let mut by_r2t = blocks(nvm::COMPARE, 0, 1).with_fuse(Fuse::First);
        by_r2t.sgl = SglDescriptor::new(Sgl::Transport {
            length: BLOCK as u32,
        });
        let first = io.submit(by_r2t, &[]).await;
        let r2t = io.r2t(first).await.expect("an R2T");
        let next = io.submit(read(0, 1), &[]).await;
        assert!(io.answer(next).await.status.is_success());
        let bytes = io.h2c(&r2t, 0, &[0; BLOCK], true);
        io.send(&bytes).await;
        assert!(
            io.answer(first)
                .await
                .status
                .is(Status::ABORTED_MISSING_FUSED)
        );
    });
}

#[test]
fn a_fused_pair_by_r2t_is_one_step_too() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let mut cids = Vec::new();
        for (sqe, fuse) in [
            (blocks(nvm::COMPARE, 0, 1), Fuse::First),
            (write(0, 1), Fuse::Second),
        ] {
            let mut sqe = sqe.with_fuse(fuse);
            sqe.sgl = SglDescriptor::new(Sgl::Transport {
                length: BLOCK as u32,
            });
            cids.push(io.submit(sqe, &[]).await);
        }
        let first = io.r2t(cids[0]).await.expect("an R2T");
        let second = io.r2t(cids[1]).await.expect("an R2T");
        let bytes = [
            io.h2c(&second, 0, &[5; BLOCK], true),
            io.h2c(&first, 0, &[0; BLOCK], true),
        ]
        .concat();
        io.send(&bytes).await;
        assert!(io.answer(cids[0]).await.status.is_success());
        assert!(io.answer(cids[1]).await.status.is_success());
        assert_eq!(io.command(read(0, 1), &[]).await.data, vec![5; BLOCK]);
    });
}

#[test]
fn fua_flush_and_a_disabled_cache_reach_the_medium() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let (mut a, mut io) = fx.io(1).await;
        io.command(write(0, 1), &[1; BLOCK]).await;
        assert_eq!(
            (
                disk.plain_writes.load(Ordering::SeqCst),
                disk.durable_writes.load(Ordering::SeqCst)
            ),
            (1, 0)
        );
        io.command(with_flags(write(0, 1), IoFlags::FUA), &[1; BLOCK])
            .await;
        assert_eq!(disk.durable_writes.load(Ordering::SeqCst), 1);
        io.command(Sqe::new(nvm::FLUSH, Nsid(1)), &[]).await;
        assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
        a.command(features::set(fid::VOLATILE_WRITE_CACHE, 0, Nsid::NONE), &[])
            .await;
        io.command(write(0, 1), &[1; BLOCK]).await;
        assert_eq!(disk.durable_writes.load(Ordering::SeqCst), 2);
        io.command(
            with_flags(blocks(nvm::WRITE_ZEROES, 0, 1), IoFlags::FUA),
            &[],
        )
        .await;
        assert_eq!(disk.flushes.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn every_storage_error_has_its_status() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let (_a, mut io) = fx.io(1).await;
        for (error, status, dnr) in [
            (StorageError::ReadOnly, Status::WRITE_PROTECTED, true),
            (StorageError::NoSpace, Status::CAPACITY_EXCEEDED, true),
            (StorageError::MediaWrite, Status::WRITE_FAULT, true),
            (StorageError::Offline, Status::NAMESPACE_NOT_READY, false),
            (StorageError::Exhausted, Status::COMMAND_INTERRUPTED, false),
            (StorageError::Aborted, Status::ABORT_REQUESTED, false),
        ] {
            disk.fail_with(Some(error));
            let answer = io.command(write(0, 1), &[1; BLOCK]).await;
            assert!(
                answer.status.is(status) && answer.status.is_dnr() == dnr,
                "{error}: {}",
                answer.status
            );
            assert!(
                !io.command(Sqe::new(nvm::FLUSH, Nsid(1)), &[])
                    .await
                    .status
                    .is_success()
            );
        }
        for (error, status) in [
            (StorageError::MediaRead, Status::UNRECOVERED_READ),
            (StorageError::Corrupt, Status::GUARD_CHECK),
        ] {
            disk.fail_with(Some(error));
            assert!(io.command(read(0, 1), &[]).await.status.is(status));
        }
        disk.fail_with(None);
        assert!(io.command(read(0, 1), &[]).await.status.is_success());
        disk.read_only.store(true, Ordering::SeqCst);
        assert!(
            io.command(write(0, 1), &[1; BLOCK])
                .await
                .status
                .is(Status::WRITE_PROTECTED)
        );
    });
}

#[test]
fn namespaces_come_go_and_grow_under_io() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let second = Sqe {
            nsid: 2.into(),
            ..read(0, 1)
        };
        assert!(
            io.command(second, &[])
                .await
                .status
                .is(Status::INVALID_NAMESPACE)
        );
        let disk = Scripted::new(false);
        fx.target
            .add_namespace(
                &crate::host::nqn(),
                crate::fixture::namespace(2, disk.clone()),
            )
            .expect("added");
        assert!(io.command(second, &[]).await.status.is_success());
        disk.hang.store(true, Ordering::SeqCst);
        let cid = io.submit(second, &[]).await;
        assert!(
            io.command(read(0, 1), &[]).await.status.is_success(),
            "the other namespace goes on"
        );
        fx.target
            .remove_namespace(&crate::host::nqn(), 2)
            .expect("removed");
        assert!(
            io.command(second, &[])
                .await
                .status
                .is(Status::INVALID_NAMESPACE)
        );
        disk.hang.store(false, Ordering::SeqCst);
        assert!(
            io.answer(cid).await.status.is_success(),
            "what was in flight is finished"
        );
        let grown = ram(8 << 20);
        fx.target
            .add_namespace(
                &crate::host::nqn(),
                crate::fixture::namespace(3, grown.clone()),
            )
            .expect("added");
        let last = Sqe {
            nsid: 3.into(),
            ..read(16383, 1)
        };
        assert!(io.command(last, &[]).await.status.is_success());
        let _ = grown.resize(8192).await;
        assert!(
            io.command(last, &[])
                .await
                .status
                .is(Status::LBA_OUT_OF_RANGE)
        );
    });
}

#[test]
fn reads_beyond_the_budget_wait_and_all_are_answered() {
    run(async {
        let config = TargetConfig {
            connection_budget: 2 << 20,
            ..TargetConfig::default()
        };
        let fx = Fixture::with(config, Some(ram(4 << 20)));
        let (_a, mut io) = fx.io(1).await;
        let data = pattern(1 << 20, 7);
        assert!(io.transfer(write(0, 2048), &data).await.status.is_success());
        let cids = {
            let mut cids = Vec::new();
            for _ in 0..20 {
                cids.push(io.submit(read(0, 2048), &[]).await);
            }
            cids
        };
        for cid in cids {
            assert_eq!(io.answer(cid).await.data, data);
        }
    });
}
