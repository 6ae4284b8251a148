//! Start and end of the server, and its state afterwards.

use crate::common::{BASE, NQN, Place, RAM, client, connect, run};
use nvmf::wire::command::{Nsid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::fabrics::{Connect, ConnectAttributes, ConnectData};
use nvmf::wire::opcode::io as opcode;
use nvmf::wire::pdu::Pdu;
use nvmf::wire::reservation::{AcquireAction, PersistChange, RegisterAction, ReservationType};
use nvmf::wire::status::Status;
use nvmf_initiator::raw::RawConnection;
use nvmf_initiator::{Config, Controller, Error, Offer, WriteOptions};
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const FILE: &str = r#"
[[disk]]
name = "f"
kind = "file"
path = "f.img"
[[subsystem]]
nqn = "nqn.2026-01.org.example:a"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "f"
"#;

fn with_file(config: &str, len: u64) -> Place {
    let place = Place::new(config);
    fs::File::create(place.path("f.img"))
        .and_then(|f| f.set_len(len))
        .expect("make the disk");
    place
}

#[test]
fn a_missing_disk_is_served_once_it_appears() {
    let place = Place::new(&format!("{BASE}{}", FILE.replace("f.img", "later/f.img")));
    let server = place.start();
    let held = server.json(&["status"]);
    assert_eq!(held["disks"][0]["state"], "held");
    assert_eq!(held["exports"][0]["namespaces"][0]["state"], "held");
    let told = held["warnings"][0].as_str().expect("a warning");
    assert!(
        told.contains(
            "later/f.img does not exist; nqn.2026-01.org.example:a namespace 1 waits for this disk"
        ),
        "{told}"
    );
    server.ok(&["disk", "add", "other", "--mem", "1M"]);
    fs::create_dir(place.path("later")).expect("mkdir");
    fs::File::create(place.path("later/f.img"))
        .and_then(|f| f.set_len(1 << 20))
        .expect("the disk is back");
    let served = server.wait_for(&["status"], |s| {
        s["exports"][0]["namespaces"][0]["state"] == "served"
    });
    assert_eq!(served["disks"][0]["size"], 1 << 20);
    assert_eq!(served["warnings"].as_array().map(Vec::len), Some(0));
}

/// Regression: a host that connected while the only disk of a pool was missing after a restart found a subsystem without its namespace,
/// which Linux takes for the end of the disk.
#[test]
fn a_host_waits_for_a_pool_whose_disk_comes_late() {
    let place = Place::new(&BASE.replace("shards = 2", "shards = 2\ndisk_wait_s = 3600"));
    let server = place.start();
    server.ok(&["pool", "create", "tank", "p.img", "--size", "256M"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "16M"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
    assert!(server.terminate().success());
    fs::rename(place.path("p.img"), place.path("away")).expect("the disk goes");

    let server = place.start();
    server.wait_for(&["pool", "status"], |pools| pools[0]["state"] == "held");
    let config = server.client();
    let (away, back) = (place.path("away"), place.path("p.img"));
    client(async move {
        let busy = Err(Error::Refused(Status::CONNECT_CONTROLLER_BUSY));
        let refused = Controller::connect(config.clone()).await.map(drop);
        assert_eq!(refused, busy);
        fs::rename(away, back).expect("the disk is back");
        let controller = loop {
            match Controller::connect(config.clone()).await {
                Ok(controller) => break controller,
                Err(e) => assert_eq!(Err(e), busy),
            }
            io::time::sleep(Duration::from_millis(100)).await;
        };
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        let data = Arc::new(io::pool().alloc(4096).await);
        let written = namespace.write(0, data, WriteOptions::default()).await;
        written.expect("written");
        controller.shutdown().await;
    });
    assert!(server.terminate().success());
}

#[test]
fn what_cannot_start_says_why() {
    let place = Place::new("[server]\nshard = 2\n");
    assert!(
        place
            .serve_fails()
            .contains("w.toml:2:1: server.shard: unknown field `shard`")
    );
    fs::remove_file(place.config()).expect("remove");
    assert!(
        place
            .serve_fails()
            .contains("cannot read the configuration")
    );
}

/// A server that was just killed may hold its state directory, its control socket and its ports for a moment.
#[test]
fn a_start_waits_for_the_server_before_it() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let first = place.start();
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| place.start());
        place.wait_for_log("uses the state directory");
        first.signal("KILL");
        second.join().expect("it starts")
    });
    drop(first);
    assert!(second.terminate().success());
}

