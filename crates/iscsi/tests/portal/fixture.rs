//! A target to test, on a machine of the simulated world.

use crate::initiator::Initiator;
use backend::BlockBackend;
use backend::memory::MemoryDisk;
use io::sim::{Node, Sim, SimConfig};
use iscsi::portal::{Acl, Authentication, Config, Target, TargetConfig};
use iscsi::wire::IscsiName;
use scsi::{Device, DeviceConfig, Lun, NoReservationStore, TargetPort, UnitConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const DISK: &str = "iqn.2026-11.test:disk";

pub(crate) fn name(s: &str) -> IscsiName {
    IscsiName::new(s).expect("a valid name")
}

/// A target with a 4 MiB RAM disk as LUN 0.
pub(crate) struct Fixture {
    pub(crate) target: Target,
    pub(crate) addr: SocketAddr,
}

pub(crate) fn device(target_name: &str) -> Arc<Device> {
    device_of(
        target_name,
        Arc::new(MemoryDisk::new(4 << 20, 512).expect("a RAM disk")),
    )
}

fn device_of(target_name: &str, backend: Arc<dyn BlockBackend>) -> Arc<Device> {
    let device = Device::new(DeviceConfig {
        name: target_name.into(),
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

pub(crate) fn target_config(target_name: &str) -> TargetConfig {
    TargetConfig {
        name: name(target_name),
        alias: Some("a disk".into()),
        portal_group: 1,
        relative_port: 1,
        acl: Acl::Any,
        authentication: Authentication::None,
        redirect: None,
        device: device(target_name),
    }
}

pub(crate) fn target_config_with(
    target_name: &str,
    backend: Arc<dyn BlockBackend>,
) -> TargetConfig {
    TargetConfig {
        device: device_of(target_name, backend),
        ..target_config(target_name)
    }
}

pub(crate) fn listen(target: &Target, addr: SocketAddr) -> SocketAddr {
    let target = target.clone();
    testkit::listen(addr, move |stream| {
        let target = target.clone();
        async move { target.serve(stream).await }
    })
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        Fixture::with(Config::default(), target_config(DISK)).await
    }

    pub(crate) async fn with(config: Config, disk: TargetConfig) -> Fixture {
        Fixture::on(Node::new(), config, disk).await
    }

    pub(crate) async fn on(machine: Node, config: Config, disk: TargetConfig) -> Fixture {
        let target = Target::new(config);
        target.add_target(disk).expect("a new target");
        let addr = machine.addr(3260);
        let served = target.clone();
        machine
            .spawn(async move { listen(&served, addr) })
            .await
            .expect("not killed");
        Fixture { target, addr }
    }

    pub(crate) async fn connect(&self) -> Initiator {
        Initiator::connect(self.addr).await
    }

    /// A session with the disk, negotiated with these keys; its unit attentions have been reported.
    pub(crate) async fn session(&self, keys: &[(&str, &str)]) -> Initiator {
        let mut i = self.connect().await;
        i.login(DISK, keys).await;
        i.clear_attentions().await;
        i
    }
}

/// Runs a test in the simulated world, on a machine of its own.
pub(crate) fn simulated<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + 'static) {
    Sim::new(7, SimConfig::default()).block_on(async move {
        Node::new()
            .spawn(async move { test().await })
            .await
            .expect("not killed");
        // Remaining connections have missed their deadlines; all buffers are back.
        io::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
    });
}
