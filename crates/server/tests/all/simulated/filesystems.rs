//! Filesystems of a server: users, snapshots, power cuts, refusals.

use crate::simulated::fixture::{disk, machine, pool, serve_new, start, volume};
use backend::file::{
    Access, Caller, FileBackend, FileError, Handle, IfExists, Name, NewFile, NewKind,
    SetAttributes, Stability, WriteAt,
};
use io::sim::{Sim, SimConfig};
use server::api::{
    CloneSnapshot, CreateFilesystem, CreateSnapshot, Dataset, DestroyFilesystem, DestroyPool,
    DestroySnapshot, DestroyVolume, DiffFilesystem, ExportNvme, GetProperties, ListOwnerSpace,
    ListSnapshots, MountFilesystem, OwnerKind, RenameFilesystem, RollbackFilesystem, SetProperty,
    UnmountFilesystem,
};
use server::config::MountFlags;
use server::{Error, Server};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// The configuration of [`make`]'s pool.
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b"]
"#;

async fn make(server: &Rc<Server>) {
    server.create_pool(pool(&["/a", "/b"])).await.expect("pool");
    let made = server.create_filesystem(filesystem("tank/home")).await;
    let made = made.expect("filesystem");
    assert_eq!((made.record_size, made.mount), (128 << 10, None));
    assert!(made.available > 0);
}

fn filesystem(name: &str) -> CreateFilesystem {
    CreateFilesystem {
        name: name.into(),
        ..CreateFilesystem::default()
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn take(name: &str) -> CreateSnapshot {
    CreateSnapshot {
        name: name.into(),
        recursive: false,
    }
}

/// Writes a new file.
async fn write(files: &impl FileBackend, called: &str, data: &[u8]) {
    let new = NewFile {
        kind: NewKind::File,
        mode: 0o644,
        umask: None,
        acl: None,
    };
    let (root, caller) = (files.root(), Caller::root());
    let (fails, cached) = (IfExists::Fail, Stability::Cached);
    let created = files.create(&caller, root, &name(called), new, fails, cached);
    let file = created.await.expect("created").value.object.handle;
    let hold = files.open(&caller, file, Access::WRITE).await;
    let mut buffer = io::pool().alloc(data.len()).await;
    buffer.copy_from_slice(data);
    let durable = Stability::Durable;
    let written = files.write(&caller, file, WriteAt::Offset(0), buffer.into(), durable);
    written.await.expect("written");
    drop(hold);
}

/// The object of a path below the root.
async fn walk(files: &impl FileBackend, path: &str) -> Result<Handle, FileError> {
    let mut at = files.root();
    for part in path.split('/') {
        at = files.lookup(&Caller::root(), at, &name(part)).await?.handle;
    }
    Ok(at)
}

async fn read(files: &impl FileBackend, path: &str) -> Result<Vec<u8>, FileError> {
    let file = walk(files, path).await?;
    let read = files.read(file, 0, 1 << 16).await?;
    let mut bytes = vec![0; read.bytes.len()];
    read.bytes.copy_to(&mut bytes);
    Ok(bytes)
}

#[test]
fn snapshots_are_below_the_root_at_once_and_files_survive_a_power_cut() {
    Sim::new(21, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let user = server.use_filesystem("tank/home", "used by a test".into());
            let user = user.await.expect("open");
            let files = user.files();
            write(&files, "first", b"one").await;
            let missing = walk(&files, ".zfs/snapshot/monday").await;
            assert!(matches!(missing, Err(FileError::NotFound)));
            let snapshots = walk(&files, ".zfs/snapshot").await.expect("there");
            assert!(files.is_volatile(snapshots) && !files.is_volatile(files.root()));
            let taken = server.create_snapshot(take("tank/home@monday")).await;
            assert_eq!(taken.expect("taken").size, 0);
            write(&files, "second", b"two").await;
            let old = read(&files, ".zfs/snapshot/monday/first").await;
            assert_eq!(old.expect("read"), b"one");
            let newer = read(&files, ".zfs/snapshot/monday/second").await;
            assert!(matches!(newer, Err(FileError::NotFound)));

            let other = server.use_filesystem("tank/home", "used twice".into());
            let other = other.await.expect("open");
            let seen = read(&other.files(), "second").await;
            assert_eq!(seen.expect("the users share it"), b"two");
            let clone = CloneSnapshot {
                snapshot: "tank/home@monday".into(),
                clone: "tank/clone".into(),
            };
            match server.clone_snapshot(clone).await.expect("cloned") {
                Dataset::Filesystem(f) => assert_eq!(f.origin.as_deref(), Some("tank/home@monday")),
                Dataset::Volume(v) => panic!("{v:?}"),
            }
            let clone = server.use_filesystem("tank/clone", "used by a test".into());
            let clone = clone.await.expect("open");
            write(&clone.files(), "third", b"three").await;
            std::mem::forget((user, other, clone));
        });
        serving.await.expect("it has power");
        node.power_cut();
        node.power_on();

        let serving = node.spawn(async {
            let server = start(SAVED).await;
            let names: Vec<String> = server.filesystems().into_iter().map(|f| f.name).collect();
            assert_eq!(names, ["tank/clone", "tank/home"]);
            assert!(server.volumes().is_empty());
            let user = server.use_filesystem("tank/home", "used by a test".into());
            let user = user.await.expect("open");
            for (path, data) in [
                ("first", &b"one"[..]),
                ("second", b"two"),
                (".zfs/snapshot/monday/first", b"one"),
            ] {
                assert_eq!(read(&user.files(), path).await.expect(path), data, "{path}");
            }
            let clone = server.use_filesystem("tank/clone", "used by a test".into());
            let clone = clone.await.expect("open");
            let third = read(&clone.files(), "third").await;
            assert_eq!(third.expect("read"), b"three");
            drop((user, clone));
            assert_eq!(server.drain().await, Vec::<String>::new());
        });
        serving.await.expect("it serves again");
    });
}

