//! Device classes on the command line: a pool with all of them, additions, removals, refusals, and cache devices with wrong contents.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Namespace, WriteOptions};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Bytes that a client writes and reads.
const DATA: u64 = 8 * MIB;

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn ok(server: &Server, line: &str) -> String {
    server.ok(&words(line))
}

fn refused(server: &Server, line: &str) -> String {
    server.refused(&words(line))
}

/// The contents of the record with this number: no two are equal, and none can be compressed.
fn record(at: u64) -> Vec<u8> {
    let mut state = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..4096).map(|_| byte()).collect()
}

/// Runs a client with a namespace of the exported volume.
fn with_volume<F: Future<Output = ()>>(
    server: &Server,
    work: impl FnOnce(Namespace) -> F + 'static,
) {
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        work(namespace).await;
    });
}

fn write(server: &Server, bytes: u64) {
    with_volume(server, move |namespace| async move {
        for from in (0..bytes / 4096).step_by(32) {
            let mut buf = io::pool().alloc(32 * 4096).await;
            for (n, block) in buf.chunks_mut(4096).enumerate() {
                block.copy_from_slice(&record(from + n as u64));
            }
            let written = namespace.write(from, Arc::new(buf), WriteOptions::default());
            written.await.expect("written");
        }
        namespace.flush().await.expect("flushed");
    });
    ok(server, "pool checkpoint tank");
}

/// Every record is as it was written.
fn check(server: &Server, bytes: u64) {
    with_volume(server, move |namespace| async move {
        for at in 0..bytes / 4096 {
            let (read, buf) = namespace.read(at, io::pool().alloc(4096).await).await;
            read.expect("read");
            assert!(buf[..] == record(at)[..], "record {at}");
        }
    });
}

