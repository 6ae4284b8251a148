//! Pools in a real server: made on the command line, killed under writes, restarted, imported.

use crate::common::{BASE, NQN, Place, client, connect};
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Reconnect, WriteOptions};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const BLOCKS: u64 = 512;
/// Number of writes after which a flush follows.
const FLUSH_EVERY: u64 = 16;

#[test]
fn a_mirrored_pool_survives_a_kill_under_writes() {
    let place = Place::new(BASE);
    let server = place.start();
    let create = ["pool", "create", "tank", "mirror"];
    let disks = ["a.img", "b.img", "--size", "128M"];
    server.ok(&[&create[..], &disks[..]].concat());
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    let told = server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
    assert!(told.contains("nvme connect -t tcp -a 127.0.0.1"), "{told}");
    let mut config = server.client();
    config.reconnect = Reconnect::NEVER;
    let flushed = client(async move {
        let controller = connect(config).await;
        let namespace = Rc::new(controller.namespace(Nsid(1)).await.expect("served"));
        let flushed = Rc::new(Cell::new(0u64));
        let progress = flushed.clone();
        let writer = io::spawn(async move {
            for n in 1u64.. {
                let mut data = io::pool().alloc(4096).await;
                data.fill(0);
                data[..8].copy_from_slice(&n.to_le_bytes());
                let write = namespace.write(n % BLOCKS, Arc::new(data), WriteOptions::default());
                if write.await.is_err() {
                    return;
                }
                if n % FLUSH_EVERY == 0 {
                    if namespace.flush().await.is_err() {
                        return;
                    }
                    progress.set(n);
                }
            }
        });
        while flushed.get() < 3 * BLOCKS {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        server.signal("KILL");
        let _ended = writer.await;
        drop(server);
        flushed.get()
    });

    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    assert_eq!(server.json(&["volume", "list"])[0]["name"], "tank/vm1");
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        for block in 0..BLOCKS {
            let (read, data) = namespace.read(block, io::pool().alloc(4096).await).await;
            read.expect("read");
            let found = u64::from_le_bytes(data[..8].try_into().expect("8 bytes"));
            let least = flushed - (flushed - block) % BLOCKS;
            assert_eq!(found % BLOCKS, block);
            assert!(
                found >= least,
                "block {block}: {found}, flushed was {least}"
            );
        }
    });
    let status = server.json(&["pool", "status"]);
    let (size, parts) = (&status[0]["size"], ["used", "freeing", "free"]);
    let sum: u64 = parts
        .iter()
        .map(|p| status[0][p].as_u64().expect("a number"))
        .sum();
    assert_eq!(size.as_u64(), Some(sum));
    assert!(server.terminate().success());
}

#[test]
fn a_pool_moves_under_another_name() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    server.ok(&[
        "volume", "create", "tank/vm1", "--size", "1G", "--sync", "always",
    ]);
    server.ok(&["volume", "resize", "tank/vm1", "2G"]);
    server.refused(&["volume", "resize", "tank/vm1", "1G"]);
    server.ok(&["pool", "checkpoint", "tank"]);
    let refused = server.refused(&["pool", "import", "tank", "-d", "a.img"]);
    assert!(
        refused.contains("\"tank\" is open on this server") && refused.contains("pool status"),
        "{refused}"
    );
    server.ok(&["pool", "export", "tank"]);
    assert!(!place.text().contains("tank"));
    let found = server.json(&["pool", "import", "-d", "a.img"]);
    assert_eq!(
        (&found[0]["name"], &found[0]["state"]),
        (&"tank".into(), &"exported".into())
    );
    let refused = server.refused(&["pool", "create", "new", "a.img"]);
    assert!(
        refused.contains("belongs to the pool \"tank\""),
        "{refused}"
    );
    server.ok(&["pool", "import", "tank", "--as", "old", "-d", "a.img"]);
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(
        (&volumes[0]["name"], &volumes[0]["size"]),
        (&"old/vm1".into(), &(2u64 << 30).into())
    );
    server.refused(&["pool", "destroy", "old"]);
    server.ok(&["pool", "destroy", "old", "-f"]);
    server.refused(&["pool", "import", "-d", "a.img"]);
    assert_eq!(
        server.json(&["pool", "list"]).as_array().map(Vec::len),
        Some(0)
    );
}