/// The message of a refusal.
fn refusal<T>(result: server::Result<T>) -> String {
    match result {
        Ok(_) => panic!("not refused"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_filesystem_in_use_is_neither_destroyed_nor_renamed_nor_rolled_back() {
    Sim::new(22, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let user = server.use_filesystem("tank/home", "mounted at /mnt/home".into());
            let user = user.await.expect("open");
            server
                .create_snapshot(take("tank/home@a"))
                .await
                .expect("taken");
            write(&user.files(), "later", b"lost").await;
            let destroy = |recursive| DestroyFilesystem {
                name: "tank/home".into(),
                force: true,
                recursive,
            };
            let rename = || RenameFilesystem {
                name: "tank/home".into(),
                new: "tank/users".into(),
            };
            let rollback = || RollbackFilesystem {
                snapshot: "tank/home@a".into(),
                force: true,
            };
            for text in [
                refusal(server.destroy_filesystem(destroy(true)).await),
                refusal(server.rename_filesystem(rename()).await),
                refusal(server.rollback_filesystem(rollback()).await),
            ] {
                assert!(text.contains("in use: mounted at /mnt/home"), "{text}");
            }
            drop(user);
            server.rollback_filesystem(rollback()).await.expect("back");
            server.rename_filesystem(rename()).await.expect("renamed");
            let user = server.use_filesystem("tank/users", "used by a test".into());
            let user = user.await.expect("open");
            let later = read(&user.files(), "later").await;
            assert!(matches!(later, Err(FileError::NotFound)), "{later:?}");
            drop(user);
            let mut destroy = destroy(false);
            destroy.name = "tank/users".into();
            let text = refusal(server.destroy_filesystem(destroy.clone()).await);
            assert!(text.contains("destroy -r -f"), "{text}");
            destroy.recursive = true;
            server.destroy_filesystem(destroy).await.expect("destroyed");
            assert!(server.filesystems().is_empty());
            let listed = server.list_snapshots(ListSnapshots::default()).await;
            assert_eq!(listed.expect("listed"), []);
        });
        serving.await.expect("it has power");
    });
}

