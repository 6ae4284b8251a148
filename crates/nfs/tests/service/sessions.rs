//! Sessions over the wire: replays, order of operations, limits.

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open, open_with, simulated};
use nfs::rpc::Reply;
use nfs::service::ServiceConfig;
use nfs::wire::channel::Channel;
use nfs::wire::files::{Claim, CreateHow, NewType};
use nfs::wire::{Bitmap, Op, PROC_NULL, PROGRAM, Status, VERSION, operation};
use std::time::Duration;

#[test]
fn a_retried_request_is_executed_once() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"d",
            attributes: NO_ATTRS,
        };
        let lookup = |name| Op::Lookup { name };
        let first = [
            client.next_sequence(true),
            Op::PutRootFh,
            lookup(b"tank"),
            lookup(b"home"),
            create,
        ];
        assert_eq!(client.compound(&first).await.status, Status::Ok);
        // The retry comes on another connection of the client.
        let mut other = Client::connect(fixture.addr).await;
        assert_eq!(other.compound(&first).await.status, Status::Ok);
        assert_eq!(fixture.service.counters().replays, 1);
        let false_retry = [first[0].clone(), Op::PutRootFh];
        let mut results = client.compound(&false_retry).await;
        results.has(operation::SEQUENCE, Status::SeqFalseRetry);
        // A reply that need not be kept is not kept.
        let uncached = [client.next_sequence(false), Op::PutRootFh];
        assert_eq!(client.compound(&uncached).await.status, Status::Ok);
        let mut results = client.compound(&uncached).await;
        results.sequence();
        results.has(operation::PUTROOTFH, Status::RetryUncachedRep);
    });
}

#[test]
fn operations_stand_where_they_may() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let sequence = client.next_sequence(false);
        for (operations, status) in [
            (vec![Op::PutRootFh], Status::OpNotInSession),
            (
                vec![Op::PutRootFh, sequence.clone()],
                Status::OpNotInSession,
            ),
            (vec![Op::Illegal(99)], Status::OpIllegal),
            (
                vec![Op::Unsupported(operation::LAYOUTGET)],
                Status::OpNotInSession,
            ),
            (
                vec![Op::DestroySession([0; 16]), Op::PutRootFh],
                Status::NotOnlyOp,
            ),
            (vec![Op::DestroySession([0; 16])], Status::Badsession),
            (vec![Op::DestroyClientId(client.id)], Status::ClientidBusy),
            (
                vec![
                    sequence,
                    Op::PutRootFh,
                    Op::Unsupported(operation::LAYOUTGET),
                ],
                Status::Notsupp,
            ),
        ] {
            let results = client.compound(&operations).await;
            assert_eq!(results.status, status, "{operations:?}");
        }
        let again = client.next_sequence(false);
        let nested = [again.clone(), again];
        assert_eq!(client.compound(&nested).await.status, Status::SequencePos);
        let record = client.encoded(0, &[Op::PutRootFh]);
        let results = client.results_of(record).await;
        assert_eq!(
            (results.status, results.count),
            (Status::MinorVersMismatch, 0)
        );
    });
}

#[test]
fn other_programs_versions_and_procedures_are_refused() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        for (program, version, procedure, reply) in [
            (PROGRAM, VERSION, PROC_NULL, Reply::Success),
            (100_021, 4, 0, Reply::ProgramUnavailable),
            (PROGRAM, 2, 0, Reply::ProgramMismatch(3, 4)),
            (PROGRAM, VERSION, 2, Reply::ProcedureUnavailable),
            (PROGRAM, VERSION, 1, Reply::GarbageArguments),
        ] {
            let record = client.call(program, version, procedure).to_vec();
            assert_eq!(client.reply_to(record).await.0, reply);
        }
    });
}

#[test]
fn replies_that_do_not_fit_are_refused_before_anything_changes() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        let small = Channel {
            cached_max: 100,
            operations_max: 6,
            ..FORE
        };
        client.establish(b"a", small).await;
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"d",
            attributes: NO_ATTRS,
        };
        let lookup = |name| Op::Lookup { name };
        let kept = [
            client.next_sequence(true),
            Op::PutRootFh,
            lookup(b"tank"),
            lookup(b"home"),
            create,
        ];
        assert_eq!(
            client.compound(&kept).await.status,
            Status::RepTooBigToCache
        );
        let lookup = [Op::Lookup { name: b"d" }];
        let found = client.at(HOME, &lookup).await.status;
        assert_eq!(found, Status::Noent);
        let mut tiny = Client::connect(fixture.addr).await;
        tiny.establish(
            b"tiny",
            Channel {
                cached_max: 10,
                ..FORE
            },
        )
        .await;
        let kept = [tiny.next_sequence(true)];
        let mut results = tiny.compound(&kept).await;
        results.has(operation::SEQUENCE, Status::RepTooBigToCache);
        let mut many = vec![client.next_sequence(false)];
        many.extend(vec![Op::PutRootFh; 6]);
        assert_eq!(client.compound(&many).await.status, Status::TooManyOps);
    });
}

