//! Serves RAM disks over iSCSI on a free loopback port, for other people's initiators and conformance suites.
//!
//! `memory_target [MIB] [BLOCK_SIZE] [USER%SECRET]`: prints the URL of LUN 0 and serves until it is killed. With a user
//! it asks for CHAP.

use backend::memory::MemoryDisk;
use io::net::TcpListener;
use io::{Runtime, RuntimeConfig};
use iscsi::login::{ChapPolicy, Credential, Secret};
use iscsi::portal::{Acl, Authentication, Config, Target, TargetConfig};
use iscsi::wire::IscsiName;
use scsi::{Device, DeviceConfig, Lun, NoReservationStore, TargetPort, UnitConfig};
use std::sync::Arc;

const NAME: &str = "iqn.2026-11.net.wirepool:memory";

fn device(bytes: u64, block_size: u32) -> Arc<Device> {
    let port = TargetPort {
        relative: 1,
        portal_group: 1,
        group: 1,
    };
    let device = Device::new(DeviceConfig {
        name: NAME.into(),
        vendor: "WIREPOOL".into(),
        product: "Memory disk".into(),
        revision: "0".into(),
        ports: vec![port],
    })
    .expect("one port");
    for number in 0..2 {
        let unit = UnitConfig {
            backend: Arc::new(MemoryDisk::new(bytes, block_size).expect("a RAM disk")),
            uuid: uuid::Uuid::from_u128(0x5150 + u128::from(number)),
            serial: format!("WP{number:04}"),
            read_only: false,
            reservations: Arc::new(NoReservationStore),
            threshold_percent: None,
        };
        let lun = Lun::new(number).expect("a small number");
        device.add_unit(lun, unit).expect("a new unit");
    }
    device
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mib: u64 = args
        .first()
        .map_or(100, |a| a.parse().expect("MIB is a number"));
    let block_size = args
        .get(1)
        .map_or(512, |a| a.parse().expect("BLOCK_SIZE is a number"));
    let authentication = match args.get(2).and_then(|a| a.split_once('%')) {
        None => Authentication::None,
        Some((user, secret)) => Authentication::Shared(ChapPolicy {
            initiator: Credential {
                name: user.to_owned(),
                secret: Secret::new(secret.as_bytes()),
            },
            target: None,
        }),
    };
    let runtime = Runtime::new(RuntimeConfig {
        buffer_limit: 256 << 20,
        ..RuntimeConfig::default()
    })
    .expect("io_uring");
    runtime.block_on(async move {
        let target = Target::new(Config::default());
        let config = TargetConfig {
            name: IscsiName::new(NAME).expect("a valid name"),
            alias: None,
            portal_group: 1,
            relative_port: 1,
            acl: Acl::Any,
            authentication,
            redirect: None,
            device: device(mib << 20, block_size),
        };
        target.add_target(config).expect("a new target");
        let listener =
            TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        println!("iscsi://{}/{NAME}/0", listener.local_addr());
        while let Ok(stream) = listener.accept().await {
            let target = target.clone();
            drop(io::spawn(async move { target.serve(stream).await }));
        }
    });
}