#[test]
fn volumes_and_filesystems_are_not_confused() {
    Sim::new(23, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let made = server.create_volume(volume("tank/vm1", 1 << 20)).await;
            made.expect("a volume");
            assert_eq!((server.volumes().len(), server.filesystems().len()), (1, 1));
            let destroy = DestroyVolume {
                name: "tank/home".into(),
                force: true,
                recursive: false,
            };
            let text = refusal(server.destroy_volume(destroy).await);
            assert!(text.contains("\"tank/home\" is a filesystem"), "{text}");
            let export = ExportNvme {
                disk: "tank/home".into(),
                nqn: None,
                hosts: vec!["any".into()],
                transports: Vec::new(),
            };
            let text = refusal(server.export_nvme(export).await);
            assert!(text.contains("is a filesystem"), "{text}");
            let destroy = DestroyFilesystem {
                name: "tank/vm1".into(),
                force: true,
                recursive: false,
            };
            let text = refusal(server.destroy_filesystem(destroy).await);
            assert!(text.contains("\"tank/vm1\" is a volume"), "{text}");
            let mount = |name: &str| MountFilesystem {
                name: name.into(),
                at: Some("/mnt".into()),
                options: MountFlags::default(),
            };
            let text = refusal(server.mount_filesystem(mount("tank/vm1")).await);
            assert!(text.contains("is a volume"), "{text}");
            let text = refusal(server.mount_filesystem(mount("tank/no")).await);
            assert!(text.contains("no such filesystem"), "{text}");
            let unmount = UnmountFilesystem {
                name: "tank/home".into(),
                lazy: false,
                force: false,
            };
            let text = refusal(server.unmount_filesystem(unmount).await);
            assert!(text.contains("is not mounted"), "{text}");
            let again = server.create_filesystem(filesystem("tank/vm1")).await;
            assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
            let missing = server.create_snapshot(take("tank/no@a")).await;
            assert!(matches!(missing, Err(Error::NoDataset(_))), "{missing:?}");

            for name in ["tank/vm1@a", "tank/home@a"] {
                server.create_snapshot(take(name)).await.expect("taken");
            }
            let listed = server.list_snapshots(ListSnapshots::default()).await;
            let listed = listed.expect("listed").into_iter().map(|s| s.name);
            assert_eq!(listed.collect::<Vec<_>>(), ["tank/vm1@a", "tank/home@a"]);
            let destroy = DestroySnapshot {
                name: "tank/home@a".into(),
                recursive: false,
            };
            server.destroy_snapshot(destroy).await.expect("destroyed");
        });
        serving.await.expect("it has power");
    });
}

/// `snapshot create -r tank@x` was refused, because the pool itself is no dataset.
#[test]
fn a_recursive_snapshot_may_name_the_pool() {
    Sim::new(23, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let made = server.create_volume(volume("tank/vm1", 1 << 20)).await;
            made.expect("a volume");
            let all = CreateSnapshot {
                recursive: true,
                ..take("tank@all")
            };
            let taken = server.create_snapshot(all.clone()).await.expect("taken");
            assert_eq!(taken.name, "tank/home@all");
            let again = server.create_snapshot(all).await;
            assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
            let names = async || {
                let listed = server.list_snapshots(ListSnapshots::default()).await;
                let names = listed.expect("listed").into_iter().map(|s| s.name);
                names.collect::<BTreeSet<_>>()
            };
            let both = ["tank/home@all".to_owned(), "tank/vm1@all".to_owned()];
            assert_eq!(names().await, BTreeSet::from(both));
            let alone = server.create_snapshot(take("tank@one")).await;
            alone.expect_err("the pool itself has nothing to snapshot");
            let destroy = DestroySnapshot {
                name: "tank@all".into(),
                recursive: true,
            };
            server.destroy_snapshot(destroy).await.expect("destroyed");
            assert_eq!(names().await, BTreeSet::new());
        });
        serving.await.expect("it has power");
    });
}

