//! The discovery controller: log, events, and the ports where a host may connect.

use crate::events::{event, request};
use crate::fixture::Fixture;
use crate::host::{Host, connect, host_id, host_nqn, nqn, run};
use nvmf::controller::{HostPolicy, PortInfo, PortRole, Referral, Transport};
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::fabrics::{ConnectData, ConnectFault};
use nvmf::wire::features::{self, AsyncEvent, AsyncEventConfig, fid};
use nvmf::wire::identify::{self, IdentifyController, cns};
use nvmf::wire::log::{DiscoveryEntry, DiscoveryLog, GetLogPage, SubsystemType, lid};
use nvmf::wire::nqn::Nqn;
use nvmf::wire::opcode::admin;
use nvmf::wire::pdu::Digests;
use nvmf::wire::status::Status;
use nvmf::wire::text;
use std::collections::BTreeSet;

async fn log(a: &mut Host) -> DiscoveryLog {
    let header = a
        .fetch(
            GetLogPage::new(lid::DISCOVERY, 1024).to_sqe(Nsid::NONE),
            1024,
        )
        .await;
    let records = u64::from_le_bytes(header.data[8..16].try_into().expect("8 bytes"));
    let len = 1024 * (records + 1);
    let whole = a
        .fetch(
            GetLogPage::new(lid::DISCOVERY, len).to_sqe(Nsid::NONE),
            len as u32,
        )
        .await;
    DiscoveryLog::parse(&whole.data).expect("a page")
}

fn shown(log: &DiscoveryLog, kind: SubsystemType) -> Vec<(String, String, String)> {
    let of_kind = |e: &&DiscoveryEntry| e.subtype == kind as u8;
    let name = |e: &DiscoveryEntry| e.subnqn.parse().expect("a name").to_string();
    log.entries
        .iter()
        .filter(of_kind)
        .map(|e| (name(e), text::get(&e.traddr), text::get(&e.trsvcid)))
        .collect()
}

#[test]
fn hosts_see_the_subsystems_they_may_connect_to() {
    run(async {
        let fx = Fixture::new();
        let port = |id, addr: &str, role| PortInfo {
            transport: Transport::Tcp,
            id,
            addr: addr.parse().expect("an address"),
            role,
        };
        fx.target.set_ports(vec![
            port(1, "10.0.2.2:4420", PortRole::Io),
            port(2, "[fd00::1]:4420", PortRole::Io),
            port(3, "10.0.2.2:8009", PortRole::DiscoveryOnly),
        ]);
        let other = "10.9.9.9:8009".parse().expect("an address");
        fx.target.set_referrals(vec![Referral {
            addr: other,
            nqn: Nqn::discovery(),
        }]);
        for addr in [fx.addr, fx.discovery] {
            let mut a = Host::initialized(addr, Digests::default()).await;
            a.connect_admin(&Nqn::discovery(), 1).await;
            let id = a
                .fetch(identify::command(cns::CONTROLLER, Nsid::NONE, 0), 4096)
                .await;
            let id = IdentifyController::parse(&id.data).expect("4096 bytes");
            assert_eq!((id.cntrltype, id.subnqn.parse()), (2, Ok(Nqn::discovery())));
            let page = log(&mut a).await;
            let at = |host: &str| (nqn().to_string(), host.to_owned(), "4420".to_owned());
            assert_eq!(
                shown(&page, SubsystemType::Nvm),
                [at("10.0.2.2"), at("fd00::1")]
            );
            assert_eq!(shown(&page, SubsystemType::CurrentDiscovery).len(), 3);
            assert_eq!(shown(&page, SubsystemType::Referral)[0].1, "10.9.9.9");
        }
        fx.target
            .set_hosts(&nqn(), HostPolicy::List(BTreeSet::from([host_nqn(2)])))
            .expect("there");
        let mut a = Host::initialized(fx.discovery, Digests::default()).await;
        a.connect_admin(&Nqn::discovery(), 1).await;
        assert!(shown(&log(&mut a).await, SubsystemType::Nvm).is_empty());
    });
}

#[test]
fn hosts_that_stay_connected_are_told_of_changes() {
    run(async {
        let fx = Fixture::new();
        let mut a = Host::initialized(fx.discovery, Digests::default()).await;
        a.connect_keep_alive(&Nqn::discovery(), 1, 30_000).await;
        let before = log(&mut a).await.generation;
        let config = AsyncEventConfig::DISCOVERY_CHANGE.bits();
        a.command(
            features::set(fid::ASYNC_EVENT_CONFIG, config, Nsid::NONE),
            &[],
        )
        .await;
        let cid = request(&mut a).await;
        fx.target.set_ports(Vec::new());
        assert_eq!(event(&mut a, cid).await, AsyncEvent::DISCOVERY_CHANGED);
        assert!(log(&mut a).await.generation > before);
    });
}

#[test]
fn discovery_is_all_a_discovery_port_and_controller_offer() {
    run(async {
        let fx = Fixture::new();
        let mut h = Host::initialized(fx.discovery, Digests::default()).await;
        let data = ConnectData::new(host_id(1), 0xffff, &nqn(), &host_nqn(1));
        let refused = h.connect(connect(0, 31, 0), &data).await;
        assert!(refused.status.is(Status::CONNECT_INVALID_PARAMETERS));
        assert_eq!(
            ConnectFault::from_result(refused.result),
            ConnectFault::data(256)
        );
        h.connect_admin(&Nqn::discovery(), 1).await;
        for opcode in [admin::ABORT, admin::FORMAT_NVM] {
            assert!(
                h.command(Sqe::new(opcode, Nsid::NONE), &[])
                    .await
                    .status
                    .is(Status::INVALID_OPCODE)
            );
        }
        let smart = h
            .fetch(GetLogPage::new(lid::SMART, 512).to_sqe(Nsid::ALL), 512)
            .await;
        assert!(smart.status.is(Status::INVALID_LOG_PAGE));
        let ns = h
            .fetch(identify::command(cns::NAMESPACE, Nsid(1), 0), 4096)
            .await;
        assert!(ns.status.is(Status::INVALID_FIELD));
        let mut io = Host::initialized(fx.addr, Digests::default()).await;
        let data = ConnectData::new(host_id(1), h.cntlid, &Nqn::discovery(), &host_nqn(1));
        let refused = io.connect(connect(1, 31, 0), &data).await;
        assert!(refused.status.is(Status::CONNECT_INVALID_PARAMETERS));
    });
}
