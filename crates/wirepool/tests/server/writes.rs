//! `pool iostat -w`: written bytes, amplification, and wear.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use nvmf::wire::command::Nsid;
use nvmf_initiator::WriteOptions;
use serde_json::Value;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const WRITTEN: u64 = 16 * MIB;

/// Writes to the volume, durably.
fn write(server: &Server) {
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        for at in 0..WRITTEN / MIB {
            let mut buf = io::pool().alloc(MIB as usize).await;
            for (n, byte) in buf.iter_mut().enumerate() {
                *byte = (n * 31 + (n >> 8) * 17) as u8 | 1;
            }
            let options = WriteOptions { fua: true };
            let written = namespace.write(at * MIB / 4096, Arc::new(buf), options);
            written.await.expect("written");
        }
    });
    server.ok(&["pool", "checkpoint", "tank"]);
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn written_bytes_are_shown_by_dataset_and_disk_and_wear_is_unknown_for_files() {
    let place = Place::new(&format!("{BASE}[wear]\nrated_tbw = {{ \"a.img\" = 1 }}\n"));
    let server = place.start();
    server.ok(&[
        "pool", "create", "tank", "mirror", "a.img", "b.img", "--size", "128M",
    ]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "64M"]);
    server.ok(&["set", "compression=off", "tank/vm1"]);
    let nqn = ["--nqn", NQN, "--host", "any"];
    server.ok(&[&["export", "nvme", "tank/vm1"][..], &nqn].concat());
    write(&server);
    let report = server.json(&["pool", "iostat", "-w", "tank"]);
    assert!(report["seconds"].is_null(), "{report}");
    let pool = &report["pools"][0];
    let volume = &pool["datasets"][0];
    assert_eq!(volume["name"], "tank/vm1");
    assert_eq!(number(&volume["client"]), WRITTEN);
    assert_eq!(number(&volume["data"]), WRITTEN, "compression is off");
    assert!(
        number(&volume["journal"]) > 0 && number(&volume["nodes"]) > 0,
        "{volume}"
    );
    assert_eq!(number(&pool["client"]), WRITTEN);
    let mut total = 0;
    let disks = pool["disks"].as_array().expect("disks");
    assert_eq!(disks.len(), 2);
    for disk in disks {
        let classes = ["data", "journal", "nodes", "labels", "repair"];
        let sum: u64 = classes.iter().map(|class| number(&disk[class])).sum();
        assert_eq!(number(&disk["total"]), sum, "{disk}");
        assert!(number(&disk["data"]) >= WRITTEN, "{disk}");
        total += sum;
        let reason = disk["health"]["unknown"].as_str().expect("a reason");
        assert!(reason.contains("a file"), "{reason}");
        assert!(disk["forecast"]["days"].is_null(), "{disk}");
        assert!(disk["health"]["host_written"].is_null(), "{disk}");
    }
    assert_eq!(
        number(&disks[0]["health"]["rated_bytes"]),
        1_000_000_000_000
    );
    assert!(disks[1]["health"]["rated_bytes"].is_null());
    assert_eq!(number(&pool["total"]), total);
    let amplification = pool["amplification"].as_f64().expect("known");
    assert!(amplification > 2.0, "two copies: {amplification}");
    let text = server.ok(&["pool", "iostat", "-w", "tank", "0.01", "2"]);
    assert_eq!(text.matches("AMPLIFICATION").count(), 2, "{text}");
    for word in [
        "since it was opened",
        "IN ITS LIFE",
        "DISK COUNTED",
        "unknown",
        "no forecast: a file",
    ] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    server.refused(&["pool", "iostat", "-w", "nope"]);
    let both = server.run(&["pool", "iostat", "-w", "-v"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(server.terminate().success());
}
