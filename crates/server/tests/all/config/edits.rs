//! Live changes: the edited text, and its durable replacement.

use nvmf::controller::HostPolicy;
use server::api::Transport;
use server::config::nvmf::SubsystemEdit;
use server::config::{Config, ConfigFile, DiskEdit, Edit, PoolEdit};
use server::{ByteSize, Error};
use std::fs;
use std::path::PathBuf;

const COMMENTED: &str = r#"# what we serve
[server]
shards = 1 # one is enough

# the first disk
[[disk]]
name = 'a'   # single quotes
kind = "mem"
size = "64M" # of RAM

[[disk]]
name = "b"
kind = "mem"
size = 67108864

# to everybody
[[subsystem]]
nqn = "nqn.2026-01.org.example:a"
hosts = [
    "nqn.h1", # the first host
    "nqn.h2", # the second
]
[[subsystem.namespace]]
nsid = 1 # as ever
disk = "a"

[[subsystem]]
nqn = "nqn.2026-01.org.example:b"
"#;

fn edits(config: &Config) -> Vec<(Box<dyn Edit>, &'static str, &'static str)> {
    let nqn = config.nvmf.subsystems[0].nqn.clone();
    let mut disk = config.disks[0].clone();
    disk.name = "c".into();
    let mut namespace = config.nvmf.subsystems[0].namespaces[0].clone();
    (namespace.nsid, namespace.disk) = (2, "b".into());
    let mut hosts = match &config.nvmf.subsystems[0].hosts {
        HostPolicy::List(names) => names.clone(),
        HostPolicy::Any => panic!("they are listed"),
    };
    hosts.pop_last();
    vec![
        (
            Box::new(DiskEdit::Add(disk)),
            "size = 67108864\n",
            "size = 67108864\n\n[[disk]]\nname = \"c\"\nkind = \"mem\"\nsize = \"64M\"\n",
        ),
        (
            Box::new(DiskEdit::Resize("a".into(), ByteSize(1 << 30))),
            "size = \"64M\" # of RAM",
            "size = \"1G\" # of RAM",
        ),
        (
            Box::new(DiskEdit::Remove("b".into())),
            "\n[[disk]]\nname = \"b\"\nkind = \"mem\"\nsize = 67108864\n",
            "",
        ),
        (
            Box::new(SubsystemEdit::AddNamespace(nqn.clone(), namespace.clone())),
            "disk = \"a\"\n",
            "disk = \"a\"\n\n[[subsystem.namespace]]\nnsid = 2\ndisk = \"b\"\nuuid = \"UUID\"\n",
        ),
        (
            Box::new(SubsystemEdit::RemoveNamespace(nqn.clone(), 1)),
            "[[subsystem.namespace]]\nnsid = 1 # as ever\ndisk = \"a\"\n",
            "",
        ),
        (
            Box::new(SubsystemEdit::SetHosts(nqn, HostPolicy::List(hosts))),
            "    \"nqn.h2\", # the second\n",
            "",
        ),
    ]
}

#[test]
fn a_change_touches_nothing_else() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let uuid = file.config().nvmf.subsystems[0].namespaces[0]
        .uuid
        .to_string();
    for (edit, old, new) in edits(file.config()) {
        let told = format!("{edit:?}");
        let got = file.edited(&[&*edit]).expect(&told);
        let wanted = COMMENTED.replacen(old, &new.replace("UUID", &uuid), 1);
        assert_eq!(got.text(), wanted, "{told}");
    }
}

#[test]
fn what_was_added_can_be_removed_again() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let nqn = file.config().nvmf.subsystems[1].nqn.clone();
    let other: nvmf::wire::nqn::Nqn = "nqn.new".parse().expect("valid");
    let with = file
        .edited(&[
            &SubsystemEdit::Add(other.clone()),
            &SubsystemEdit::SetHosts(nqn.clone(), HostPolicy::Any),
        ])
        .expect("added");
    assert_eq!(
        with.config().nvmf.subsystem(&nqn).map(|s| &s.hosts),
        Some(&HostPolicy::Any)
    );
    let without = with
        .edited(&[
            &SubsystemEdit::Remove(other),
            &SubsystemEdit::SetHosts(nqn, HostPolicy::List(Default::default())),
        ])
        .expect("removed");
    assert_eq!(without.config(), file.config());
}

