//! Pools with faults, as their administrator sees them: damage, truncated disks, a second server.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use nvmf::wire::command::Nsid;
use nvmf_initiator::WriteOptions;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const BLOCK: usize = 4096;

fn export(server: &Server, disks: &[&str]) {
    server.ok(&[&["pool", "create", "tank"], disks, &["--size", "64M"]].concat());
    server.ok(&[
        "volume",
        "create",
        "tank/vm1",
        "--size",
        "1G",
        "--compression",
        "off",
    ]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
}

fn marks(lba: u64) -> [u8; 8] {
    (lba | 1 << 63).to_le_bytes()
}

/// Writes or reads a block. Returns whether it succeeded.
fn ask(server: &Server, lba: u64, writes: bool) -> bool {
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        if !writes {
            let buf = io::pool().alloc(BLOCK).await;
            return namespace.read(lba, buf).await.0.is_ok();
        }
        let mut data = io::pool().alloc(BLOCK).await;
        data.fill(lba as u8);
        data[..8].copy_from_slice(&marks(lba));
        let written = namespace.write(lba, Arc::new(data), WriteOptions::default());
        written.await.is_ok() && namespace.flush().await.is_ok()
    })
}

fn rot(disk: &Path, lba: u64) {
    let bytes = fs::read(disk).expect("read");
    let found = bytes.chunks(BLOCK).position(|c| c[..8] == marks(lba));
    let at = found.expect("it is there") * BLOCK;
    let file = OpenOptions::new().write(true).open(disk).expect("open");
    file.write_all_at(&[0xa5; 64], at as u64 + 100)
        .expect("written");
}

/// Before, only findings of a scrub were shown; damage found by a client's read was reported only to that client.
#[test]
fn what_a_client_could_not_read_is_named_also_after_a_restart() {
    let place = Place::new(BASE);
    let server = place.start();
    export(&server, &["a.img"]);
    let told = server.ok(&["pool", "status", "-v"]);
    assert!(told.contains("errors: no known data errors"), "{told}");
    assert!(ask(&server, 77, true));
    assert!(server.terminate().success());
    rot(&place.path("a.img"), 77);
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| p[0]["state"] == "online");
    assert!(!ask(&server, 77, false), "it is rotten");
    let is_told = |server: &Server| {
        let pools = server.wait_for(&["pool", "status"], |p| p[0]["damage"][0].is_object());
        let damage = &pools[0]["damage"];
        assert_eq!(damage.as_array().map(Vec::len), Some(1), "{damage}");
        let range = (
            &damage[0]["dataset"],
            &damage[0]["offset"],
            &damage[0]["len"],
        );
        assert_eq!(range.0, "tank/vm1");
        assert_eq!(
            (range.1.as_u64(), range.2.as_u64()),
            (Some(77 * 4096), Some(4096))
        );
    };
    is_told(&server);
    let told = server.ok(&["pool", "status", "-v"]);
    assert!(told.contains("tank/vm1: 4 KiB at 315392"), "{told}");
    let told = server.ok(&["pool", "status"]);
    assert!(told.contains("pool status -v tank"), "{told}");
    assert!(server.terminate().success());
    let server = place.start();
    is_told(&server);
    assert!(ask(&server, 77, true), "it is written anew");
    server.wait_for(&["pool", "status"], |p| {
        p[0]["damage"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(server.terminate().success());
}

#[test]
fn a_file_cut_short_under_a_mirror_costs_that_member_alone() {
    let place = Place::new(BASE);
    let server = place.start();
    export(&server, &["mirror", "a.img", "b.img"]);
    assert!(ask(&server, 1, true));
    let file = OpenOptions::new().write(true).open(place.path("b.img"));
    file.expect("open").set_len(1 << 20).expect("cut short");
    // the member lacks a write, so it becomes stale
    for lba in 0..64 {
        assert!(
            ask(&server, lba, true),
            "block {lba}: the other member takes it"
        );
    }
    assert!(ask(&server, 1, false));
    assert!(server.terminate().success());
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["state"] != "opening");
    let told = pools[0].to_string();
    assert!(
        pools[0]["state"] == "online" || told.contains("b.img"),
        "{told}"
    );
    assert!(server.terminate().success());
}

#[test]
fn a_pool_that_another_server_uses_is_refused() {
    let place = Place::new(BASE);
    let first = place.start();
    export(&first, &["a.img"]);
    let other = Place::new(BASE);
    let second = other.start();
    let disk = place.path("a.img").display().to_string();
    let before = fs::read(place.path("a.img")).expect("read").len();
    let told = second.refused(&["pool", "import", "tank", "-d", &disk]);
    assert!(told.contains("in use"), "{told}");
    let told = second.refused(&["pool", "create", "other", &disk]);
    assert!(told.contains("in use") || told.contains("tank"), "{told}");
    assert_eq!(fs::read(place.path("a.img")).expect("read").len(), before);
    assert!(ask(&first, 1, true));
    assert!(first.terminate().success());
    // nor is it taken from its host without force
    let told = second.refused(&["pool", "create", "other", &disk]);
    assert!(told.contains("tank"), "{told}");
    assert!(second.terminate().success());
}
