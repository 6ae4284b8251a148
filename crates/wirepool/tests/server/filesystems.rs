//! Filesystems of a real server, mounted in the kernel: files, snapshots, restarts, kills, refusals.

use crate::common::{BASE, Place, Server};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Whether this machine can mount; prints a line if not.
pub(crate) fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let Err(e) = device else { return true };
    assert!(
        std::env::var_os("WIREPOOL_FUSE").is_none(),
        "WIREPOOL_FUSE is set, and /dev/fuse: {e}"
    );
    eprintln!("SKIPPED: /dev/fuse: {e}: this test of filesystems has not run");
    false
}

/// A server with the pool `tank`, the filesystem `tank/home`, and a directory to mount it at.
struct Home {
    place: Place,
    at: PathBuf,
}

impl Home {
    fn new() -> (Home, Server) {
        let place = Place::new(&format!("{BASE}[metrics]\nlisten = \"127.0.0.1:0\"\n"));
        let server = place.start();
        server.ok(&["pool", "create", "tank", "a.img", "--size", "256M"]);
        let told = server.ok(&["fs", "create", "tank/home", "--quota", "128M"]);
        assert_eq!(told, "filesystem tank/home: records of 128 KiB\n");
        let at = place.path("home");
        fs::create_dir(&at).expect("a mount point");
        (Home { place, at }, server)
    }

    fn at(&self) -> &str {
        self.at.to_str().expect("text")
    }

    fn mount(&self, server: &Server) {
        let told = server.ok(&["fs", "mount", "tank/home", self.at()]);
        assert_eq!(
            told,
            format!("filesystem tank/home mounted at {}\n", self.at())
        );
    }

    fn read(&self, name: &str) -> String {
        let path = self.at.join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

fn is_empty(at: &Path) -> bool {
    fs::read_dir(at).expect("a directory").next().is_none()
}

#[test]
fn files_snapshots_and_mounts_survive_restarts_and_kills() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    fs::create_dir(home.at.join("dir")).expect("created");
    fs::write(home.at.join("dir/file"), "one").expect("written");
    let missing = fs::metadata(home.at.join(".zfs/snapshot/monday"));
    assert!(missing.is_err());
    // data that only the kernel has belongs to the snapshot, which is there at once
    server.ok(&["snapshot", "create", "tank/home@monday"]);
    fs::write(home.at.join("dir/file"), "two").expect("written");
    assert_eq!(home.read(".zfs/snapshot/monday/dir/file"), "one");
    assert_eq!(home.read("dir/file"), "two");
    let names: Vec<_> = fs::read_dir(home.at.join(".zfs/snapshot"))
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["monday"]);
    let refused = fs::write(home.at.join(".zfs/snapshot/monday/dir/file"), "no");
    assert_eq!(
        refused.expect_err("refused").kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    let listed = server.json(&["fs", "list"]);
    assert_eq!(listed[0]["mount"]["state"], "online");
    assert_eq!(listed[0]["quota"], 128 << 20);

    assert!(server.terminate().success());
    assert!(is_empty(&home.at), "the mount is gone");
    let server = home.place.start();
    assert_eq!(home.read("dir/file"), "two");
    assert_eq!(home.read(".zfs/snapshot/monday/dir/file"), "one");

    let mut file = File::create(home.at.join("durable")).expect("created");
    file.write_all(b"three").expect("written");
    file.sync_all().expect("durable");
    drop(file);
    server.signal("KILL");
    server.wait();
    let dead = fs::read_dir(&home.at).map(drop);
    assert!(dead.is_err(), "the mount is dead");
    let server = home.place.start();
    assert_eq!(home.read("durable"), "three");
    assert_eq!(home.read("dir/file"), "two");
    let events = server.ok(&["pool", "events", "tank"]);
    assert!(
        events.contains("removed a dead mount of an earlier server"),
        "{events}"
    );

    server.ok(&["snapshot", "destroy", "tank/home@monday"]);
    let gone = fs::metadata(home.at.join(".zfs/snapshot/monday"));
    assert!(gone.is_err(), "it is gone at once");
    server.ok(&["fs", "unmount", home.at()]);
    assert!(is_empty(&home.at));
    assert!(!home.place.text().contains("[[mount]]"));
    server.ok(&["fs", "destroy", "-f", "tank/home"]);
    assert_eq!(server.json(&["fs", "list"]), serde_json::json!([]));
    assert!(server.terminate().success());
    home.place.inspect_sound(&["a.img"]);
}

#[test]
fn a_mounted_filesystem_keeps_its_name_and_its_pool() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    server.ok(&["snapshot", "create", "tank/home@a"]);
    let mounted = format!(
        "the filesystem \"tank/home\" is mounted at {}: `wirepool fs unmount tank/home` first",
        home.at()
    );
    for words in [
        &["fs", "destroy", "-rf", "tank/home"][..],
        &["fs", "rename", "tank/home", "tank/users"],
        &["fs", "rollback", "-f", "tank/home@a"],
        &["pool", "export", "tank"],
        &["pool", "destroy", "-f", "tank"],
    ] {
        let told = server.refused(words);
        assert!(told.contains(&mounted), "{words:?}: {told}");
    }
    let told = server.refused(&["fs", "mount", "tank/home", home.at()]);
    assert!(told.contains("is mounted already, at"), "{told}");

