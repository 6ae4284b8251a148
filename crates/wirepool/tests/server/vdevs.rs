//! A pool that grows, on the command line.

use crate::common::{BASE, Place};

const SIZE: &str = "96M";

#[test]
fn a_pool_grows_by_a_mirror_and_keeps_it() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", SIZE]);
    let before = server.json(&["pool", "list"])[0]["size"].as_u64();
    server.ok(&[
        "pool", "add", "tank", "mirror", "b.img", "c.img", "--size", SIZE,
    ]);
    let pools = server.json(&["pool", "status"]);
    assert_eq!(pools[0]["vdevs"][1]["name"], "mirror-1", "{pools}");
    assert!(pools[0]["size"].as_u64() > before.map(|size| size * 19 / 10));
    let history = server.ok(&["pool", "history", "tank"]);
    assert!(history.contains("pool add"), "{history}");
    let events = server.ok(&["pool", "events", "tank"]);
    assert!(events.contains("vdev 1 of"), "{events}");
    let text = server.refused(&["pool", "add", "tank", "c.img"]);
    assert!(text.contains("c.img"), "{text}");
    let text = server.refused(&["pool", "add", "tank", "missing.img"]);
    assert!(text.contains("use --size to create a file"), "{text}");
    assert!(!place.text().contains("missing.img"), "{}", place.text());
    assert!(server.terminate().success());
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["health"] == "online");
    assert_eq!(pools[0]["vdevs"].as_array().map(Vec::len), Some(2));
    assert!(server.terminate().success());
}
