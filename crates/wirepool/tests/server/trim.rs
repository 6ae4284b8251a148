//! Trim and expansion of a pool's disks, on the command line.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use nvmf::wire::command::Nsid;
use nvmf::wire::dsm::DsmRange;
use nvmf_initiator::WriteOptions;
use std::fs::{File, metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const SIZE: &str = "96M";
const MIB: u64 = 1 << 20;
/// Bytes that are written and freed.
const WRITTEN: u64 = 40 * MIB;

/// Bytes that a file takes.
fn taken(place: &Place, name: &str) -> u64 {
    let meta = metadata(place.path(name)).expect("it is there");
    meta.blocks() * 512
}

/// Writes to the volume, has all of it deallocated, and that freed.
fn write_and_free(server: &Server) {
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        for at in 0..WRITTEN / MIB {
            let mut buf = io::pool().alloc(MIB as usize).await;
            buf.fill(7);
            let written = namespace.write(at * MIB / 4096, Arc::new(buf), WriteOptions::default());
            written.await.expect("written");
        }
        namespace.flush().await.expect("flushed");
        let range = DsmRange::new(0, (WRITTEN / 4096) as u32);
        namespace.deallocate(&[range]).await.expect("deallocated");
        namespace.flush().await.expect("flushed");
    });
    server.ok(&["pool", "checkpoint", "tank"]);
}

fn serve(place: &Place) -> Server {
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", SIZE]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "64M"]);
    let nqn = ["--nqn", NQN, "--host", "any"];
    server.ok(&[&["export", "nvme", "tank/vm1"][..], &nqn].concat());
    server
}

#[test]
fn free_space_is_trimmed_with_progress_and_by_itself() {
    let place = Place::new(BASE);
    let server = serve(&place);
    write_and_free(&server);
    let before = taken(&place, "a.img");
    assert!(before > WRITTEN, "{before}");
    let text = server.refused(&["pool", "trim", "-p", "tank"]);
    assert!(text.contains("is not being trimmed"), "{text}");
    server.ok(&["pool", "trim", "tank", "--rate", "1K"]);
    server.wait_for(&["pool", "status"], |p| p[0]["trim"]["state"] == "running");
    server.ok(&["pool", "trim", "-p", "tank"]);
    let text = server.ok(&["pool", "status", "tank"]);
    assert!(text.contains("trim: paused"), "{text}");
    server.ok(&["pool", "trim", "tank", "--rate", "0"]);
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["trim"]["state"] == "finished");
    let trim = &pools[0]["trim"];
    assert_eq!(trim["done"], trim["of"], "{trim}");
    assert!(trim["trimmed"].as_u64() > Some(WRITTEN), "{trim}");
    let after = taken(&place, "a.img");
    assert!(after < before - 30 * MIB, "{before} {after}");

    let set = server.ok(&["set", "autotrim=on", "tank"]);
    assert!(set.contains("on"), "{set}");
    write_and_free(&server);
    for _ in 0..3 {
        server.ok(&["pool", "checkpoint", "tank"]);
    }
    server.wait_for(&["pool", "status"], |_| taken(&place, "a.img") < WRITTEN);
    let events = server.ok(&["pool", "events", "tank"]);
    assert!(events.contains("trimmed: "), "{events}");
    assert!(server.terminate().success());
}

#[test]
fn a_disk_that_grew_gives_its_space_without_export() {
    let place = Place::new(BASE);
    let server = serve(&place);
    let size = |pools: &serde_json::Value| pools[0]["size"].as_u64().expect("a size");
    let grow = |to: u64| {
        let file = File::options().write(true).open(place.path("a.img"));
        file.expect("open").set_len(to).expect("longer");
    };
    let before = size(&server.json(&["pool", "list"]));
    grow(192 * MIB);
    server.ok(&["pool", "online", "tank", "a.img"]);
    assert_eq!(size(&server.json(&["pool", "list"])), before);
    server.ok(&["pool", "online", "-e", "tank", "a.img"]);
    assert_eq!(size(&server.json(&["pool", "list"])), before + 96 * MIB);
    let get = |server: &Server| server.ok(&["get", "autoexpand", "tank"]);
    assert!(get(&server).contains("off"));
    server.ok(&["set", "autoexpand=on", "tank"]);
    let text = server.refused(&["set", "autoexpand=maybe", "tank"]);
    assert!(text.contains("on or off"), "{text}");
    grow(256 * MIB);
    server.wait_for(&["pool", "list"], |p| size(p) == before + 160 * MIB);
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "list"], |p| size(p) == before + 160 * MIB);
    assert!(get(&server).contains("on"));
    assert!(server.terminate().success());
}