    let file = File::create(home.at.join("open")).expect("created");
    let told = server.refused(&["fs", "unmount", "tank/home"]);
    assert!(told.contains("busy"), "{told}");
    assert_eq!(server.json(&["fs", "list"])[0]["mount"]["open_files"], 1);
    server.ok(&["fs", "unmount", "--lazy", "tank/home"]);
    assert!(is_empty(&home.at));
    (&file).write_all(b"still there").expect("written");
    file.sync_all().expect("durable");
    let told = server.refused(&["fs", "rename", "tank/home", "tank/users"]);
    assert!(told.contains("in use: mounted at"), "{told}");
    // the kernel still holds changes back for the open file
    let told = server.refused(&["fs", "mount", "tank/home", home.at(), "-o", "shared"]);
    assert!(told.contains(", and not shared: unmount it"), "{told}");
    drop(file);
    // the kernel reports the last close later
    loop {
        let output = server.run(&["fs", "rename", "tank/home", "tank/users"]);
        if output.status.success() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.ok(&["fs", "mount", "tank/users", home.at(), "--read-only"]);
    assert_eq!(home.read("open"), "still there");
    assert!(fs::write(home.at.join("open"), "x").is_err());
    server.ok(&["fs", "unmount", "tank/users"]);
    server.ok(&["fs", "rollback", "-f", "tank/users@a"]);
    server.ok(&["clone", "tank/users@a", "tank/clone"]);
    server.ok(&["fs", "promote", "tank/clone"]);
    assert_eq!(server.json(&["fs", "list"])[1]["origin"], "tank/clone@a");
    assert!(server.terminate().success());
}

#[test]
fn bad_mount_points_are_refused_and_nothing_is_stored() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    let path = |name: &str| home.place.path(name).to_str().expect("text").to_owned();
    fs::write(path("file"), "x").expect("written");
    fs::create_dir(path("full")).expect("created");
    fs::write(path("full/file"), "x").expect("written");
    for (at, reason) in [
        ("missing", "no such directory"),
        ("file", "not a directory"),
        ("full", "not empty"),
    ] {
        let told = server.refused(&["fs", "mount", "tank/home", &path(at)]);
        assert!(told.contains(reason), "{told}");
    }
    let told = server.refused(&["fs", "mount", "tank/home"]);
    assert!(told.contains("the mount point is missing"), "{told}");
    home.mount(&server);
    server.ok(&["fs", "create", "tank/other"]);
    let told = server.refused(&["fs", "mount", "tank/other", home.at()]);
    assert!(told.contains("is mounted there already"), "{told}");
    assert_eq!(home.place.text().matches("[[mount]]").count(), 1);

    // a mount point that is gone holds back the mount, and nothing else
    assert!(server.terminate().success());
    fs::remove_dir(&home.at).expect("removed");
    let server = home.place.start();
    let held = server.json(&["fs", "list"]);
    assert_eq!(held[0]["mount"]["state"], "held");
    let status = server.ok(&["status"]);
    assert!(status.contains("is not mounted: mount point"), "{status}");
    fs::create_dir(&home.at).expect("created");
    server.wait_for(&["fs", "list"], |f| f[0]["mount"]["state"] == "online");
    assert!(server.terminate().success());
}

/// The kernel's options of the mount at a directory.
fn kernel_options(at: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("readable");
    let lines = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    let line = lines.into_iter().find(|l| Path::new(l[1]) == at);
    let options = line.expect("mounted")[3].split(',').map(str::to_owned);
    options.collect()
}

#[test]
fn options_of_a_mount_reach_the_kernel_and_the_next_start() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    let refused = server.run(&["fs", "mount", "tank/home", home.at(), "-o", "sudi"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("unknown mount option \"sudi\""), "{told}");
    let has = |word: &str| kernel_options(&home.at).iter().any(|o| o == word);

    home.mount(&server);
    assert!(has("nosuid") && has("nodev") && !has("noexec") && has("rw"));
    server.ok(&["fs", "unmount", "tank/home"]);
    // suid and dev are root's
    let (options, is_root) = match fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0) {
        true => ("suid,dev,noexec", true),
        false => ("noexec", false),
    };
    server.ok(&["fs", "mount", "tank/home", home.at(), "-o", options]);
    let script = home.at.join("script");
    fs::write(&script, "#!/bin/sh\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let is_as_asked = || has("noexec") && (has("nosuid") && has("nodev")) != is_root;
    assert!(is_as_asked());
    let executed = std::process::Command::new(&script).status();
    let denied = executed.expect_err("refused").kind();
    assert_eq!(denied, std::io::ErrorKind::PermissionDenied);
    assert_eq!(server.json(&["fs", "list"])[0]["mount"]["options"], options);

    assert!(server.terminate().success());
    let server = home.place.start();
    assert!(is_as_asked(), "{:?}", kernel_options(&home.at));
    assert!(server.terminate().success());
}