#[test]
fn each_listening_address_is_waited_for() {
    let settings = [
        ("[nvmf] listen", "[nvmf]\nlisten = [\"ADDR\"]\n"),
        (
            "[nvmf] discovery",
            "[nvmf]\nlisten = [\"127.0.0.1:0\"]\ndiscovery = [\"ADDR\"]\n",
        ),
        (
            "[iscsi] listen",
            "[nvmf]\nlisten = [\"127.0.0.1:0\"]\n[iscsi]\nlisten = [\"ADDR\"]\n",
        ),
        (
            "[metrics] listen",
            "[nvmf]\nlisten = [\"127.0.0.1:0\"]\n[metrics]\nlisten = \"ADDR\"\n",
        ),
    ];
    for (setting, text) in settings {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("bound").to_string();
        let text = text.replace("ADDR", &address);
        let place = Place::new(&format!("[server]\ncontrol = \"c.sock\"\n{text}"));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| place.start());
            let said = place.wait_for_log(&format!("cannot listen on {address}"));
            assert!(said.contains(setting), "{said}");
            drop(taken);
            assert!(server.join().expect("it starts").terminate().success());
        });
    }
}

#[test]
fn who_holds_an_address_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let text = BASE.replace("127.0.0.1:0", &address);
    let said = Place::new(&text).serve_fails();
    let holder = format!("the address is in use by process {} (", std::process::id());
    assert!(said.contains(&address) && said.contains(&holder), "{said}");
    assert!(
        said.contains("change [nvmf] listen in the configuration"),
        "{said}"
    );
    drop(taken);
}

/// A mistyped address of `listen` is seen beside the addresses that the machine has. A long list is cut, so that none of them is certain.
#[test]
fn an_address_of_another_machine_is_told_with_those_of_this_one() {
    let place = Place::new(&BASE.replace("127.0.0.1:0", "203.0.113.7:4420"));
    let output = run(
        place.path("").as_path(),
        &["serve", "--check", "--config", "w.toml"],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("is not on this machine, which has"), "{text}");
}

#[test]
fn two_servers_do_not_share() {
    let place = with_file(&format!("{BASE}{FILE}"), 1 << 20);
    let server = place.start();
    let said = place.serve_fails();
    assert!(
        said.contains("another wirepool server uses the state directory"),
        "{said}"
    );
    // Another configuration with the same socket, and one with the same disk.
    let other = Place::new(&BASE.replace("c.sock", &place.path("c.sock").display().to_string()));
    let said = other.serve_fails();
    assert!(
        said.contains("another wirepool server answers on")
            && said.contains("set [server] control of this one"),
        "{said}"
    );
    // A socket of the command line: the setting of the file has no effect, so changing it would not help.
    let other = Place::new(BASE);
    let control = place.path("c.sock").display().to_string();
    let config = other.path("w.toml").display().to_string();
    let output = run(
        place.path("").as_path(),
        &["--control", &control, "serve", "--config", &config],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(
        said.contains("WIREPOOL_CONTROL") && !said.contains("set [server] control"),
        "{said}"
    );
    let other = Place::new(&format!(
        "{BASE}{}",
        FILE.replace("f.img", &place.path("f.img").display().to_string())
    ));
    let second = other.start();
    let status = second.wait_for(&["status"], |s| s["disks"][0]["state"] == "held");
    let reason = status["disks"][0]["reason"].as_str().expect("held");
    assert!(reason.contains("f.img is in use"), "{reason}");
    assert!(
        second
            .refused(&[
                "disk",
                "add",
                "again",
                "--file",
                &place.path("f.img").display().to_string()
            ])
            .contains("the disk \"f\" has this path already")
    );
    assert!(server.terminate().success());
    second.wait_for(&["disk", "list"], |d| d[0]["state"] == "online");
}

#[test]
fn a_killed_server_starts_again_as_it_was() {
    let place = with_file(&format!("{BASE}{FILE}"), 1 << 20);
    let server = place.start();
    server.ok(&["disk", "add", "m", "--mem", "1M"]);
    server.ok(&["export", "add", "nqn.b", "m"]);
    let before = (
        server.json(&["disk", "list"]),
        server.json(&["export", "list"]),
    );
    server.signal("KILL");
    drop(server);
    assert!(
        place.path("c.sock").exists(),
        "the dead server's socket is still there"
    );
    fs::write(place.path(".w.toml.new"), "half a fi").expect("what a crash in a change leaves");
    let server = place.start();
    assert_eq!(
        (
            server.json(&["disk", "list"]),
            server.json(&["export", "list"])
        ),
        before
    );
}

#[test]
fn sigterm_under_load_ends_well_and_loses_nothing() {
    let place = with_file(&format!("{BASE}{FILE}"), 4 << 20);
    let server = place.start();
    let config = server.client();
    let written = client(async move {
        let mut config = config;
        config.reconnect = nvmf_initiator::Reconnect::NEVER;
        let controller = connect(config).await;
        let namespace = Rc::new(controller.namespace(Nsid(1)).await.expect("served"));
        let (written, failed) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(false)));
        let task = {
            let (namespace, written, failed) = (namespace.clone(), written.clone(), failed.clone());
            io::spawn(async move {
                loop {
                    let next = written.get() + 1;
                    let mut buf = io::pool().alloc(4096).await;
                    buf.fill(0);
                    buf[..8].copy_from_slice(&next.to_le_bytes());
                    let at = next % 1024;
                    if namespace
                        .write(at, Arc::new(buf), WriteOptions::default())
                        .await
                        .is_err()
                    {
                        failed.set(true);
                        return;
                    }
                    written.set(next);
                }
            })
        };
        while written.get() < 200 {
            io::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        server.signal("TERM");
        task.await;
        assert!(failed.get());
        let ended = io::blocking(move || server.wait()).await.expect("wait");
        assert_eq!(ended.code(), Some(0));
        written.get()
    });
    let bytes = fs::read(place.path("f.img")).expect("read");
    for n in written.saturating_sub(1023).max(1)..=written {
        let at = (n % 1024) as usize * 4096;
        let stored = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        // The write after the last acknowledged one may be there too.
        assert!(
            stored == n || stored == n + 1024 && n + 1024 == written + 1,
            "block {}: {stored}, not {n}",
            n % 1024
        );
    }
    let log = fs::read_to_string(place.path("log")).expect("read");
    assert!(log.contains("drained: all disks are flushed"), "{log}");
}