/// Compression of a volume with the default record of one sector saved nothing, and nobody was told.
#[test]
fn compression_without_effect_is_told_with_a_record_size_that_helps() {
    Sim::new(23, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let short = volume("tank/short", 1 << 20);
            let mut long = volume("tank/long", 1 << 20);
            long.record_size = Some(server::ByteSize(16 << 10));
            let mut off = volume("tank/off", 1 << 20);
            off.compression = Some("off".into());
            for (new, warns) in [(short, true), (long, false), (off, false)] {
                let name = new.name.clone();
                let made = server.create_volume(new).await.expect("a volume");
                assert_eq!(made.compression_warning.is_some(), warns, "{made:?}");
                let asked = GetProperties {
                    names: vec![name],
                    properties: vec!["compression".into()],
                };
                let found = server.properties(&asked).await.expect("there");
                let warning = found[0].warning.clone();
                assert_eq!(warning, made.compression_warning);
                assert!(warning.is_none_or(|text| text.contains("--record-size 16")));
            }
        });
        serving.await.expect("it has power");
    });
}

#[test]
fn limits_and_properties_are_those_of_the_pool() {
    Sim::new(24, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, async |_: &Rc<Server>| {}).await;
        let serving = node.spawn(async move {
            make(&server).await;
            let set = |property: &str, value: &str| SetProperty {
                name: "tank/home".into(),
                property: property.into(),
                value: value.into(),
            };
            for (property, value) in [("quota", "1M"), ("sync", "always"), ("compression", "off")] {
                server
                    .set_property(set(property, value))
                    .await
                    .expect(value);
            }
            let shown = server.filesystems().remove(0);
            assert_eq!((shown.quota, shown.compression.as_str()), (1 << 20, "off"));
            assert!(shown.available <= 1 << 20, "{shown:?}");
            let get = GetProperties {
                names: vec!["tank/home".into()],
                properties: vec!["type".into(), "mountpoint".into()],
            };
            let found = server.properties(&get).await.expect("found");
            let values: Vec<&str> = found.iter().map(|p| p.value.as_str()).collect();
            assert_eq!(values, ["filesystem", "none"]);
            let mut wrong = filesystem("tank/b");
            wrong.record_size = Some(server::ByteSize(5000));
            let refused = server.create_filesystem(wrong).await;
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
            let destroy = DestroyPool {
                name: "tank".into(),
                force: true,
            };
            server.destroy_pool(destroy).await.expect("destroyed");
            assert!(server.filesystems().is_empty());
        });
        serving.await.expect("it has power");
    });
}