/// A list of all transports is no list: the file stays as it was.
#[test]
fn transports_are_edited() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let nqn = file.config().nvmf.subsystems[0].nqn.clone();
    let edit = |all: &[Transport]| {
        SubsystemEdit::SetTransports(nqn.clone(), all.iter().copied().collect())
    };
    let only_tcp = file.edited(&[&edit(&[Transport::Tcp])]).expect("right");
    let stored = &only_tcp.config().nvmf.subsystems[0].transports;
    assert!(stored.iter().eq(&[Transport::Tcp]));
    let only_rdma = only_tcp.edited(&[&edit(&[Transport::Rdma])]);
    let only_rdma = only_rdma.expect("right");
    let stored = &only_rdma.config().nvmf.subsystems[0].transports;
    assert!(stored.iter().eq(&[Transport::Rdma]));
    let both = only_rdma.edited(&[&edit(&Transport::ALL)]).expect("right");
    assert_eq!(both.config(), file.config());
}

/// Pools may share a spare. Its path is in the list of disks, too, while it is in use.
#[test]
fn spares_of_pools_are_listed_and_edited() {
    let text = r#"# two pools
[[pool]]
name = "tank"
disks = ["/dev/a", "/dev/s"] # s is in use
spares = ["/dev/s", "/dev/t"]
spare_after_s = 60

[[pool]]
name = "home"
disks = ["/dev/b"]
spares = ["/dev/s"]
"#;
    let file = ConfigFile::unsaved(text).expect("right");
    let [tank, home] = &file.config().pools[..] else {
        panic!("two pools")
    };
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(tank.spares, paths(&["/dev/s", "/dev/t"]));
    assert_eq!((tank.spare_after_s, home.spare_after_s), (Some(60), None));
    assert_eq!(home.spares, paths(&["/dev/s"]));
    let fewer = file
        .edited(&[
            &PoolEdit::SetSpares("tank".into(), paths(&["/dev/s"])),
            &PoolEdit::SetSpares("home".into(), Vec::new()),
        ])
        .expect("edited");
    assert_eq!(fewer.config().pools[0].spares, paths(&["/dev/s"]));
    assert_eq!(fewer.config().pools[1].spares, paths(&[]));
    let expected = text.replace(", \"/dev/t\"]", "]").replace(
        "disks = [\"/dev/b\"]\nspares = [\"/dev/s\"]\n",
        "disks = [\"/dev/b\"]\n",
    );
    assert_eq!(fewer.text(), expected);
    let again = fewer
        .edited(&[
            &PoolEdit::Remove("tank".into()),
            &PoolEdit::Add(tank.clone()),
        ])
        .expect("edited");
    assert_eq!(again.config().pools[1], *tank);
}

#[test]
fn an_edit_that_would_be_wrong_is_refused() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let twice = DiskEdit::Add(file.config().disks[0].clone());
    assert!(matches!(file.edited(&[&twice]), Err(Error::Config(_))));
    assert!(
        matches!(
            file.edited(&[&DiskEdit::Remove("a".into())]),
            Err(Error::Config(_))
        ),
        "it is exported"
    );
}

#[test]
fn the_file_is_replaced_durably_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("wirepool.toml");
    fs::write(&path, COMMENTED).expect("write");
    // The leftover of a crash in the middle of a change.
    fs::write(dir.path().join(".wirepool.toml.new"), "half a fi").expect("write");
    let before = ConfigFile::load(&path).expect("load");
    let after = before
        .edited(&[&DiskEdit::Remove("b".into())])
        .expect("edit");
    assert_eq!(
        fs::read_to_string(&path).expect("read"),
        COMMENTED,
        "nothing is written before it is stored"
    );
    after.store(&before).expect("store");
    assert_eq!(
        ConfigFile::load(&path).expect("load").config(),
        after.config()
    );
    assert_eq!(
        fs::read_dir(dir.path()).expect("list").count(),
        1,
        "no temporary file is left"
    );
    assert!(
        matches!(after.store(&before), Err(Error::Edited(_))),
        "the file changed after `before` was read"
    );
}

#[test]
fn a_symbolic_link_stays_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let (real, link) = (dir.path().join("real.toml"), dir.path().join("link.toml"));
    fs::write(&real, COMMENTED).expect("write");
    std::os::unix::fs::symlink(&real, &link).expect("link");
    let before = ConfigFile::load(&link).expect("load");
    before
        .edited(&[&DiskEdit::Remove("b".into())])
        .expect("edit")
        .store(&before)
        .expect("store");
    assert!(
        fs::symlink_metadata(&link)
            .expect("there")
            .file_type()
            .is_symlink()
    );
    assert!(!fs::read_to_string(&real).expect("read").contains("\"b\""));
}
