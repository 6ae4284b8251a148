//! Tests of the configuration file: meaning, errors with their position, and live changes.

use iscsi::portal::Acl;
use server::config::{Config, ConfigFile, Edit, HostList, Medium, TargetEdit};
use server::{ByteSize, Error};
use std::fs;
use std::path::Path;
use std::time::Duration;

const WHOLE: &str = r#"
[server]
shards = 2
control = "/run/wp/control.sock"
state_dir = "/var/lib/wp"
spin_us = 0
buffer_mib = 16
congestion = "reno"

[nvmf]
listen = ["127.0.0.1:4420", "[::1]:4420"]
discovery = ["127.0.0.1:8009"]
advertise = ["192.0.2.1:4420"]
referrals = ["192.0.2.2:8009"]
connections_max = 100

[metrics]
listen = "127.0.0.1:9464"

[[disk]]
name = "vm1"
kind = "file"
path = "disks/vm1.img"
size = "4G"
block_size = 512
buffered = true

[[disk]]
name = "ram"
kind = "mem"
size = "64M"
read_only = true

[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
serial = "S1"
hosts = ["nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001"]
[[subsystem.namespace]]
nsid = 1
disk = "vm1"
uuid = "5c1e6f1c-0000-4000-8000-000000000002"
"#;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/wp/wirepool.toml")).map_err(|e| e.to_string())
}

#[test]
fn the_congestion_control_is_cubic_unless_another_or_the_systems_is_wanted() {
    let of = |line: &str| parse(&format!("[server]\n{line}\n")).map(|c| c.server.congestion);
    assert_eq!(of(""), Ok(Some("cubic".into())));
    assert_eq!(of("congestion = \"bbr\""), Ok(Some("bbr".into())));
    assert_eq!(of("congestion = \"system\""), Ok(None));
    for wrong in ["", "cubic reno", "sixteen_letters_"] {
        let said = of(&format!("congestion = {wrong:?}")).expect_err(wrong);
        assert!(said.contains("the name of a congestion control"), "{said}");
    }
}

#[test]
fn every_key_is_understood() {
    let c = parse(WHOLE).expect("it is right");
    assert_eq!(c.server.congestion.as_deref(), Some("reno"));
    assert_eq!(
        (c.server.shards, c.server.buffer_limit, c.server.spin),
        (2, 16 << 20, Duration::ZERO)
    );
    assert_eq!(c.server.state_dir, Path::new("/var/lib/wp"));
    assert_eq!(
        (
            c.nvmf.listen.len(),
            c.nvmf.discovery.len(),
            c.nvmf.connections_max
        ),
        (2, 1, 100)
    );
    assert_eq!(c.metrics.map(|a| a.port()), Some(9464));
    let vm1 = c.disk("vm1").expect("the disk");
    let Medium::File {
        path,
        create,
        buffered,
    } = &vm1.medium
    else {
        panic!("a file")
    };
    assert_eq!(
        path,
        Path::new("/etc/wp/disks/vm1.img"),
        "relative to the file"
    );
    assert_eq!(
        (*create, *buffered, vm1.block_size),
        (Some(ByteSize(4 << 30)), true, Some(512))
    );
    assert!(c.disk("ram").expect("the disk").read_only);
    let (s, n) = c.export_of("vm1").expect("exported");
    assert!(matches!(&s.hosts, HostList::Listed(names) if names.len() == 1));
    assert_eq!((s.serial.as_str(), n.nsid), ("S1", 1));
    assert_eq!(n.uuid.to_string(), "5c1e6f1c-0000-4000-8000-000000000002");
}

#[test]
fn defaults_are_sound_and_stable() {
    let c = parse("[[disk]]\nname='a'\nkind='null'\nsize='1G'\n[[subsystem]]\nnqn='nqn.2026-01.a:b'\n[[subsystem.namespace]]\nnsid=7\ndisk='a'\n").expect("right");
    assert_eq!(
        c.nvmf.listen,
        ["127.0.0.1:4420".parse().expect("an address")]
    );
    assert_eq!(
        (c.nvmf.discovery.len(), c.metrics, c.server.shards),
        (0, None, 0)
    );
    assert_eq!(c.server.state_dir, Path::new("/etc/wp/wirepool.state"));
    let s = &c.subsystems[0];
    assert_eq!(
        s.hosts,
        HostList::Listed(Default::default()),
        "nobody, until somebody is let in"
    );
    // Clients identify a disk by these values: they must be the same after every restart.
    assert_eq!(s.serial, "WPD206F932EF9451DCA3");
    assert_eq!(
        s.namespaces[0].uuid.to_string(),
        "40936c1b-a947-5236-8082-e6a769904c8f"
    );
}