#[test]
fn a_mount_ended_by_another_program_is_named_and_can_be_mounted_again() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    fs::write(home.at.join("file"), "kept").expect("written");
    let done = std::process::Command::new("umount").arg(&home.at).status();
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: umount(8): the rest of this test has not run");
        return;
    }
    let held = server.wait_for(&["fs", "list"], |f| f[0]["mount"]["state"] == "held");
    let reason = held[0]["mount"]["reason"].as_str().expect("text");
    assert!(reason.contains("another program unmounted it"), "{reason}");
    server.ok(&["fs", "mount", "tank/home"]);
    assert_eq!(home.read("file"), "kept");
    assert!(server.terminate().success());
}

#[test]
fn open_files_do_not_hold_up_the_end_of_the_server() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    let mut file = File::create(home.at.join("open")).expect("created");
    file.write_all(b"before").expect("written");
    assert!(
        !server.terminate().success(),
        "it says that files were open"
    );
    assert!(is_empty(&home.at));
    drop(file);
    let server = home.place.start();
    assert_eq!(home.read("open"), "before");
    assert!(server.terminate().success());
}

#[test]
fn a_mount_has_metrics() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    fs::write(home.at.join("file"), "data").expect("written");
    let address = server.metrics.expect("a metrics port");
    let text = crate::metrics::scrape(address);
    for line in [
        "wirepool_filesystem_mounted{filesystem=\"tank/home\"} 1",
        "wirepool_filesystem_quota_bytes{filesystem=\"tank/home\"} 134217728",
        "wirepool_mount_operations_total{filesystem=\"tank/home\",operation=\"create\"} 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let latency = "wirepool_mount_latency_seconds{filesystem=\"tank/home\",operation=\"create\",percentile=\"50\"}";
    assert!(text.contains(latency), "{text}");
    assert!(server.terminate().success());
}

#[test]
fn differences_and_owners_are_rows_for_people_and_for_scripts() {
    if !can_mount() {
        return;
    }
    let (home, server) = Home::new();
    home.mount(&server);
    for name in ["kept", "changed", "gone", "old name"] {
        fs::write(home.at.join(name), "one").expect("written");
    }
    fs::create_dir(home.at.join("dir")).expect("created");
    server.ok(&["snapshot", "create", "tank/home@monday"]);
    fs::write(home.at.join("changed"), "longer").expect("written");
    fs::remove_file(home.at.join("gone")).expect("removed");
    fs::rename(home.at.join("old name"), home.at.join("dir/tab\there")).expect("renamed");
    fs::write(home.at.join("new\x1b[31m"), "x").expect("written");

    let diff = |args: &[&str]| {
        let told = server.ok(&[&["diff"], args].concat());
        let mut lines: Vec<String> = told.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let shown = [
        "+ /new\\0033[31m",
        "- /gone",
        "M /",
        "M /changed",
        "M /dir",
        "R /old\\0040name -> /dir/tab\\0011here",
    ];
    assert_eq!(diff(&["tank/home@monday"]), shown);
    let script: Vec<String> = shown
        .iter()
        .map(|line| line.replace(" -> ", " ").replace(' ', "\t"))
        .collect();
    assert_eq!(diff(&["-H", "tank/home@monday"]), script);
    assert!(diff(&["-FH", "tank/home@monday"]).contains(&"M\tF\t/changed".to_owned()));
    let json = server.json(&["diff", "-H", "tank/home@monday"]);
    assert_eq!(json.as_array().expect("a list").len(), shown.len());
    server.ok(&["snapshot", "create", "tank/home@tuesday"]);
    fs::write(home.at.join("later"), "x").expect("written");
    assert_eq!(diff(&["tank/home@monday", "tank/home@tuesday"]), shown);
    let told = server.refused(&["diff", "tank/home@tuesday", "tank/home@monday"]);
    assert!(told.contains("exchange them"), "{told}");
    let names = server.json(&["snapshot", "list"]);
    assert_eq!(
        names.as_array().expect("a list").len(),
        2,
        "no snapshot is left behind"
    );

    let rows = server.ok(&["fs", "userspace", "-Hnp", "tank/home"]);
    for row in rows.lines() {
        let columns: Vec<&str> = row.split('\t').collect();
        assert_eq!(columns.len(), 4, "{rows:?}");
        assert_eq!((columns[0], columns[3]), ("POSIX User", "none"));
    }
    assert!(!rows.is_empty());
    assert!(server.terminate().success());
}
