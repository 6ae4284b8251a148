//! The way a Linux host takes: connect, identify, read, write, flush, keep alive.

use crate::fixture::Fixture;
use crate::host::{Host, blocks, pattern, read, write};
use nvmf::wire::command::{IoFlags, Nsid, Sqe};
use nvmf::wire::identify::{self, IdentifyController, IdentifyNamespace, NamespaceDescriptor, cns};
use nvmf::wire::opcode::{admin, io as nvm};
use nvmf::wire::pdu::Digests;
use nvmf::wire::status::Status;
use zerocopy::little_endian::U32;

use crate::host::run;

#[test]
fn a_host_connects_identifies_reads_writes_and_flushes() {
    run(async {
        let fx = Fixture::new();
        let (mut admin, mut io) = fx.io(1).await;
        let id = admin
            .fetch(identify::command(cns::CONTROLLER, Nsid::NONE, 0), 4096)
            .await;
        let id = IdentifyController::parse(&id.data).expect("4096 bytes");
        assert_eq!(id.cntlid.get(), admin.cntlid);
        assert_eq!(id.in_capsule_data_max(), 8192);
        let ns = admin
            .fetch(identify::command(cns::NAMESPACE, Nsid(1), 0), 4096)
            .await;
        let ns = IdentifyNamespace::parse(&ns.data).expect("4096 bytes");
        assert_eq!((ns.nsze.get(), ns.block_size()), (8192, Some(512)));
        let list = admin
            .fetch(
                identify::command(cns::NAMESPACE_DESCRIPTORS, Nsid(1), 0),
                4096,
            )
            .await;
        let ids = identify::parse_descriptor_list(&list.data).expect("a list");
        assert!(
            ids.iter()
                .any(|d| matches!(d, NamespaceDescriptor::Uuid(_)))
        );

        let small = pattern(4096, 1);
        assert!(io.command(write(8, 8), &small).await.status.is_success());
        let large = pattern(300 * 512, 2);
        assert!(
            io.transfer(write(100, 300), &large)
                .await
                .status
                .is_success()
        );
        assert_eq!(io.command(read(8, 8), &[]).await.data, small);
        assert_eq!(io.command(read(100, 300), &[]).await.data, large);
        let mut fua = write(8, 1);
        fua.cdw12 = U32::new(fua.cdw12.get() | IoFlags::FUA.bits());
        assert!(io.command(fua, &[7; 512]).await.status.is_success());
        assert!(
            io.command(Sqe::new(nvm::FLUSH, Nsid(1)), &[])
                .await
                .status
                .is_success()
        );
        assert!(
            io.command(Sqe::new(nvm::FLUSH, Nsid::ALL), &[])
                .await
                .status
                .is_success()
        );
        assert!(
            admin
                .command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
                .await
                .status
                .is_success()
        );
        let zeroes = io.command(blocks(nvm::WRITE_ZEROES, 8, 8), &[]).await;
        assert!(zeroes.status.is_success());
        assert_eq!(io.command(read(8, 8), &[]).await.data, vec![0; 4096]);
        let beyond = io.command(read(8192, 1), &[]).await;
        assert!(beyond.status.is(Status::LBA_OUT_OF_RANGE) && beyond.status.is_dnr());
    });
}

#[test]
fn digests_protect_both_ways_and_success_is_said_by_the_data() {
    run(async {
        let fx = Fixture::new();
        let both = Digests {
            header: true,
            data: true,
        };
        let (_admin, mut io) = fx.io_with(1, both, true).await;
        let large = pattern(1 << 20, 3);
        assert!(
            io.transfer(write(0, 2048), &large)
                .await
                .status
                .is_success()
        );
        let back = io.command(read(0, 2048), &[]).await;
        assert!(back.by_flag && back.data == large);
        let small = pattern(512, 4);
        assert!(io.command(write(5, 1), &small).await.status.is_success());
        assert_eq!(io.command(read(5, 1), &[]).await.data, small);
    });
}

#[test]
fn sqhd_follows_the_commands_where_the_host_wants_to_see_it() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        for expected in 2..300u16 {
            let answer = io.command(Sqe::new(nvm::FLUSH, Nsid(1)), &[]).await;
            assert_eq!(answer.sqhd, expected % 128);
        }
    });
}

#[test]
fn many_commands_in_one_segment_are_all_answered() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let data = pattern(64 * 512, 9);
        assert!(io.transfer(write(0, 64), &data).await.status.is_success());
        let mut bytes = Vec::new();
        let mut cids = Vec::new();
        for i in 0..64 {
            let mut sqe = read(i, 1);
            sqe.cid.set(io.cid());
            cids.push(sqe.cid.get());
            bytes.extend(io.capsule(&sqe, &[]));
        }
        io.send(&bytes).await;
        for (i, cid) in cids.into_iter().enumerate() {
            let answer = io.answer(cid).await;
            assert_eq!(answer.data, data[i * 512..(i + 1) * 512]);
        }
    });
}

#[test]
fn a_capsule_in_single_bytes_is_one_command() {
    run(async {
        let fx = Fixture::new();
        let (_admin, mut io) = fx.io(1).await;
        let mut sqe = read(0, 1);
        sqe.cid.set(77);
        for byte in io.capsule(&sqe, &[]) {
            io.send(&[byte]).await;
            io::yield_now().await;
        }
        assert!(io.answer(77).await.status.is_success());
        let _ = Host::raw(fx.addr).await;
    });
}
