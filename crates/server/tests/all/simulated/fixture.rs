//! A node with disks, a server on it with a pool, and hosts.

use io::sim::{DiskConfig, Node, SimDisk};
use io::time::sleep;
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::HostId;
use nvmf_initiator::{Config, Controller, Namespace, WriteOptions};
use server::api::{CreatePool, CreateVolume, ExportNvme, Health, NamespaceState, VdevSpec};
use server::config::ConfigFile;
use server::{ByteSize, Server, Shards};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The subsystem of `tank/vm1`.
pub(crate) const NQN: &str = "nqn.2026-01.org.example:vm1";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001";
/// A configuration without disks.
pub(crate) const EMPTY: &str = "[nvmf]\nlisten = [\"0.0.0.0:4420\"]\n";

/// A disk, large enough for a pool.
pub(crate) fn disk() -> DiskConfig {
    DiskConfig {
        size: 96 << 20,
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        volatile_cache: true,
        ..DiskConfig::default()
    }
}

/// A machine with disks of these paths.
pub(crate) fn machine<const N: usize>(paths: [&str; N], disk: &DiskConfig) -> (Node, [SimDisk; N]) {
    let node = Node::new();
    let disks = paths.map(|path| node.create_disk(path, disk.clone()));
    (node, disks)
}

/// A server of this configuration on the current machine.
pub(crate) async fn start(text: &str) -> Rc<Server> {
    let file = ConfigFile::unsaved(text).expect("right");
    let shards = Shards::of(vec![io::runtime::Shard::here()]);
    Server::start(file, shards, 100).await.expect("start")
}

/// A server that `make` prepares, on `node`.
pub(crate) async fn serve_new(
    node: &Node,
    make: impl AsyncFnOnce(&Rc<Server>) + 'static,
) -> Rc<Server> {
    let serving = node.spawn(async move {
        let server = start(EMPTY).await;
        make(&server).await;
        server
    });
    serving.await.expect("it has power")
}

/// The result of a host that connects to a subsystem.
pub(crate) async fn try_connect(addr: SocketAddr, nqn: &str) -> nvmf_initiator::Result<Controller> {
    let name = |text: &str| text.parse().expect("valid");
    Controller::connect(Config::new(addr, name(nqn), name(HOST), HostId([7; 16]))).await
}

/// A host that is connected to the first namespace of [`NQN`] on `node`.
pub(crate) async fn connect(node: &Node) -> (Controller, Namespace) {
    let client = try_connect(node.addr(4420), NQN).await.expect("connect");
    let namespace = client.namespace(Nsid(1)).await.expect("served");
    (client, namespace)
}

/// A request for a pool `tank` with one vdev of these disks.
pub(crate) fn pool(disks: &[&str]) -> CreatePool {
    CreatePool {
        name: "tank".into(),
        vdevs: vec![VdevSpec::mirror(disks.iter().map(Into::into).collect())],
        spares: Vec::new(),
        caches: Vec::new(),
        size: None,
        force: false,
    }
}

/// A request for a volume.
pub(crate) fn volume(name: &str, size: u64) -> CreateVolume {
    CreateVolume {
        name: name.into(),
        size: ByteSize(size),
        block_size: None,
        record_size: None,
        sync: None,
        compression: None,
        checksum: None,
        quota: None,
        reservation: None,
    }
}

/// Creates the pool `tank` on `/a` and `/b`, with the exported volume `tank/vm1`.
pub(crate) async fn make(server: &Rc<Server>) {
    make_on(server, pool(&["/a", "/b"])).await;
}

/// Creates this pool, with the exported volume `tank/vm1`.
pub(crate) async fn make_on(server: &Rc<Server>, pool: CreatePool) {
    let made = server.create_pool(pool).await.expect("pool");
    assert_eq!((made.health, made.vdevs.len()), (Some(Health::Online), 1));
    let request = volume("tank/vm1", 1 << 30);
    server.create_volume(request).await.expect("volume");
    let export = ExportNvme {
        disk: "tank/vm1".into(),
        nqn: Some(NQN.into()),
        hosts: vec!["any".into()],
        transports: Vec::new(),
    };
    let exported = server.export_nvme(export).await.expect("export");
    assert_eq!(exported.namespaces[0].state, NamespaceState::Served);
}

/// Writes blocks of 4 KiB filled with `byte`.
pub(crate) async fn write(namespace: &Namespace, lba: u64, blocks: usize, byte: u8) {
    let mut data = io::pool().alloc(blocks * 4096).await;
    data.fill(byte);
    let write = namespace.write(lba, Arc::new(data), WriteOptions::default());
    write.await.expect("written");
}

/// Waits a minute at most. Panics if `is_so` stays false.
pub(crate) async fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not happen");
}
