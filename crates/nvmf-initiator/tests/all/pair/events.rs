//! Asynchronous events and discovery.

use std::time::Duration;

use nvmf::controller::{PortInfo, PortRole, Referral, TargetConfig, Transport};
use nvmf::wire::command::Nsid;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Discovery, discover};

use crate::pair::{config, connect, namespace_config, nqn, run, serve, subsystem, target};

#[test]
fn added_and_removed_namespaces_are_reported() {
    run(|| async {
        let target = target(TargetConfig::default());
        let (controller, _ns) = connect(config(serve(&target))).await;
        target
            .add_namespace(&nqn("disk"), namespace_config(2))
            .expect("a new ID");
        while controller.next_event().await.expect("connected") != AsyncEvent::NAMESPACE_CHANGED {}
        assert_eq!(
            controller.changed_namespaces().await,
            Ok(Some(vec![Nsid(2)]))
        );
        assert_eq!(
            controller.active_namespaces().await,
            Ok(vec![Nsid(1), Nsid(2)])
        );
        target
            .remove_namespace(&nqn("disk"), 2)
            .expect("it is there");
        while controller.next_event().await.expect("connected") != AsyncEvent::NAMESPACE_CHANGED {}
        assert_eq!(
            controller.changed_namespaces().await,
            Ok(Some(vec![Nsid(2)]))
        );
        assert_eq!(controller.active_namespaces().await, Ok(vec![Nsid(1)]));
    });
}

#[test]
fn discovery_lists_follows_and_reports() {
    run(|| async {
        let (first, second) = (
            target(TargetConfig::default()),
            target(TargetConfig::default()),
        );
        second.remove_subsystem(&nqn("disk")).expect("it is there");
        second.add_subsystem(subsystem("far")).expect("a new name");
        let (near, far) = (serve(&first), serve(&second));
        first.set_ports(vec![PortInfo {
            transport: Transport::Tcp,
            id: 1,
            addr: near,
            role: PortRole::Io,
        }]);
        second.set_ports(vec![PortInfo {
            transport: Transport::Tcp,
            id: 1,
            addr: far,
            role: PortRole::Io,
        }]);
        first.set_referrals(vec![Referral {
            addr: far,
            nqn: Nqn::discovery(),
        }]);
        let paths = discover((Transport::Tcp, near), &nqn("host"), HostId([3; 16]))
            .await
            .expect("discover");
        let found: Vec<_> = paths
            .iter()
            .map(|path| (path.subnqn.clone(), path.addr))
            .collect();
        assert_eq!(found, [(nqn("disk"), near), (nqn("far"), far)]);

        let persistent = Discovery::connect(
            (Transport::Tcp, near),
            nqn("host"),
            HostId([3; 16]),
            Duration::from_secs(30),
        )
        .await;
        let persistent = persistent.expect("connect");
        let before = persistent.log().await.expect("log");
        first.add_subsystem(subsystem("new")).expect("a new name");
        persistent.changed().await.expect("connected");
        let after = persistent.log().await.expect("log");
        assert!(
            after.generation > before.generation && after.entries.len() == before.entries.len() + 1
        );
        persistent.shutdown().await;
    });
}
