//! The initiator against our server, on io_uring over loopback and in the simulator.

mod breaks;
mod commands;
mod iser;
mod login;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::BlockBackend;
use backend::memory::MemoryDisk;
use io::IoBuf;
use iscsi::portal::{Acl, Authentication, Config as Settings, Target, TargetConfig};
use iscsi::wire::IscsiName;
use iscsi_initiator::{Config, Reconnect, Session, Unit};
use scsi::{Device, DeviceConfig, Lun, NoReservationStore, TargetPort, UnitConfig};
use testkit::{Runs, pattern};

/// Time limit of a test, and the simulator's network.
const RUNS: Runs = Runs {
    seeds: 10,
    limit: Duration::from_secs(300),
};
/// Block size, bytes.
const BLOCK: usize = 512;
/// Blocks of a disk.
const BLOCKS: u64 = 16 << 10;
const DISK: &str = "iqn.2026-11.test:disk";

/// Runs a test on io_uring, then in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.both(test);
}

/// Runs a test that needs the simulator's network or clock.
fn run_simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.simulated(test);
}

fn name(text: &str) -> IscsiName {
    IscsiName::new(text).expect("valid")
}

fn device(backend: Arc<dyn BlockBackend>) -> Arc<Device> {
    let device = Device::new(DeviceConfig {
        name: DISK.into(),
        vendor: "WIREPOOL".into(),
        product: "Test".into(),
        revision: "0".into(),
        ports: vec![TargetPort {
            relative: 1,
            portal_group: 1,
            group: 1,
        }],
    })
    .expect("one port");
    let unit = UnitConfig {
        backend,
        uuid: uuid::Uuid::from_u128(1),
        serial: "WP1".into(),
        read_only: false,
        reservations: Arc::new(NoReservationStore),
        threshold_percent: None,
    };
    device
        .add_unit(Lun::new(0).expect("small"), unit)
        .expect("a new unit");
    device
}

fn target_config(authentication: Authentication) -> TargetConfig {
    let disk = MemoryDisk::new(BLOCKS * BLOCK as u64, BLOCK as u32).expect("a disk");
    TargetConfig {
        name: name(DISK),
        alias: Some("a disk".into()),
        portal_group: 1,
        relative_port: 1,
        acl: Acl::Any,
        authentication,
        redirect: None,
        device: device(Arc::new(disk)),
    }
}

/// A server with one disk that any initiator may use.
fn target(settings: Settings) -> Target {
    let target = Target::new(settings);
    target
        .add_target(target_config(Authentication::None))
        .expect("a new name");
    target
}

/// Serves a target on `addr` until the test ends. Returns the address.
fn listen(target: &Target, addr: SocketAddr) -> SocketAddr {
    let target = target.clone();
    testkit::listen(addr, move |stream| {
        let target = target.clone();
        async move { target.serve(stream).await }
    })
}

fn serve(target: &Target) -> SocketAddr {
    listen(target, "127.0.0.1:0".parse().expect("an address"))
}

fn config(addr: SocketAddr) -> Config {
    Config {
        reconnect: Reconnect::NEVER,
        ..Config::new(addr, name(DISK), name("iqn.2026-11.test:initiator"))
    }
}

async fn connect(config: Config) -> (Session, Unit) {
    let session = Session::connect(config).await.expect("login");
    let unit = session.unit(0).await.expect("a disk");
    (session, unit)
}

async fn read(unit: &Unit, lba: u64, len: usize) -> IoBuf {
    let buf = testkit::empty(len).await;
    let (result, buf) = unit.read(lba, buf).await;
    result.expect("read");
    buf
}