#[test]
fn a_disk_with_other_contents_is_refused_unless_forced() {
    let place = Place::new(BASE);
    let luks = place.path("luks.img");
    let mut bytes = vec![0; 128 << 20];
    bytes[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
    std::fs::write(&luks, &bytes).expect("an encrypted disk");
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "128M"]);
    for command in [
        &["create", "new", "luks.img"][..],
        &["add", "tank", "luks.img"],
        &["attach", "tank", "a.img", "luks.img"],
        &["replace", "tank", "a.img", "luks.img"],
    ] {
        let refused = server.refused(&[&["pool"], command].concat());
        assert!(refused.contains("has contents: crypto_LUKS"), "{refused}");
    }
    assert!(
        std::fs::read(&luks).expect("the disk") == bytes,
        "untouched"
    );
    server.ok(&["pool", "attach", "tank", "a.img", "luks.img", "-f"]);
}

/// Regression: labels were written before the configuration was stored, so that a creation that could not be stored had destroyed the
/// disks already.
#[test]
fn a_pool_that_cannot_be_stored_leaves_its_disks() {
    let place = Place::new(BASE);
    let luks = place.path("luks.img");
    let mut bytes = vec![0; 64 << 20];
    bytes[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
    fs::write(&luks, &bytes).expect("an encrypted disk");
    let server = place.start();
    let before = place.text();
    // the temporary file of the new configuration cannot be made
    let config = place.config();
    let name = config.file_name().expect("a name").to_string_lossy();
    let in_the_way = config.with_file_name(format!(".{name}.new"));
    fs::create_dir(&in_the_way).expect("a directory");
    let create = [
        "pool", "create", "tank", "luks.img", "b.img", "--size", "64M", "-f",
    ];
    server.refused(&create);
    assert!(fs::read(&luks).expect("the disk") == bytes, "untouched");
    assert!(!place.path("b.img").exists());
    assert_eq!(place.text(), before);
    fs::remove_dir(&in_the_way).expect("empty");
    server.ok(&create);
}

/// A power cut between the configuration and the labels of a new pool left a pool that could be neither opened nor created.
#[test]
fn an_interrupted_creation_is_forgotten_at_the_next_start() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "other", "o.img", "--size", "64M"]);
    let state = server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    assert!(state.contains("tank"), "{state}");
    let both = place.text();
    server.ok(&["pool", "destroy", "tank", "-f"]);
    assert!(server.terminate().success());
    fs::write(place.config(), both).expect("as it was during the creation");
    let mark = place.path("w.state/pools/tank.creating");
    let made = serde_json::to_vec(&[place.path("a.img")]).expect("a list");
    fs::write(&mark, made).expect("the mark");
    let server = place.start();
    server.wait_for(&["pool", "list"], |p| {
        p.as_array().is_some_and(|all| all.len() == 1) && p[0]["state"] == "online"
    });
    assert!(!place.text().contains("tank"), "{}", place.text());
    assert!(!mark.exists() && !place.path("a.img").exists());
    let told = server.ok(&["pool", "events"]);
    assert!(told.contains("its creation was interrupted"), "{told}");
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[1]["state"] == "online");
}