fn export_volume(server: &Server, size: &str) {
    server.ok(&["volume", "create", "tank/vm1", "--size", size]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
}

fn pool(server: &Server) -> Value {
    server.json(&["pool", "status", "-v"])[0].take()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// Name and class of each vdev.
fn vdevs(pool: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    let vdevs = pool["vdevs"].as_array().expect("vdevs").iter();
    vdevs
        .map(|v| (text(&v["name"]), text(&v["class"])))
        .collect()
}

/// Waits until no vdev has this name.
fn wait_until_gone(server: &Server, name: &str) {
    server.wait_for(&["pool", "status"], |pools| {
        pools[0]["removal"].is_null() && vdevs(&pools[0]).iter().all(|(of, _)| of != name)
    });
}

#[test]
fn a_pool_is_created_with_all_classes_and_each_is_removed_and_added_again() {
    let place = Place::new(BASE);
    let server = place.start();
    let said = ok(
        &server,
        "pool create tank mirror a.img b.img special mirror s.img t.img log mirror l.img m.img cache k.img --size 160M",
    );
    for word in ["special", "logs", "cache", "mirror-1", "mirror-2"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    export_volume(&server, "64M");
    ok(&server, "set special_small_blocks=4K tank/vm1");
    write(&server, DATA);
    let text = ok(&server, "pool status -v tank");
    for words in [
        " special: ",
        "journal: on mirror-2",
        "cache ",
        "k.img: 0 B of",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let advice = [
        ("log", "a log would not help: the journal is on a log"),
        ("cache", "a cache would not help"),
        ("special", "special_small_blocks"),
        ("recordsize", "tank/vm1"),
    ];
    for (class, words) in advice {
        let text = ok(&server, &format!("pool advise {class} tank"));
        assert!(text.contains(words), "{words}: {text}");
    }
    for value in ["none", "metadata"] {
        ok(&server, &format!("set primarycache={value} tank"));
        let text = ok(&server, "pool advise cache tank");
        assert!(text.contains("no dataset keeps data in memory"), "{text}");
    }
    ok(&server, "set primarycache=all tank");
    let shown = pool(&server);
    let special = &shown["special"];
    assert!(number(&special["used"]) >= DATA, "{special}");
    assert_eq!(special["takes_small_records"], true);
    assert_eq!(special["spilled"], Value::Array(Vec::new()), "{special}");
    assert!(shown["caches"][0]["reason"].is_null(), "{shown}");
    let expected = [
        ("mirror-0", "normal"),
        ("mirror-1", "special"),
        ("mirror-2", "log"),
    ];
    let expected = expected.map(|(name, class)| (name.to_owned(), class.to_owned()));
    assert_eq!(vdevs(&shown), expected);

    ok(&server, "pool remove tank k.img");
    assert!(!place.text().contains("k.img"), "{}", place.text());
    ok(&server, "pool remove tank mirror-2");
    wait_until_gone(&server, "mirror-2");
    ok(&server, "pool remove tank mirror-1");
    wait_until_gone(&server, "mirror-1");
    check(&server, DATA);
    let shown = pool(&server);
    assert!(
        shown["special"].is_null() && shown["caches"] == Value::Array(Vec::new()),
        "{shown}"
    );
    for line in [
        "pool add tank log mirror l.img m.img",
        "pool add tank special mirror s.img t.img",
        "pool add tank cache k.img",
    ] {
        ok(&server, line);
    }
    let classes: Vec<String> = vdevs(&pool(&server)).into_iter().map(|(_, c)| c).collect();
    assert_eq!(classes, ["normal", "log", "special"]);
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| {
        p[0]["health"] == "online" && p[0]["caches"][0]["reason"].is_null()
    });
    check(&server, DATA);
    let read = pool(&server)["node_reads"].take();
    let is_timed = number(&read["normal"]) > 0 && number(&read["normal_us"]) > 0;
    assert!(
        is_timed,
        "nodes are where they were before the class: {read}"
    );
    assert!(server.terminate().success());
    place.inspect_sound(&["a.img", "b.img", "s.img", "t.img", "l.img", "m.img"]);
}

#[test]
fn classes_with_less_redundancy_are_refused_with_the_loss_unless_forced() {
    let place = Place::new(BASE);
    let server = place.start();
    let special = "pool create tank mirror a.img b.img special s.img --size 96M";
    let said = refused(&server, special);
    assert!(said.contains("the whole pool is lost"), "{said}");
    let log = "pool create tank mirror a.img b.img log l.img --size 96M";
    let said = refused(&server, log);
    assert!(
        said.contains("the durable writes of the last seconds are lost"),
        "{said}"
    );
    ok(&server, "pool create tank mirror a.img b.img --size 96M");
    let said = refused(&server, "pool add tank special s.img --size 96M");
    assert!(said.contains("the whole pool is lost"), "{said}");
    let raidz = server.run(&words("pool add tank special raidz1 s.img t.img u.img"));
    assert_eq!(raidz.status.code(), Some(2), "{raidz:?}");
    let said = String::from_utf8_lossy(&raidz.stderr);
    assert!(said.contains("one disk or a mirror"), "{said}");
    assert_eq!(vdevs(&pool(&server)).len(), 1);
    assert!(!place.text().contains("s.img"), "{}", place.text());
    ok(&server, "pool add tank special s.img --size 96M -f");
    ok(&server, "pool add tank log l.img --size 96M -f");
    let classes: Vec<String> = vdevs(&pool(&server)).into_iter().map(|(_, c)| c).collect();
    assert_eq!(classes, ["normal", "special", "log"]);
    assert!(server.terminate().success());
}

/// Its blocks have no room on the other vdevs: the refusal has both figures, and the vdev stays.
#[test]
fn a_special_vdev_is_not_removed_without_room_for_its_blocks() {
    let place = Place::new(BASE);
    let server = place.start();
    ok(&server, "pool create tank a.img --size 96M");
    ok(&server, "pool add tank special s.img --size 256M");
    export_volume(&server, "256M");
    ok(&server, "set special_small_blocks=4K tank/vm1");
    write(&server, 120 * MIB);
    assert_eq!(pool(&server)["used"], 0, "all of it is special");
    let said = refused(&server, "pool remove tank disk-1");
    let figures: Vec<u64> = said
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [_, needed, free] = figures[..] else {
        panic!("vdev, needed and free bytes: {said}");
    };
    assert!(needed >= 120 * MIB && free < 96 * MIB, "{said}");
    assert_eq!(vdevs(&pool(&server)).len(), 2);
    check(&server, 120 * MIB);
    assert!(server.terminate().success());
}

/// Overwrites a file from 1 MiB on, as rot does.
fn rot(path: &Path) {
    let file = File::options().write(true).open(path).expect("the file");
    let len = file.metadata().expect("its size").len();
    let wrong = vec![0x5a; MIB as usize];
    for at in (MIB..len - MIB).step_by(MIB as usize) {
        file.write_all_at(&wrong, at).expect("written");
    }
    file.sync_all().expect("stable");
}

#[test]
fn a_cache_device_full_of_rot_or_of_another_pool_costs_nothing_but_its_hits() {
    let place = Place::new(BASE);
    let server = place.start();
    ok(
        &server,
        "pool create tank mirror a.img b.img cache k.img --size 128M",
    );
    ok(&server, "pool create other o.img cache p.img --size 128M");
    let said = refused(&server, "pool add tank cache p.img");
    assert!(said.contains("p.img"), "{said}");
    export_volume(&server, "64M");
    ok(&server, "set primarycache=none tank");
    write(&server, DATA);
    for _ in 0..4 {
        check(&server, DATA);
    }
    let cache = |server: &Server| pool(server)["caches"][0].take();
    let warm = cache(&server);
    assert!(number(&warm["hits"]) > 0 && warm["wrong"] == 0, "{warm}");

    rot(&place.path("k.img"));
    check(&server, DATA);
    let rotten = cache(&server);
    assert!(number(&rotten["wrong"]) > 0, "{rotten}");
    assert_eq!(pool(&server)["health"], "online");
    let text = ok(&server, "pool status -v tank");
    assert!(text.contains("wrong blocks"), "{text}");
    rot(&place.path("k.img"));
    assert!(server.terminate().success());

    // Its tables are rotten, too: it is an empty cache device.
    rot(&place.path("k.img"));
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| {
        p[0]["caches"][0]["reason"].is_null()
    });
    assert_eq!(cache(&server)["blocks"], 0);
    check(&server, DATA);
    assert!(server.terminate().success());

    // The device of the other pool is where this pool's was.
    std::fs::copy(place.path("p.img"), place.path("k.img")).expect("copied");
    let server = place.start();
    let is_told = |p: &Value| {
        let reason = p[0]["caches"][0]["reason"].as_str();
        reason.is_some_and(|reason| reason.contains("k.img"))
    };
    server.wait_for(&["pool", "status"], is_told);
    check(&server, DATA);
    assert_eq!(pool(&server)["health"], "online");
    assert!(server.terminate().success());
}