/// Quotas of users and groups: set and shown by number or name, met by their owner alone, and kept by snapshots.
#[test]
fn users_and_groups_have_space_and_quotas() {
    Sim::new(23, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let user = server.use_filesystem("tank/home", "used by a test".into());
            let user = user.await.expect("open");
            let files = user.files();
            write(&files, "roots", &[1; 8192]).await;
            write(&files, "anns", &[1; 4096]).await;
            let ann = walk(&files, "anns").await.expect("there");
            let chown = SetAttributes {
                uid: Some(1001),
                gid: Some(50),
                ..SetAttributes::default()
            };
            let root = Caller::root();
            let chowned = files.set_attributes(&root, ann, chown, Stability::Cached);
            chowned.await.expect("chowned");
            let set = async |property: &str, value: &str| {
                let set = SetProperty {
                    name: "tank/home".into(),
                    property: property.into(),
                    value: value.into(),
                };
                server.set_property(set).await
            };
            let quota = set("userquota@1001", "6K").await.expect("set");
            assert_eq!((quota.value.as_str(), quota.is_size), ("6144", true));
            set("groupquota@root", "1M").await.expect("set by name");
            for (property, value) in [
                ("userquota@no such user", "1M"),
                ("userused@1001", "1M"),
                ("userquota@1001", "much"),
            ] {
                let refused = set(property, value).await;
                assert!(matches!(refused, Err(Error::Invalid(_))), "{property}");
            }
            let more = async |file: Handle| {
                let mut buffer = io::pool().alloc(4096).await;
                buffer.fill(2);
                let at = WriteAt::Offset(4096);
                let written = files.write(&root, file, at, buffer.into(), Stability::Cached);
                written.await.map(drop)
            };
            assert!(matches!(more(ann).await, Err(FileError::Quota)));
            let of_root = walk(&files, "roots").await.expect("there");
            more(of_root).await.expect("another user's");

            let space = async |name: &str, owners| {
                let name = name.to_owned();
                let request = ListOwnerSpace { name, owners };
                let all = server.owner_space(request).await.expect("listed");
                let all = all.into_iter().map(|s| (s.id, s.used, s.quota));
                all.collect::<Vec<_>>()
            };
            let users = vec![(0, 8192, 0), (1001, 4096, 6144)];
            assert_eq!(space("tank/home", OwnerKind::User).await, users);
            let groups = space("tank/home", OwnerKind::Group).await;
            assert!(groups.contains(&(50, 4096, 0)), "{groups:?}");
            let taken = server.create_snapshot(take("tank/home@then")).await;
            taken.expect("taken");
            let none = set("userquota@1001", "none").await.expect("no quota");
            assert_eq!(none.value, "none");
            more(ann).await.expect("no quota");
            assert_eq!(space("tank/home@then", OwnerKind::User).await, users);
            let get = GetProperties {
                names: vec!["tank/home".into()],
                properties: vec!["userused@1001".into(), "userquota@1001".into()],
            };
            let found = server.properties(&get).await.expect("found");
            let found: Vec<_> = found.iter().map(|p| p.value.as_str()).collect();
            assert_eq!(found, ["8192", "none"]);
        });
        serving.await.expect("no panic");
    });
}

/// Names of all snapshots.
async fn snapshots(server: &Server) -> Vec<String> {
    let listed = server.list_snapshots(ListSnapshots::default()).await;
    let listed = listed.expect("listed").into_iter();
    listed.map(|s| s.name).collect()
}

#[test]
fn the_snapshot_of_a_comparison_does_not_survive_the_server() {
    Sim::new(26, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let serving = node.spawn(async move {
            let user = server.use_filesystem("tank/home", "used by a test".into());
            let user = user.await.expect("open");
            write(&user.files(), "first", b"one").await;
            server
                .create_snapshot(take("tank/home@.diff-monday"))
                .await
                .expect_err("the name is kept for comparisons");
            server
                .create_snapshot(take("tank/home@diff-monday"))
                .await
                .expect("taken");
            let diff = DiffFilesystem {
                from: "tank/home@diff-monday".into(),
                to: None,
            };
            // An end amid the comparison: the future is dropped when its snapshot is there.
            let mut step = Duration::from_micros(10);
            loop {
                let comparing = io::timeout(step, server.diff_filesystem(diff.clone())).await;
                if snapshots(&server).await.len() == 2 {
                    break;
                }
                assert!(
                    comparing.is_err(),
                    "the comparison was never met in its middle"
                );
                step += Duration::from_micros(10);
            }
            // The pool writes everything back.
            write(&user.files(), "second", b"two").await;
            io::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(snapshots(&server).await.len(), 2);
            std::mem::forget(user);
        });
        serving.await.expect("it has power");
        node.power_cut();
        node.power_on();

        let serving = node.spawn(async {
            let server = start(SAVED).await;
            assert_eq!(snapshots(&server).await, ["tank/home@diff-monday"]);
            assert_eq!(server.drain().await, Vec::<String>::new());
        });
        serving.await.expect("it serves again");
    });
}
