//! Identify, log pages, features, Abort.

use crate::fixture::Fixture;
use crate::host::{BLOCK, nqn, pattern, read, run, write};
use nvmf::controller::SessionState;
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::features::{self, NumberOfQueues, Select, fid};
use nvmf::wire::identify::{self, IdentifyController, NamespaceList, cns};
use nvmf::wire::log::{AnaLog, AnaState, GetLogPage, lid};
use nvmf::wire::opcode::{admin, io as nvm};
use nvmf::wire::status::Status;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

#[test]
fn identify_answers_what_hosts_ask_and_refuses_the_rest() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.admin(1).await;
        for c in [
            cns::NAMESPACE,
            cns::CONTROLLER,
            cns::NAMESPACE_DESCRIPTORS,
            cns::NAMESPACE_CSI,
            cns::CONTROLLER_CSI,
            cns::NAMESPACE_INDEPENDENT,
            cns::ALLOCATED_NAMESPACE,
            cns::NAMESPACE_CONTROLLERS,
            cns::CONTROLLERS,
            cns::IO_COMMAND_SETS,
        ] {
            let answer = a.fetch(identify::command(c, Nsid(1), 0), 4096).await;
            assert!(
                answer.status.is_success() && answer.data.len() == 4096,
                "CNS {c:x}h: {}",
                answer.status
            );
        }
        for c in [
            cns::ACTIVE_NAMESPACES,
            cns::ACTIVE_NAMESPACES_CSI,
            cns::ALLOCATED_NAMESPACES,
        ] {
            let answer = a.fetch(identify::command(c, Nsid(0), 0), 4096).await;
            let list = NamespaceList::read_from_bytes(&answer.data).expect("a list");
            assert_eq!(list.iter().collect::<Vec<_>>(), [Nsid(1)]);
        }
        let unknown = a.fetch(identify::command(0x55, Nsid(1), 0), 4096).await;
        assert!(unknown.status.is(Status::INVALID_FIELD));
        let short = a
            .fetch(identify::command(cns::CONTROLLER, Nsid(0), 0), 512)
            .await;
        assert!(short.status.is(Status::DATA_SGL_LENGTH_INVALID));
        let inactive = a
            .fetch(identify::command(cns::NAMESPACE, Nsid(7), 0), 4096)
            .await;
        assert_eq!(inactive.data, vec![0; 4096]);
        let nothing = a
            .fetch(
                identify::command(cns::NAMESPACE_DESCRIPTORS, Nsid(7), 0),
                4096,
            )
            .await;
        assert!(nothing.status.is(Status::INVALID_NAMESPACE));
        let list = a
            .fetch(identify::command(cns::CONTROLLERS, Nsid(0), 0), 4096)
            .await;
        assert_eq!(
            list.data[..4],
            [1, 0, a.cntlid as u8, (a.cntlid >> 8) as u8]
        );
        let id = a
            .fetch(identify::command(cns::CONTROLLER, Nsid(0), 0), 4096)
            .await;
        let id = IdentifyController::parse(&id.data).expect("4096 bytes");
        assert_eq!(id.subnqn.parse().expect("a name"), nqn());
        assert_eq!(
            (id.vwc & 1, id.maxcmd.get(), id.cntrltype),
            (0, 1024, 1),
            "RAM has no volatile cache"
        );
    });
}