#[test]
fn less_redundancy_and_words_of_the_layout_are_refused() {
    let place = Place::new(BASE);
    let server = place.start();
    let before = place.text();
    for (args, said) in [
        (
            &["tank", "draid", "a.img", "b.img", "c.img"][..],
            "does not have",
        ),
        (
            &["tank", "miror", "a.img", "b.img"],
            "did you mean the word \"mirror\"",
        ),
        (&["mirror", "x.img"], "the name of the pool is missing"),
        (
            &["tank", "x.img", "mirror", "a.img", "b.img"],
            "lowers the redundancy",
        ),
    ] {
        let output = server.run(&[&["pool", "create"], args, &["--size", "64M"]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && told.contains(said),
            "{args:?}: {told}"
        );
        assert_eq!(place.text(), before, "{args:?}");
    }
    assert!(!place.path("draid").exists() && !place.path("x.img").exists());
    let mirror = [
        "pool", "create", "tank", "mirror", "a.img", "b.img", "--size", "64M",
    ];
    server.ok(&mirror);
    let add = ["pool", "add", "tank", "x.img", "--size", "64M"];
    let told = server.refused(&add);
    assert!(
        told.contains("a single disk beside a mirror of 2 disks"),
        "{told}"
    );
    assert!(!place.path("x.img").exists());
    server.ok(&[&add[..], &["-f"]].concat());
    let mode = fs::metadata(place.path("a.img"))
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

/// Regression: hosts found another disk after the export of a volume was removed and added, because it got a random UUID each time.
#[test]
fn a_volume_keeps_its_uuid_when_it_is_exported_again() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    let mut found = Vec::new();
    for volume in ["tank/vm1", "tank/vm1", "tank/vm2"] {
        if !server.ok(&["volume", "list"]).contains(volume) {
            server.ok(&["volume", "create", volume, "--size", "1G"]);
        }
        server.ok(&["export", "nvme", volume, "--nqn", NQN, "--host", "any"]);
        let text = place.text();
        let uuid = text
            .lines()
            .find(|line| line.contains("uuid"))
            .expect("it has one");
        found.push(uuid.trim().to_owned());
        server.ok(&["export", "remove", NQN]);
    }
    assert_eq!(found[0], found[1]);
    assert_ne!(found[0], found[2]);
}

#[test]
fn a_refused_pool_leaves_nothing() {
    let place = Place::new(BASE);
    let server = place.start();
    let before = place.text();
    let long = "x".repeat(300);
    for (args, said) in [
        (&["tank", "a.img"][..], "use --size to create a file"),
        (&["tank", "a.img", "--size", "1M"], "at least 64 MiB"),
        (&["tank", "a.img", "--size", "0"], ""),
        (&["ta/nk", "a.img", "--size", "64M"], "letters, digits"),
        (&["ta nk", "a.img", "--size", "64M"], "letters, digits"),
        (&[&long, "a.img", "--size", "64M"], "letters, digits"),
        (
            &["tank", "mirror", "a.img", "a.img", "--size", "64M"],
            "twice",
        ),
        (&["tank", "a.img", "--size", "9223372036854775808"], ""),
    ] {
        let told = server.refused(&[&["pool", "create"], args].concat());
        assert!(told.contains(said), "{args:?}: {told}");
        assert!(!place.path("a.img").exists(), "{args:?}");
    }
    let usage = server.run(&["pool", "create", "tank", "mirror", "a.img"]);
    assert_eq!(usage.status.code(), Some(2), "{usage:?}");
    assert_eq!(place.text(), before);
    fs::write(place.path("text"), "precious").expect("write");
    let told = server.refused(&["pool", "create", "tank", "text"]);
    assert!(told.contains("a file with unknown contents"), "{told}");
    assert_eq!(fs::read(place.path("text")).expect("read"), b"precious");
}

#[test]
fn snapshots_and_clones_come_and_go() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "128M"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    server.ok(&["snapshot", "create", "tank/vm1@monday"]);
    server.refused(&["snapshot", "create", "tank/vm1@monday"]);
    server.refused(&["snapshot", "create", "tank/vm1"]);
    server.refused(&["snapshot", "create", "tank/vm1@a b"]);
    server.refused(&["snapshot", "create", "tank/vm7@monday"]);
    server.refused(&["volume", "destroy", "tank/vm1", "-f"]);
    server.ok(&["clone", "tank/vm1@monday", "tank/vm2"]);
    server.refused(&["clone", "tank/vm1@friday", "tank/vm3"]);
    server.refused(&["clone", "tank/vm1@monday", "other/vm3"]);
    let listed = server.json(&["snapshot", "list", "tank/vm1"]);
    assert_eq!(listed[0]["name"], "tank/vm1@monday");
    assert_eq!(listed[0]["clones"][0], "tank/vm2");
    let busy = server.refused(&["snapshot", "destroy", "tank/vm1@monday"]);
    assert!(
        busy.contains("tank/vm2 is a clone of tank/vm1@monday"),
        "{busy}"
    );
    server.refused(&["snapshot", "rename", "tank/vm1@monday", "tank/vm2@tuesday"]);
    server.ok(&["snapshot", "rename", "tank/vm1@monday", "tuesday"]);
    server.ok(&["snapshot", "rename", "tank/vm1@tuesday", "monday"]);
    server.refused(&["volume", "promote", "tank/vm1"]);
    server.ok(&["volume", "promote", "tank/vm2"]);
    let listed = server.json(&["snapshot", "list", "tank/vm2"]);
    assert_eq!(listed[0]["clones"][0], "tank/vm1");
    server.ok(&["volume", "promote", "tank/vm1"]);
    server.ok(&["volume", "rename", "tank/vm2", "tank/vm3"]);
    server.refused(&["volume", "rename", "tank/vm3", "tank/vm1"]);
    server.ok(&["volume", "rename", "tank/vm3", "tank/vm2"]);
    server.ok(&["set", "quota=8M", "tank/vm2"]);
    server.ok(&["set", "reservation=4M", "tank/vm2"]);
    server.refused(&["set", "reservation=16M", "tank/vm2"]);
    server.refused(&["set", "reservation=200M", "tank/vm1"]);
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(volumes[1]["quota"], 8 << 20);
    assert_eq!(volumes[1]["origin"], "tank/vm1@monday");
    server.ok(&["snapshot", "hold", "backup", "tank/vm1@monday"]);
    server.refused(&["snapshot", "hold", "backup", "tank/vm1@monday"]);
    server.refused(&["volume", "rollback", "tank/vm1@monday"]);
    server.ok(&["volume", "rollback", "tank/vm1@monday", "-f"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN]);
    let exported = server.refused(&["volume", "rollback", "tank/vm1@monday", "-f"]);
    assert!(exported.contains("export remove"), "{exported}");
    assert!(server.terminate().success());

    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    assert_eq!(
        server.json(&["snapshot", "list"])[0]["clones"][0],
        "tank/vm2"
    );
    server.ok(&["volume", "destroy", "tank/vm2", "-f"]);
    let held = server.refused(&["snapshot", "destroy", "tank/vm1@monday"]);
    assert!(held.contains("backup"), "{held}");
    let holds = server.json(&["snapshot", "holds", "tank/vm1@monday"]);
    assert_eq!(holds[0]["tag"], "backup");
    server.refused(&["snapshot", "release", "other", "tank/vm1@monday"]);
    server.ok(&["snapshot", "release", "backup", "tank/vm1@monday"]);
    server.ok(&["snapshot", "destroy", "tank/vm1@monday"]);
    assert!(
        server
            .json(&["snapshot", "list"])
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    assert!(server.terminate().success());
}

#[test]
fn a_volume_is_set_to_what_it_promises_and_how_it_is_stored() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    let create = ["volume", "create", "tank/vm1", "--size", "1G"];
    let refused = server.refused(&[&create[..], &["--compression", "zstd-20"]].concat());
    assert!(refused.contains("zstd-1 to zstd-19"), "{refused}");
    let refused = server.refused(&[&create[..], &["--checksum", "md5"]].concat());
    assert!(refused.contains("xxh3 or blake3"), "{refused}");
    server.ok(&[&create[..], &["--record-size", "128K"]].concat());
    let get = |property: &str| server.json(&["get", property, "tank/vm1"])[0].clone();
    assert_eq!(get("compression")["value"], "lz4");
    assert_eq!(get("checksum")["value"], "xxh3");
    assert_eq!(get("compressratio")["value"], "1.00x");
    server.ok(&["set", "compression=zstd-7", "tank/vm1"]);
    server.ok(&["set", "checksum=blake3", "tank/vm1"]);
    server.refused(&["set", "compression=gzip", "tank/vm1"]);
    server.refused(&["set", "sync=never", "tank/vm1"]);
    let told = server.ok(&["set", "sync=disabled", "tank/vm1"]);
    assert!(told.contains("warning: tank/vm1: sync=disabled"), "{told}");
    assert!(get("sync")["warning"].is_string());
    let status = server.ok(&["pool", "status", "tank"]);
    assert!(status.contains("WARN: tank/vm1: sync=disabled"), "{status}");
    assert!(status.contains(" cache: "), "{status}");
    assert!(server.terminate().success());

    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    let volume = server.json(&["volume", "list"])[0].clone();
    let set = ["compression", "checksum", "sync"].map(|p| volume[p].clone());
    assert_eq!(set, ["zstd-7", "blake3", "disabled"]);
    let pool = server.json(&["pool", "status"])[0].clone();
    assert_eq!(pool["sync_disabled"][0], "tank/vm1");
    assert_eq!(pool["record_cache"]["limit"], 64 << 20);
    server.ok(&["set", "sync=standard", "tank/vm1"]);
    let status = server.ok(&["pool", "status", "tank"]);
    assert!(!status.contains("WARN"), "{status}");
    assert!(server.terminate().success());
}

/// A refusal to destroy names the snapshots, clones and datasets that stand in the way, and the command.
#[test]
fn dependents_of_a_dataset_are_named() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    server.ok(&["fs", "create", "tank/home"]);
    server.ok(&["volume", "create", "tank/home/data", "--size", "1M"]);
    server.ok(&["snapshot", "create", "tank/home@monday"]);
    let refused = server.refused(&["fs", "destroy", "tank/home", "-f"]);
    for word in [
        "tank/home@monday",
        "tank/home/data",
        "wirepool fs destroy -r -f tank/home",
    ] {
        assert!(refused.contains(word), "{refused}");
    }
    server.ok(&["clone", "tank/home@monday", "tank/copy"]);
    let refused = server.refused(&["snapshot", "destroy", "tank/home@monday"]);
    assert!(refused.contains("tank/copy"), "{refused}");
    let refused = server.refused(&["fs", "destroy", "-r", "-f", "tank/home"]);
    assert!(
        refused.contains("tank/copy is a clone of tank/home@monday"),
        "{refused}"
    );
    server.ok(&["fs", "destroy", "tank/copy", "-f"]);
    server.ok(&["fs", "destroy", "-r", "-f", "tank/home"]);
}
