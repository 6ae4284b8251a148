//! The command line against a server.

use crate::common::{BASE, HOST, NQN, Place, RAM, client, connect, run};
use std::fs;

#[test]
fn what_the_command_line_makes_is_there_after_a_restart() {
    let place = Place::new(&format!("# ours\n{BASE}"));
    let server = place.start();
    assert!(server.ok(&["disk", "list"]).contains("no disks"));
    server.ok(&["disk", "add", "f", "--file", "f.img", "--size", "8M"]);
    server.ok(&["disk", "add", "m", "--mem", "1M", "--block-size", "512"]);
    server.ok(&["disk", "add", "n", "--null", "1T", "--read-only"]);
    assert!(
        server
            .ok(&["export", "add", NQN, "f", "--nsid", "5"])
            .contains("no host may connect yet")
    );
    server.ok(&[
        "export",
        "add",
        NQN,
        "m",
        "--uuid",
        "5c1e6f1c-0000-4000-8000-0000000000aa",
    ]);
    server.ok(&["host", "allow", NQN, HOST]);
    server.ok(&["disk", "add", "o", "--mem", "1M"]);
    server.ok(&["export", "add", "nqn.other", "o"]);
    server.ok(&["host", "allow", "nqn.other", "any"]);
    server.ok(&["disk", "resize", "m", "2M"]);
    server.ok(&["disk", "resize", "f", "16M"]);
    server.ok(&["disk", "remove", "n"]);

    let wanted = |what: &str| {
        (
            server.json(&["disk", "list"]),
            server.json(&["export", "list"]),
            what.to_owned(),
        )
    };
    let before = wanted("state");
    assert_eq!(before.0.as_array().map(Vec::len), Some(3));
    assert_eq!(before.0[0]["size"], 16 << 20);
    assert_eq!(before.0[1]["size"], 2 << 20);
    assert_eq!(before.1[0]["namespaces"][0]["nsid"], 5);
    assert_eq!(
        before.1[0]["namespaces"][1]["uuid"],
        "5c1e6f1c-0000-4000-8000-0000000000aa"
    );
    assert_eq!(before.1[0]["hosts"][0], HOST);
    assert_eq!(before.1[1]["hosts"][0], "any");
    let table = server.ok(&["export", "list"]);
    assert!(
        table.contains(NQN) && table.contains("served") && table.contains("nqn.other"),
        "{table}"
    );
    assert!(server.terminate().success());
    assert!(
        !place.path("c.sock").exists(),
        "the socket goes with the server"
    );
    assert!(place.text().starts_with("# ours\n"));

    let server = place.start();
    assert_eq!(
        (
            server.json(&["disk", "list"]),
            server.json(&["export", "list"]),
            "state".to_owned()
        ),
        before
    );
    server.ok(&["host", "deny", "nqn.other", "any"]);
    server.ok(&["export", "remove", NQN, "--nsid", "5"]);
    server.ok(&["export", "remove", "nqn.other"]);
    server.ok(&["disk", "remove", "o"]);
    server.ok(&["disk", "remove", "f"]);
    assert_eq!(
        fs::metadata(place.path("f.img"))
            .expect("the data stays")
            .len(),
        16 << 20
    );
    let exports = server.json(&["export", "list"]);
    assert_eq!(
        (
            exports.as_array().map(Vec::len),
            exports[0]["namespaces"].as_array().map(Vec::len)
        ),
        (Some(1), Some(1))
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    let before = place.text();
    fs::write(place.path("there.img"), vec![0; 8192]).expect("write");
    for (args, told) in [
        (&["disk", "remove", "nope"][..], "no such disk \"nope\""),
        (&["disk", "resize", "nope", "1G"], "no such disk \"nope\""),
        (
            &["disk", "remove", "ram"],
            "is exported: `wirepool export remove nqn.2026-01.org.example:a --nsid 1` first",
        ),
        (
            &["disk", "resize", "ram", "1M"],
            "--shrink does it nevertheless",
        ),
        (
            &["disk", "resize", "ram", "16777217"],
            "must be a multiple of its block size (4096)",
        ),
        (
            &["disk", "add", "ram", "--mem", "1M"],
            "there is a disk named \"ram\" already",
        ),
        (
            &["disk", "add", "a b", "--mem", "1M"],
            "expected a name of letters",
        ),
        (
            &["disk", "add", "x", "--mem", "1K"],
            "expected a size from 4K",
        ),
        (
            &["disk", "add", "x", "--file", "nowhere.img"],
            "nowhere.img does not exist",
        ),
        (
            &["disk", "add", "x", "--file", "there.img", "--size", "1M"],
            "exists already and has 8 KiB",
        ),
        (
            &["disk", "add", "x", "--block", "/dev/null"],
            "neither a file nor a block device",
        ),
        (&["export", "add", NQN, "nope"], "no such disk \"nope\""),
        (
            &["export", "add", "nqn.b", "ram"],
            "is exported already, as nqn.2026-01.org.example:a namespace 1",
        ),
        (
            &["export", "add", "iqn.b", "ram"],
            "\"iqn.b\" does not name a subsystem",
        ),
        (
            &["export", "remove", "nqn.nope"],
            "no such subsystem nqn.nope",
        ),
        (
            &["export", "remove", NQN, "--nsid", "9"],
            "has no namespace 9",
        ),
        (&["host", "allow", NQN, HOST], "any host may connect"),
        (&["host", "deny", NQN, HOST], "any host may connect"),
        (
            &["host", "allow", "nqn.nope", "any"],
            "no such subsystem nqn.nope",
        ),
        (
            &["host", "deny", "nqn.nope", "any"],
            "no such subsystem nqn.nope",
        ),
        (&["session", "show", "9"], "no such session 9"),
        (&["session", "end", "9"], "no such session 9"),
    ] {
        let said = server.refused(args);
        assert!(
            said.starts_with("wirepool: ") && said.contains(told),
            "{args:?}: {said}"
        );
    }
    for args in [
        &["disk", "add", "x", "--mem", "4GB"][..],
        &["disk", "add", "x"],
        &["disk", "add", "x", "--mem", "1M", "--size", "1M"],
        &["disk", "add", "x", "--mem", "1M", "--block-size", "1024"],
        &["disk", "resize", "ram", "big"],
        &["export", "add", NQN, "ram", "--uuid", "one"],
        &["session", "show", "one"],
        &["nonsense"],
    ] {
        let output = server.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
    assert_eq!(place.text(), before, "nothing was changed");
}

#[test]
fn without_a_server_people_are_told_how_to_get_one() {
    let place = Place::new(BASE);
    let output = run(&place.path(""), &["status"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("no server answers on") && said.contains("wirepool serve --config FILE"),
        "{said}"
    );
}

#[test]
fn a_change_that_cannot_be_written_is_undone() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    let before = (
        place.text(),
        server.json(&["disk", "list"]),
        server.json(&["export", "list"]),
    );
    fs::create_dir(place.path(".w.toml.new")).expect("in the way of the new file");
    for args in [
        &["disk", "add", "x", "--file", "x.img", "--size", "1M"][..],
        &["disk", "resize", "ram", "32M"],
        &["export", "remove", NQN],
        &["host", "deny", NQN, "any"],
        &["host", "deny", NQN, "any"],
    ] {
        let said = server.refused(args);
        assert!(
            said.contains("cannot write the configuration"),
            "{args:?}: {said}"
        );
    }
    assert!(
        !place.path("x.img").exists(),
        "a file made for a disk that is not to be"
    );
    assert_eq!(
        (
            place.text(),
            server.json(&["disk", "list"]),
            server.json(&["export", "list"])
        ),
        before
    );
    fs::remove_dir(place.path(".w.toml.new")).expect("out of the way");
    server.ok(&["disk", "resize", "ram", "32M"]);
}

#[test]
fn a_file_edited_by_hand_is_not_overwritten() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    let edited = place.text() + "# by hand\n";
    fs::write(place.config(), &edited).expect("write");
    let said = server.refused(&["disk", "add", "x", "--mem", "1M"]);
    assert!(
        said.contains("was changed since the server read it"),
        "{said}"
    );
    assert_eq!(place.text(), edited);
}

#[test]
fn sessions_tell_the_truth() {
    let config = format!("{BASE}{RAM}").replace("shards = 2", "shards = 2\ncongestion = \"reno\"");
    let place = Place::new(&config);
    let server = place.start();
    assert_eq!(server.ok(&["session", "list"]), "no sessions\n");
    let config = server.client();
    client(async move {
        let mut config = config;
        (config.io_queues, config.queue_depth) = (2, 16);
        config.offer.digests = nvmf::wire::pdu::Digests {
            header: true,
            data: true,
        };
        let controller = connect(config).await;
        let namespace = controller
            .namespace(nvmf::wire::command::Nsid(1))
            .await
            .expect("served");
        for block in 0..10 {
            let (read, _) = namespace.read(block, io::pool().alloc(4096).await).await;
            read.expect("read");
        }
        let list = server.json(&["session", "list"]);
        let s = &list[0];
        assert_eq!((&s["client"], &s["export"]), (&HOST.into(), &NQN.into()));
        assert_eq!(
            (s["header_digest"].as_bool(), s["data_digest"].as_bool()),
            (Some(true), Some(true))
        );
        assert_eq!(
            (s["io_queues"].as_u64(), s["reconnects"].as_u64()),
            (Some(2), Some(0))
        );
        let number = s["id"].clone();
        let id = number.to_string();
        let show = server.wait_for(&["session", "show", &id], |s| {
            s["queues"][1]["mss"].as_u64() > Some(0)
        });
        assert_eq!(show["queues"].as_array().map(Vec::len), Some(3));
        assert!(show["queues"][1]["path_mtu"].as_u64() > Some(0), "{show}");
        for queue in show["queues"].as_array().expect("queues") {
            assert_eq!(queue["congestion"], "reno", "{show}");
        }
        let reads = show["latencies"]
            .as_array()
            .and_then(|l| l.iter().find(|l| l["command"] == "read"))
            .expect("reads");
        assert_eq!(reads["count"], 10);
        assert!(reads["p50_us"].as_u64() <= reads["p999_us"].as_u64());
        let text = server.ok(&["session", "show", &id]);
        assert!(
            text.contains("header digest  yes") && text.contains("PATH MTU"),
            "{text}"
        );
        server.ok(&["session", "end", &id]);
        server.wait_for(&["session", "list"], |l| {
            l.as_array()
                .is_some_and(|l| l.iter().all(|s| s["id"] != number))
        });
    });
}