#[test]
fn log_pages_are_cut_to_size_and_unknown_ones_refused() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        io.command(read(9000, 1), &[]).await;
        io.command(read(0, 8), &[]).await;
        let errors = a
            .fetch(GetLogPage::new(lid::ERROR, 64).to_sqe(Nsid::ALL), 64)
            .await;
        assert_eq!(
            errors.data[..10],
            [1, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            "error 1, on queue 1"
        );
        for (page, len) in [
            (lid::SUPPORTED, 1024),
            (lid::SMART, 512),
            (lid::FIRMWARE_SLOT, 512),
            (lid::CHANGED_NAMESPACES, 4096),
            (lid::COMMAND_EFFECTS, 4096),
            (lid::RESERVATION_NOTIFICATION, 64),
        ] {
            let answer = a
                .fetch(GetLogPage::new(page, len).to_sqe(Nsid::ALL), len as u32)
                .await;
            assert!(
                answer.status.is_success() && answer.data.len() == len as usize,
                "LID {page:x}h"
            );
        }
        let ana = a
            .fetch(GetLogPage::new(lid::ANA, 4096).to_sqe(Nsid::NONE), 4096)
            .await;
        let ana = AnaLog::parse(&ana.data).expect("a page");
        assert_eq!(
            (ana.groups[0].state, &ana.groups[0].nsids[..]),
            (AnaState::Optimized, &[Nsid(1)][..])
        );
        let mut effects = GetLogPage::new(lid::COMMAND_EFFECTS, 4);
        effects.offset = 1024 + 4 * u64::from(nvm::WRITE);
        assert_eq!(
            a.fetch(effects.to_sqe(Nsid::NONE), 4).await.data,
            [3, 0, 0, 0]
        );
        let mut beyond = GetLogPage::new(lid::SMART, 4);
        beyond.offset = 516;
        assert!(
            a.fetch(beyond.to_sqe(Nsid::ALL), 4)
                .await
                .status
                .is(Status::INVALID_FIELD)
        );
        beyond.offset = 2;
        assert!(
            a.fetch(beyond.to_sqe(Nsid::ALL), 4)
                .await
                .status
                .is(Status::INVALID_FIELD)
        );
        let unknown = a
            .fetch(GetLogPage::new(0x42, 512).to_sqe(Nsid::ALL), 512)
            .await;
        assert!(unknown.status.is(Status::INVALID_LOG_PAGE));
        let huge = a
            .fetch(
                GetLogPage::new(lid::SMART, 1 << 31).to_sqe(Nsid::ALL),
                1 << 31,
            )
            .await;
        assert!(huge.status.is(Status::INVALID_FIELD));
    });
}

#[test]
fn features_are_got_set_and_refused() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.admin(1).await;
        let wish = NumberOfQueues {
            submission: 500,
            completion: 4,
        }
        .to_dword();
        let got = a
            .command(features::set(fid::NUMBER_OF_QUEUES, wish, Nsid::NONE), &[])
            .await;
        assert_eq!(NumberOfQueues::from_dword(got.result as u32).submission, 4);
        let mut io = fx.host().await;
        assert!(io.connect_io(&a, 1, false).await.status().is_success());
        let late = a
            .command(features::set(fid::NUMBER_OF_QUEUES, wish, Nsid::NONE), &[])
            .await;
        assert!(late.status.is(Status::COMMAND_SEQUENCE_ERROR));
        let mut fifth = fx.host().await;
        assert!(
            fifth
                .connect_io(&a, 5, false)
                .await
                .status()
                .is(Status::CONNECT_INVALID_PARAMETERS)
        );
        let none = features::set(fid::INTERRUPT_COALESCING, 0, Nsid::NONE);
        assert!(a.command(none, &[]).await.status.is(Status::INVALID_FIELD));
        let mut saved = features::set(fid::VOLATILE_WRITE_CACHE, 0, Nsid::NONE);
        saved.cdw10 = U32::new(saved.cdw10.get() | 1 << 31);
        assert!(
            a.command(saved, &[])
                .await
                .status
                .is(Status::FEATURE_NOT_SAVEABLE)
        );
        let per_ns = features::set(fid::VOLATILE_WRITE_CACHE, 0, Nsid(1));
        assert!(
            a.command(per_ns, &[])
                .await
                .status
                .is(Status::FEATURE_NOT_NAMESPACE_SPECIFIC)
        );
        a.command(features::set(fid::KEEP_ALIVE_TIMER, 4500, Nsid::NONE), &[])
            .await;
        let kato = a
            .command(
                features::get(fid::KEEP_ALIVE_TIMER, Select::Current, Nsid::NONE),
                &[],
            )
            .await;
        assert_eq!(kato.result, 5000, "rounded up to the granularity");
        let long = a
            .command(
                features::set(fid::KEEP_ALIVE_TIMER, u32::MAX, Nsid::NONE),
                &[],
            )
            .await;
        assert!(long.status.is(Status::KEEP_ALIVE_INVALID));
        let mut id = features::get(fid::HOST_IDENTIFIER, Select::Current, Nsid::NONE);
        assert!(
            a.fetch(id, 16)
                .await
                .status
                .is(Status::HOST_ID_INCONSISTENT)
        );
        id.cdw11 = U32::new(1);
        assert_eq!(a.fetch(id, 16).await.data, [1; 16]);
        let ms = 1_700_000_000_000u64.to_le_bytes();
        assert!(
            a.command(features::set(fid::TIMESTAMP, 0, Nsid::NONE), &ms)
                .await
                .status
                .is_success()
        );
        let back = a
            .fetch(
                features::get(fid::TIMESTAMP, Select::Current, Nsid::NONE),
                8,
            )
            .await;
        assert_eq!((&back.data[4..6], back.data[6]), (&ms[4..6], 2));
        let caps = a
            .command(
                features::get(fid::TIMESTAMP, Select::Supported, Nsid::NONE),
                &[],
            )
            .await;
        assert_eq!(caps.result, 4);
    });
}