/// Each error, and its message.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[server]\nshard = 2\n",
        "wirepool.toml:2:1: server.shard: unknown field `shard`, expected one of `shards`, `control`, `state_dir`, `spin_us`, `buffer_mib`, `congestion`",
    ),
    (
        "[server]\nshards = \"two\"\n",
        "wirepool.toml:2:10: server.shards: invalid type: string \"two\", expected u64",
    ),
    (
        "[server]\nshards = 1000\n",
        "wirepool.toml:2:10: server.shards: expected a number from 0 to 256, found 1000",
    ),
    (
        "[server]\nbuffer_mib = 1\n",
        "wirepool.toml:2:14: server.buffer_mib: expected a number from 4 to 65536, found 1",
    ),
    (
        "[nvmf]\nlisten = [\"127.0.0.1:4420\", \"localhost\"]\n",
        "wirepool.toml:2:29: nvmf.listen: expected an address and a port such as \"192.0.2.1:4420\" or \"[::]:4420\", found \"localhost\"",
    ),
    (
        "[nvmf]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n",
        "wirepool.toml:2:26: nvmf.listen: 127.0.0.1:1 is there twice",
    ),
    (
        "[metrics]\nlisten = 9464\n",
        "wirepool.toml:2:10: metrics.listen: invalid type: integer `9464`, expected a string",
    ),
    (
        "disk = 3\n",
        "wirepool.toml:1:8: disk: invalid type: integer `3`, expected a sequence",
    ),
    (
        "[[disk]]\nkind = \"mem\"\nsize = \"1G\"\n",
        "wirepool.toml:1:1: disk: missing field `name`",
    ),
    (
        "[[disk]]\nname = \"a b\"\nkind = \"mem\"\nsize = \"1G\"\n",
        "wirepool.toml:2:8: disk.name: expected a name of letters, digits, '.', '_' and '-', at most 64, found \"a b\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"tape\"\n",
        "wirepool.toml:3:8: disk.kind: unknown variant `tape`, expected one of `file`, `block`, `mem`, `null`",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"4GB\"\n",
        "wirepool.toml:4:8: disk.size: expected a size such as \"512M\", \"4G\" or \"1T\" (powers of 1024), found \"4GB\"; units are powers of 1024: leave the B out",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"1K\"\n",
        "wirepool.toml:4:8: disk.size: expected a size from 4K to 1024P, found 1K",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = 8193\n",
        "wirepool.toml:4:8: disk.size: expected a multiple of the block size (512), found 8193",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\n",
        "wirepool.toml:1:1: disk: the disk \"a\" needs a size such as \"4G\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"file\"\n",
        "wirepool.toml:1:1: disk: the disk \"a\" needs a path",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"block\"\npath = \"/dev/x\"\nsize = \"1G\"\n",
        "wirepool.toml:5:8: disk.size: a block device has its own size: leave this out",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"1G\"\nblock_size = 1024\n",
        "wirepool.toml:5:14: disk.block_size: expected 512 or 4096, found 1024",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\n[[disk]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n",
        "wirepool.toml:7:8: disk.name: there is another disk named \"a\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"file\"\npath = \"x\"\n\n[[disk]]\nname = \"b\"\nkind = \"file\"\npath = \"/etc/wp/x\"\n",
        "wirepool.toml:9:8: disk.path: the disk \"a\" has this path already",
    ),
    (
        "[[subsystem]]\nnqn = \"iqn.2026\"\n",
        "wirepool.toml:2:7: subsystem.nqn: expected a name such as \"nqn.2026-01.org.example:disk1\": the NQN does not begin with \"nqn.\"",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem]]\nnqn = \"nqn.a\"\n",
        "wirepool.toml:4:7: subsystem.nqn: there is another subsystem named nqn.a",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\nhosts = [\"any\", \"nqn.h\"]\n",
        "wirepool.toml:3:10: subsystem.hosts: \"any\" already allows every host: remove the other names",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\nserial = \"123456789012345678901\"\n",
        "wirepool.toml:3:10: subsystem.serial: expected 1 to 20 printable ASCII characters",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem.namespace]]\nnsid = 1\ndisk = \"x\"\n",
        "wirepool.toml:5:8: subsystem.namespace.disk: expected the name of a disk (there are none), found \"x\"",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\nnamespace = [{nsid = 0, disk = \"a\"}]\n",
        "wirepool.toml:4:22: subsystem.namespace.nsid: expected a number from 1 to 1024, found 0",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\nnamespace = [{nsid = 1, disk = \"a\"}, {nsid = 2, disk = \"a\"}]\n",
        "wirepool.toml:4:56: subsystem.namespace.disk: the disk \"a\" is exported as nqn.a namespace 1 already",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem.namespace]]\nnsid = 1\ndisk = \"a\"\nuuid = \"one\"\n",
        "wirepool.toml:7:8: subsystem.namespace.uuid: expected a UUID that is not zero, found \"one\"",
    ),
];

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, told) in MISTAKES {
        let e = parse(text).expect_err(text);
        assert_eq!(e, format!("/etc/wp/{told}"), "in:\n{text}");
    }
}