/// A read that fits into `ca_maxresponsesize` was once answered with NFS4ERR_REP_TOO_BIG_TO_CACHE: that is for requests whose reply must be kept
/// (§2.10.6.4), and for no others.
#[test]
fn only_kept_replies_are_short() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        let small = Channel {
            cached_max: 200,
            ..FORE
        };
        client.establish(b"a", small).await;
        let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        results.ok(operation::RECLAIM_COMPLETE);
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        let mut results = client.at(HOME, &[open("f", create)]).await;
        let stateid = results.open();
        let write = Op::Write {
            stateid,
            offset: 0,
            stable: 2,
            data: &[7; 64 << 10],
        };
        let file = ["tank", "home", "f"];
        assert_eq!(client.at(&file, &[write]).await.status, Status::Ok);
        let read = || Op::Read {
            stateid,
            offset: 0,
            count: 64 << 10,
        };
        let mut results = client.at(&file, &[read()]).await;
        results.ok(operation::READ);
        assert_eq!(results.u32(), 1, "it is the end");
        assert_eq!(results.opaque().len(), 64 << 10);
        // The same read with a reply that must be kept.
        let lookup = |name| Op::Lookup { name };
        let kept = [
            client.next_sequence(true),
            Op::PutRootFh,
            lookup(b"tank"),
            lookup(b"home"),
            lookup(b"f"),
            read(),
        ];
        let refused = client.compound(&kept).await.status;
        assert_eq!(refused, Status::RepTooBigToCache);
    });
}

#[test]
fn opens_wait_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let reclaimers = vec![b"old".to_vec()];
        let fixture = Fixture::with(ServiceConfig {
            reclaimers,
            ..config()
        })
        .await;
        let mut new = fixture.client("new").await;
        let create = || open("f", Some(nfs::wire::files::CreateHow::Unchecked(NO_ATTRS)));
        assert_eq!(new.at(HOME, &[create()]).await.status, Status::Grace);
        let reclaim = || open_with(Claim::Previous(0), None, 1, 0);
        let mut other = Client::connect(fixture.addr).await;
        other.establish(b"other", FORE).await;
        assert_eq!(
            other.at(HOME, &[reclaim()]).await.status,
            Status::ReclaimBad
        );
        let mut old = Client::connect(fixture.addr).await;
        old.establish(b"old", FORE).await;
        assert_eq!(
            old.at(HOME, &[reclaim()]).await.status,
            Status::Isdir,
            "it may reclaim files"
        );
        old.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        assert_eq!(old.at(HOME, &[reclaim()]).await.status, Status::NoGrace);
        assert_eq!(
            new.at(HOME, &[create()]).await.status,
            Status::Ok,
            "nobody is left"
        );
    });
}

#[test]
fn a_client_that_vanished_loses_its_state_to_others_after_its_lease() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut first = fixture.client("a").await;
        let create = Some(nfs::wire::files::CreateHow::Unchecked(NO_ATTRS));
        let exclusive = || open_with(Claim::Name(b"f"), create, 3, 3);
        first.at(HOME, &[exclusive()]).await.open();
        let mut second = fixture.client("b").await;
        assert_eq!(
            second.at(HOME, &[exclusive()]).await.status,
            Status::ShareDenied
        );
        let lease = Duration::from_secs(91);
        io::time::sleep(lease).await;
        let root = [Op::PutRootFh, Op::GetAttr(Bitmap::of(&[10]))];
        assert_eq!(first.run(&root).await.status, Status::Ok, "a courtesy");
        assert_eq!(
            second.at(HOME, &[exclusive()]).await.status,
            Status::ShareDenied
        );
        io::time::sleep(lease).await;
        second.at(HOME, &[exclusive()]).await.open();
        let sequence = first.next_sequence(false);
        assert_eq!(first.compound(&[sequence]).await.status, Status::Badsession);
    });
}
