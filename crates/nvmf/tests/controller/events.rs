//! Async events: namespaces that come, go and grow; one event until the log page is read.

use crate::fixture::{Fixture, namespace, ram};
use crate::host::{Host, nqn, run};
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::features::{self, AsyncEvent, AsyncEventConfig, fid};
use nvmf::wire::identify::NamespaceList;
use nvmf::wire::log::{GetLogPage, lid};
use nvmf::wire::opcode::admin;
use nvmf::wire::status::Status;
use zerocopy::FromBytes;

pub(crate) async fn request(a: &mut Host) -> u16 {
    a.submit(Sqe::new(admin::ASYNC_EVENT_REQUEST, Nsid::NONE), &[])
        .await
}

pub(crate) async fn event(a: &mut Host, cid: u16) -> AsyncEvent {
    AsyncEvent::from_dword(a.answer(cid).await.result as u32)
}

async fn changed(a: &mut Host) -> Vec<u32> {
    let page = a
        .fetch(
            GetLogPage::new(lid::CHANGED_NAMESPACES, 4096).to_sqe(Nsid::ALL),
            4096,
        )
        .await;
    NamespaceList::read_from_bytes(&page.data)
        .expect("a list")
        .iter()
        .map(|n| n.0)
        .collect()
}

#[test]
fn changes_of_namespaces_are_told_once_until_the_log_is_read() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.admin(1).await;
        let config = AsyncEventConfig::NAMESPACE_ATTRIBUTE.bits();
        a.command(
            features::set(fid::ASYNC_EVENT_CONFIG, config, Nsid::NONE),
            &[],
        )
        .await;
        let first = request(&mut a).await;
        fx.target
            .add_namespace(&nqn(), namespace(5, ram(1 << 20)))
            .expect("added");
        assert_eq!(event(&mut a, first).await, AsyncEvent::NAMESPACE_CHANGED);
        let second = request(&mut a).await;
        fx.target.namespace_changed(&nqn(), 1).expect("there");
        fx.target.remove_namespace(&nqn(), 5).expect("there");
        // Held back until the list is read, which has all of them.
        assert_eq!(changed(&mut a).await, [1, 5]);
        assert_eq!(changed(&mut a).await, [0u32; 0]);
        fx.target.namespace_changed(&nqn(), 1).expect("there");
        assert_eq!(event(&mut a, second).await, AsyncEvent::NAMESPACE_CHANGED);
    });
}

#[test]
fn events_that_came_before_the_request_are_not_lost() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.admin(1).await;
        fx.target.namespace_changed(&nqn(), 1).expect("there");
        let cid = request(&mut a).await;
        let config = AsyncEventConfig::NAMESPACE_ATTRIBUTE.bits();
        let set = a
            .submit(
                features::set(fid::ASYNC_EVENT_CONFIG, config, Nsid::NONE),
                &[],
            )
            .await;
        assert!(a.answer(set).await.status.is_success());
        assert_eq!(event(&mut a, cid).await, AsyncEvent::NAMESPACE_CHANGED);
    });
}

#[test]
fn more_requests_than_announced_are_refused() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.admin(1).await;
        for _ in 0..4 {
            request(&mut a).await;
        }
        let fifth = request(&mut a).await;
        assert!(
            a.answer(fifth)
                .await
                .status
                .is(Status::ASYNC_EVENT_LIMIT_EXCEEDED)
        );
    });
}