#[test]
fn reservations_outlive_the_server() {
    let place = with_file(&format!("{BASE}{FILE}"), 1 << 20);
    let server = place.start();
    let config = server.client();
    client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        namespace
            .reservation_register(RegisterAction::Register, None, 0xabc, PersistChange::On)
            .await
            .expect("register");
        let acquire = namespace.reservation_acquire(
            AcquireAction::Acquire,
            ReservationType::WriteExclusive,
            0xabc,
            0,
        );
        acquire.await.expect("acquire");
    });
    server.signal("KILL");
    drop(server);
    let server = place.start();
    let config = server.client();
    let report = client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        namespace.reservation_report(true).await.expect("report")
    });
    assert_eq!(
        (report.kind, report.persist),
        (Some(ReservationType::WriteExclusive), true)
    );
    assert_eq!(
        report
            .registrants
            .iter()
            .map(|r| (r.key, r.holder))
            .collect::<Vec<_>>(),
        [(0xabc, true)]
    );
    server.ok(&["export", "remove", crate::common::NQN]);
    assert_eq!(
        fs::read_dir(place.path("w.state/reservations"))
            .expect("list")
            .count(),
        0,
        "forgotten with the export"
    );
}

#[test]
fn ram_disks_are_served_over_two_listeners() {
    let place = Place::new(&format!(
        "{}{RAM}",
        BASE.replace("\"127.0.0.1:0\"", "\"127.0.0.1:0\", \"[::1]:0\"")
    ));
    let server = place.start();
    let (first, second) = (server.client(), server.client());
    let v6 = server.io[1];
    assert!(v6.is_ipv6());
    client(async move {
        let a = connect(first).await;
        let b = connect(nvmf_initiator::Config { addr: v6, ..second }).await;
        let write = a.namespace(Nsid(1)).await.expect("served");
        let mut buf = io::pool().alloc(4096).await;
        buf.fill(0x5a);
        write
            .write(3, Arc::new(buf), WriteOptions::default())
            .await
            .expect("write");
        let (read, buf) = b
            .namespace(Nsid(1))
            .await
            .expect("served")
            .read(3, io::pool().alloc(4096).await)
            .await;
        read.expect("read");
        assert!(buf.iter().all(|b| *b == 0x5a));
    });
}

