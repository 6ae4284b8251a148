//! iSCSI targets in the file, and their changes.

use crate::config::sections::parse;
use iscsi::portal::Acl;
use server::config::ConfigFile;
use server::config::iscsi::{TargetChange, TargetEdit};

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
    let t = &c.iscsi.targets[0];
    assert_eq!(t.iqn.as_str(), "iqn.2026-01.org.example:a");
    let user = t.chap.as_ref().map(|names| names.initiator.as_str());
    assert_eq!((t.portal_group, user), (2, Some("alice")));
    assert_eq!((t.luns[0].lun, t.luns[0].read_only), (7, true));
    let file = ConfigFile::unsaved(TARGETS).expect("it is right");
    let edit = |e| TargetEdit(t.iqn.clone(), e);
    let edited = file
        .edited(&[
            &edit(TargetChange::RemoveLun(7)),
            &edit(TargetChange::SetInitiators(Acl::Any)),
            &edit(TargetChange::SetChap(None)),
        ])
        .expect("still right");
    let after = &edited.config().iscsi.targets[0];
    assert_eq!(
        (after.luns.len(), &after.initiators, &after.chap),
        (0, &Acl::Any, &None)
    );
    let gone = edited
        .edited(&[&edit(TargetChange::Remove)])
        .expect("right");
    assert!(gone.config().iscsi.targets.is_empty());
}

#[test]
fn wrong_targets_are_told() {
    let other = "[[target]]\niqn = \"iqn.2026-01.org.example:a\"\n";
    for (old, new, told) in [
        ("IQN.2026-01", "disk", "expected a name such as"),
        (
            "lun = 7",
            "lun = 16384",
            "expected a number from 0 to 16383",
        ),
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
