//! Recursive snapshots on the command line.

use crate::common::{BASE, Place, Server};

fn names(server: &Server) -> Vec<String> {
    let listed = server.json(&["snapshot", "list"]);
    let listed = listed.as_array().expect("a list").iter();
    let mut names: Vec<_> = listed
        .map(|s| s["name"].as_str().expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn snapshots_of_all_datasets_below_a_name_come_and_go_together() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "128M"]);
    for name in ["tank/home", "tank/home/ann", "tank/other"] {
        server.ok(&["fs", "create", name]);
    }
    let volume = ["volume", "create", "tank/home/ann/disk", "--size", "16M"];
    server.ok(&volume);
    let told = server.ok(&["snapshot", "create", "-r", "tank/home@monday"]);
    assert!(told.contains("tank/home@monday"), "{told}");
    let all = [
        "tank/home/ann/disk@monday",
        "tank/home/ann@monday",
        "tank/home@monday",
    ];
    assert_eq!(names(&server), all);

    // one is there already: the message names it, and there are no others
    server.ok(&["snapshot", "create", "tank/home/ann@tuesday"]);
    let told = server.refused(&["snapshot", "create", "-r", "tank/home@tuesday"]);
    assert!(
        told.contains("\"tank/home/ann@tuesday\" exists already"),
        "{told}"
    );
    server.ok(&["snapshot", "destroy", "-r", "tank/home@tuesday"]);
    assert_eq!(names(&server), all);

    server.ok(&["snapshot", "hold", "keep", "tank/home/ann@monday"]);
    let told = server.refused(&["snapshot", "destroy", "-r", "tank/home@monday"]);
    assert!(told.contains("hold"), "{told}");
    assert_eq!(names(&server), all);
    server.ok(&["snapshot", "release", "keep", "tank/home/ann@monday"]);
    server.ok(&["snapshot", "destroy", "-r", "tank/home@monday"]);
    assert_eq!(names(&server), [""; 0]);
    server.refused(&["snapshot", "destroy", "-r", "tank/home@monday"]);
    assert!(server.terminate().success());
    place.inspect_sound(&["a.img"]);
}