/// Opens a queue of its own, asks to write, and never sends the data.
async fn write_without_data(config: &Config, cntlid: u16) -> RawConnection {
    let mut raw = RawConnection::open(config.addr).await.expect("open");
    raw.initialize(&Offer::default()).await.expect("initialize");
    let queue = Connect {
        record_format: 0,
        qid: 1,
        sqsize: 31,
        attributes: ConnectAttributes::empty(),
        kato_ms: 0,
    };
    let who = ConnectData::new(config.host_id, cntlid, &config.subnqn, &config.hostnqn);
    let cqe = raw.connect(&queue, &who).await.expect("connect");
    assert!(cqe.status().is_success(), "{cqe:?}");
    let mut write = Sqe::new(opcode::WRITE, Nsid(1));
    write.set_slba(0);
    write.cdw12.set(16 - 1);
    write.sgl = SglDescriptor::new(Sgl::Transport { length: 16 * 4096 });
    raw.capsule(&write, &[]).await.expect("send");
    let answer = raw.receive().await.expect("an R2T");
    assert!(matches!(answer.frame.pdu, Pdu::R2t(_)), "{answer:?}");
    raw
}

#[test]
fn a_second_signal_ends_a_drain_at_once_and_says_so() {
    let place = with_file(&format!("{BASE}{FILE}"), 1 << 20);
    let server = place.start();
    let config = Config {
        io_queues: 0,
        ..server.client()
    };
    let log = place.path("log");
    let code = client(async move {
        let controller = connect(config.clone()).await;
        let raw = write_without_data(&config, controller.info().cntlid).await;
        server.signal("TERM");
        while !fs::read_to_string(&log).expect("read").contains("draining") {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        server.signal("TERM");
        let ended = io::blocking(move || server.wait()).await.expect("wait");
        drop(raw);
        ended.code()
    });
    assert_eq!(code, Some(1));
    let log = fs::read_to_string(place.path("log")).expect("read");
    assert!(log.contains("terminated by a second signal"), "{log}");
    assert!(!log.contains("drained"), "{log}");
}

/// Regression: one address that the machine did not have (no carrier, an address that moves) ended the whole server. The server has a
/// network of its own here, which gets the address later.
#[test]
fn an_absent_address_is_served_once_the_machine_has_it() {
    let may = Command::new("unshare").args(["--net", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("SKIPPED: network namespaces cannot be made here");
        return;
    }
    let config = BASE.replace("127.0.0.1:0", "192.0.2.7:4420");
    let metrics = "[metrics]\nlisten = \"192.0.2.7:9090\"\n";
    let place = Place::new(&(config + metrics));
    // The kernel refuses addresses only after the first one of a namespace is up.
    let run = "ip link set lo up && exec \"$0\" \"$@\"";
    let server = place.start_after(&format!("exec unshare --net sh -c '{run}' \"$0\" \"$@\""));
    assert!(server.io.is_empty(), "nothing is served");
    let absent = |s: &Value| {
        let warnings = s["warnings"].as_array().expect("a list");
        let told = |w: &&Value| {
            w.as_str()
                .is_some_and(|w| w.contains("is not on this machine"))
        };
        warnings.iter().filter(told).count()
    };
    server.wait_for(&["status"], |s| absent(s) == 2);
    server.in_its_network(&["ip", "address", "add", "192.0.2.7/32", "dev", "lo"]);
    server.wait_for(&["status"], |s| {
        absent(s) == 0 && s["listen"].as_array().is_some_and(|all| all.len() == 1)
    });
    let log = place.wait_for_log("the machine has the address");
    let told = log.matches("served as soon as the machine has it").count();
    assert!(told >= 2, "{log}");
    // A hangup ends a shell's programs, and ended the server.
    server.signal("HUP");
    place.wait_for_log("SIGHUP is ignored");
    assert!(server.terminate().success());
}

/// Regression: a damaged file of one protocol stopped the whole server, block exports included.
#[test]
fn a_damaged_identity_of_nfs_holds_back_nfs_only() {
    let nfs = "[nfs]\nlisten = [\"127.0.0.1:0\"]\nrpcbind = false\n";
    let place = Place::new(&(BASE.to_owned() + nfs));
    let server = place.start();
    assert_eq!(server.nfs.len(), 1);
    assert!(server.terminate().success());
    fs::write(place.path("w.state/nfs/identity"), "damaged").expect("written");
    let server = place.start();
    assert_eq!((server.io.len(), server.nfs.len()), (1, 0));
    let told = server.ok(&["status"]);
    assert!(
        told.contains("NFS is held back") && told.contains("w.state/nfs/identity"),
        "{told}"
    );
    assert!(server.terminate().success());
}