#[test]
fn broken_syntax_is_told_with_its_place() {
    for (text, place) in [
        ("[server\n", ":1:8: "),
        ("[nvmf]\nlisten = [\n", ":2:"),
        ("\n\na = = 1\n", ":3:5: "),
    ] {
        let e = parse(text).expect_err(text);
        assert!(
            e.starts_with(&format!("/etc/wp/wirepool.toml{place}")),
            "{e}"
        );
    }
}

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

fn edits(config: &Config) -> Vec<(Edit, &'static str, &'static str)> {
    let nqn = config.subsystems[0].nqn.clone();
    let mut disk = config.disks[0].clone();
    disk.name = "c".into();
    let mut namespace = config.subsystems[0].namespaces[0].clone();
    (namespace.nsid, namespace.disk) = (2, "b".into());
    let mut hosts = match &config.subsystems[0].hosts {
        HostList::Listed(names) => names.clone(),
        HostList::Any => panic!("they are listed"),
    };
    hosts.pop_last();
    vec![
        (
            Edit::AddDisk(disk),
            "size = 67108864\n",
            "size = 67108864\n\n[[disk]]\nname = \"c\"\nkind = \"mem\"\nsize = \"64M\"\n",
        ),
        (
            Edit::ResizeDisk("a".into(), ByteSize(1 << 30)),
            "size = \"64M\" # of RAM",
            "size = \"1G\" # of RAM",
        ),
        (
            Edit::RemoveDisk("b".into()),
            "\n[[disk]]\nname = \"b\"\nkind = \"mem\"\nsize = 67108864\n",
            "",
        ),
        (
            Edit::AddNamespace(nqn.clone(), namespace.clone()),
            "disk = \"a\"\n",
            "disk = \"a\"\n\n[[subsystem.namespace]]\nnsid = 2\ndisk = \"b\"\nuuid = \"UUID\"\n",
        ),
        (
            Edit::RemoveNamespace(nqn.clone(), 1),
            "[[subsystem.namespace]]\nnsid = 1 # as ever\ndisk = \"a\"\n",
            "",
        ),
        (
            Edit::SetHosts(nqn, HostList::Listed(hosts)),
            "    \"nqn.h2\", # the second\n",
            "",
        ),
    ]
}

#[test]
fn a_change_touches_nothing_else() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let uuid = file.config().subsystems[0].namespaces[0].uuid.to_string();
    for (edit, old, new) in edits(file.config()) {
        let told = format!("{edit:?}");
        let got = file.edited(&[edit]).expect(&told);
        let wanted = COMMENTED.replacen(old, &new.replace("UUID", &uuid), 1);
        assert_eq!(got.text(), wanted, "{told}");
    }
}

#[test]
fn what_was_added_can_be_removed_again() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let nqn = file.config().subsystems[1].nqn.clone();
    let other: nvmf::wire::nqn::Nqn = "nqn.new".parse().expect("valid");
    let with = file
        .edited(&[
            Edit::AddSubsystem(other.clone()),
            Edit::SetHosts(nqn.clone(), HostList::Any),
        ])
        .expect("added");
    assert_eq!(
        with.config().subsystem(&nqn).map(|s| &s.hosts),
        Some(&HostList::Any)
    );
    let without = with
        .edited(&[
            Edit::RemoveSubsystem(other),
            Edit::SetHosts(nqn, HostList::Listed(Default::default())),
        ])
        .expect("removed");
    assert_eq!(without.config(), file.config());
}