fn abort(sqid: u16, cid: u16) -> Sqe {
    let mut sqe = Sqe::new(admin::ABORT, Nsid::NONE);
    sqe.cdw10 = U32::new(u32::from(cid) << 16 | u32::from(sqid));
    sqe
}

#[test]
fn abort_ends_what_waits_and_says_what_it_could_not() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        let event = a
            .submit(Sqe::new(admin::ASYNC_EVENT_REQUEST, Nsid::NONE), &[])
            .await;
        let cid = a.submit(abort(0, event), &[]).await;
        assert!(a.answer(event).await.status.is(Status::ABORT_REQUESTED));
        assert_eq!(a.answer(cid).await.result, 0);
        assert_eq!(
            a.command(abort(0, 4711), &[]).await.result,
            1,
            "no such command"
        );
        assert!(
            a.command(abort(9, 1), &[])
                .await
                .status
                .is(Status::INVALID_FIELD)
        );
        let before = pattern(64 * BLOCK, 1);
        assert!(io.transfer(write(0, 64), &before).await.status.is_success());
        let victim = io.submit(write(0, 64), &[]).await;
        let r2t = io.r2t(victim).await.expect("an R2T");
        assert_eq!(a.command(abort(1, victim), &[]).await.result, 1);
        let bytes = io.h2c(&r2t, 0, &[9; 64 * BLOCK], true);
        // The other queue hears of it in a turn of its own.
        io::yield_now().await;
        io.send(&bytes).await;
        assert!(io.answer(victim).await.status.is(Status::ABORT_REQUESTED));
        assert_eq!(io.command(read(0, 64), &[]).await.data, before);
    });
}

#[test]
fn sessions_tell_the_truth() {
    run(async {
        let fx = Fixture::new();
        let (a, mut io) = fx.io(1).await;
        for _ in 0..10 {
            io.command(read(0, 8), &[]).await;
        }
        let _ = fx.target.sessions();
        io.command(read(9000, 1), &[]).await;
        io::yield_now().await;
        let sessions = fx.target.sessions();
        let [s] = &sessions[..] else {
            panic!("one session")
        };
        assert_eq!(
            (s.cntlid, s.state, s.transport),
            (a.cntlid, SessionState::Ready, "TCP")
        );
        let [_, q] = &s.queues[..] else {
            panic!("two queues")
        };
        assert_eq!(
            (q.qid, q.depth, q.commands, q.errors),
            (1, 128, 12, 1),
            "Connect counts"
        );
        assert!(q.bytes_out >= 10 * 4096 && q.tcp.mss > 0);
        let reads = s
            .latency
            .iter()
            .find(|l| l.kind == nvmf::controller::CommandKind::Read)
            .expect("reads");
        assert_eq!(reads.count, 11);
        let counters = fx.target.counters();
        assert_eq!(counters.io_commands, [(nvm::READ, 11)]);
    });
}
