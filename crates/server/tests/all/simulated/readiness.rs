//! Hosts that connect while a server opens its pools.

use crate::simulated::fixture::{self, NQN, pool, serve_new, start, try_connect, volume};
use io::sim::{Latency, Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use nvmf::wire::command::Nsid;
use nvmf::wire::status::Status;
use server::Server;
use server::api::DiskState;
use server::limits::{DISK_RETRY, START_WAIT_MAX};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const OTHER_NQN: &str = "nqn.2026-01.org.example:ram";
const IQN: &str = "iqn.2026-01.org.example:vm2";
const CONFIG: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[iscsi]
listen = ["0.0.0.0:3260"]
[[disk]]
name = "ram"
kind = "mem"
size = "1M"
[[pool]]
name = "tank"
disks = ["/a"]
[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "tank/vm1"
[[subsystem]]
nqn = "nqn.2026-01.org.example:ram"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "ram"
[[target]]
iqn = "iqn.2026-01.org.example:vm2"
initiators = ["any"]
[[target.lun]]
lun = 0
disk = "tank/vm2"
"#;

async fn log_in(addr: SocketAddr) -> iscsi_initiator::Result<iscsi_initiator::Session> {
    let name = |text: &str| iscsi::wire::IscsiName::new(text).expect("valid");
    let config = iscsi_initiator::Config {
        reconnect: iscsi_initiator::Reconnect::NEVER,
        ..iscsi_initiator::Config::new(addr, name(IQN), name("iqn.2026-01.org.example:host"))
    };
    iscsi_initiator::Session::connect(config).await
}

/// A machine whose disk has the pool of [`CONFIG`], and which has no power.
async fn machine() -> (Node, SimDisk) {
    let (node, [disk]) = fixture::machine(["/a"], &fixture::disk());
    let make = async |server: &Rc<Server>| {
        server.create_pool(pool(&["/a"])).await.expect("a pool");
        for name in ["tank/vm1", "tank/vm2"] {
            let request = volume(name, 16 << 20);
            server.create_volume(request).await.expect("a volume");
        }
    };
    drop(serve_new(&node, make).await);
    node.power_cut();
    (node, disk)
}

/// Before the fix, such a host found its subsystem without namespaces; Linux then removes the disk under its file
/// system when it reconnects.
#[test]
fn hosts_are_told_to_come_again_until_the_pool_is_open() {
    Sim::new(31, SimConfig::default()).block_on(async {
        let (node, disk) = machine().await;
        disk.slow(Some(Latency {
            base: Duration::from_secs(1),
            ..Latency::default()
        }));
        node.power_on();
        let running: Rc<RefCell<Option<Rc<Server>>>> = Rc::default();
        let server = running.clone();
        drop(node.spawn(async move {
            let started = start(CONFIG).await;
            *server.borrow_mut() = Some(started);
        }));
        sleep(START_WAIT_MAX + Duration::from_secs(1)).await;
        let server = running.borrow().clone().expect("it accepts");
        assert_eq!(server.pools()[0].state, DiskState::Opening);
        match try_connect(node.addr(4420), NQN).await {
            Err(nvmf_initiator::Error::Refused(status)) => {
                assert_eq!(status, Status::CONNECT_CONTROLLER_BUSY, "try again");
            }
            other => panic!("{:?}", other.map(drop)),
        }
        let refused = log_in(node.addr(3260)).await.map(drop);
        let unavailable = iscsi::wire::response::LoginStatus::SERVICE_UNAVAILABLE;
        assert_eq!(
            refused,
            Err(iscsi_initiator::Error::LoginRefused(unavailable))
        );
        // what needs no pool is served
        let other = try_connect(node.addr(4420), OTHER_NQN)
            .await
            .expect("served");
        other.namespace(Nsid(1)).await.expect("there");

        disk.slow(None);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(server.pools()[0].state, DiskState::Online);
        let host = try_connect(node.addr(4420), NQN).await.expect("taken");
        host.namespace(Nsid(1)).await.expect("its volume is there");
        let session = log_in(node.addr(3260)).await.expect("taken");
        session.unit(0).await.expect("its volume is there");
    });
}

/// Regression: a host that connected while a disk appeared late after a restart found its subsystem or target without the volume, which
/// Linux takes for its end. A host waits for a minute, like one that connects while a pool is opened.
#[test]
fn hosts_wait_for_a_pool_whose_disk_appears_late() {
    Sim::new(33, SimConfig::default()).block_on(async {
        let (node, disk) = machine().await;
        disk.kill();
        node.power_on();
        let running: Rc<RefCell<Option<Rc<Server>>>> = Rc::default();
        let server = running.clone();
        drop(node.spawn(async move {
            let started = start(CONFIG).await;
            *server.borrow_mut() = Some(started);
        }));
        sleep(Duration::from_secs(20)).await;
        let server = running.borrow().clone().expect("it accepts");
        assert_eq!(server.pools()[0].state, DiskState::Held);
        let refused = try_connect(node.addr(4420), NQN).await.map(drop);
        let busy = nvmf_initiator::Error::Refused(Status::CONNECT_CONTROLLER_BUSY);
        assert_eq!(refused, Err(busy));
        let refused = log_in(node.addr(3260)).await.map(drop);
        let unavailable = iscsi::wire::response::LoginStatus::SERVICE_UNAVAILABLE;
        assert_eq!(
            refused,
            Err(iscsi_initiator::Error::LoginRefused(unavailable))
        );
        try_connect(node.addr(4420), OTHER_NQN)
            .await
            .expect("it needs no pool");

        disk.revive();
        sleep(2 * DISK_RETRY).await;
        assert_eq!(server.pools()[0].state, DiskState::Online);
        let host = try_connect(node.addr(4420), NQN).await.expect("taken");
        host.namespace(Nsid(1)).await.expect("its volume is there");
        let session = log_in(node.addr(3260)).await.expect("taken");
        session.unit(0).await.expect("its volume is there");
    });
}

/// A pool that cannot be opened does not hold its hosts for ever: other namespaces of theirs may be there.
#[test]
fn hosts_are_let_in_when_the_pool_could_not_be_opened() {
    Sim::new(32, SimConfig::default()).block_on(async {
        let node = Node::new();
        let serving = node.spawn(async {
            let server = start(CONFIG).await;
            assert_eq!(server.pools()[0].state, DiskState::Held);
            sleep(server.config().server.disk_wait + DISK_RETRY).await;
            assert_eq!(server.pools()[0].state, DiskState::Held);
        });
        serving.await.expect("it has power");
        try_connect(node.addr(4420), NQN).await.expect("taken");
    });
}