#[test]
fn an_edit_that_would_be_wrong_is_refused() {
    let file = ConfigFile::unsaved(COMMENTED).expect("right");
    let twice = Edit::AddDisk(file.config().disks[0].clone());
    assert!(matches!(file.edited(&[twice]), Err(Error::Config(_))));
    assert!(
        matches!(
            file.edited(&[Edit::RemoveDisk("a".into())]),
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
        .edited(&[Edit::RemoveDisk("b".into())])
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
        "somebody else wrote it since"
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
        .edited(&[Edit::RemoveDisk("b".into())])
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

const TARGETS: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
advertise = ["192.0.2.1:3260"]
connections_max = 10
[[iscsi.group]]
tag = 2
listen = ["[::1]:0"]
[[disk]]
name = "a"
kind = "mem"
size = "1M"
[[target]]
iqn = "IQN.2026-01.org.example:A"
alias = "first"
portal_group = 2
initiators = ["iqn.1993-08.org.debian:01:abc"]
chap = "alice"
[[target.lun]]
lun = 7
disk = "a"
read_only = true
"#;

#[test]
fn targets_are_understood_and_edited() {
    let c = parse(TARGETS).expect("it is right");
    let groups: Vec<_> = c
        .iscsi
        .groups
        .iter()
        .map(|g| (g.tag, g.advertise.len()))
        .collect();
    assert_eq!(groups, [(1, 1), (2, 0)]);
    let t = &c.targets[0];
    assert_eq!(t.iqn.as_str(), "iqn.2026-01.org.example:a");
    let user = t.chap.as_ref().map(|names| names.initiator.as_str());
    assert_eq!((t.portal_group, user), (2, Some("alice")));
    assert_eq!((t.luns[0].lun, t.luns[0].read_only), (7, true));
    let file = ConfigFile::unsaved(TARGETS).expect("it is right");
    let edit = |e| Edit::Target(t.iqn.clone(), e);
    let edited = file
        .edited(&[
            edit(TargetEdit::RemoveLun(7)),
            edit(TargetEdit::SetInitiators(Acl::Any)),
            edit(TargetEdit::SetChap(None)),
        ])
        .expect("still right");
    let after = &edited.config().targets[0];
    assert_eq!(
        (after.luns.len(), &after.initiators, &after.chap),
        (0, &Acl::Any, &None)
    );
    let gone = edited.edited(&[edit(TargetEdit::Remove)]).expect("right");
    assert!(gone.config().targets.is_empty());
}

#[test]
fn wrong_targets_are_told() {
    let other = "[[target]]\niqn = \"iqn.2026-01.org.example:a\"\n";
    for (old, new, told) in [
        ("IQN.2026-01", "disk", "expected a name such as"),
        ("lun = 7", "lun = 256", "expected a number from 0 to 255"),
        (
            "disk = \"a\"",
            "disk = \"b\"",
            "expected the name of a disk",
        ),
        (
            "portal_group = 2",
            "portal_group = 3",
            "there is no portal group 3",
        ),
        ("tag = 2", "tag = 1", "expected a number from 2 to 65535"),
        (
            "listen = [\"[::1]:0\"]",
            "listen = []",
            "expected 1 to 64 addresses",
        ),
        ("alias = \"first\"", "alias = \"\"", "printable ASCII"),
        (
            "chap = \"alice\"",
            "secret = \"x\"",
            "unknown field `secret`",
        ),
        (
            "\"iqn.1993-08",
            "\"any\", \"iqn.1993-08",
            "\"any\" already allows every initiator",
        ),
        (
            "read_only = true\n",
            "[[target.lun]]\nlun = 8\ndisk = \"a\"\n",
            "is exported as iqn.2026-01.org.example:a LUN 7 already",
        ),
        ("read_only = true\n", other, "there is another target named"),
    ] {
        assert!(TARGETS.contains(old), "{old}");
        let e = parse(&TARGETS.replace(old, new)).expect_err(new);
        assert!(e.contains(told), "{new}: {e}");
    }
}
