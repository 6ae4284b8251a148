//! Plans: exactly their steps and their text.

use super::super::answers::{Answers, Layout};
use super::super::choose::choose;
use super::super::dialogue::Dialogue;
use super::super::protocol::Protocol;
use super::*;

const RESTART: &str = "systemctl restart wirepool";

fn answers() -> Answers {
    Answers {
        disk: vec!["/dev/sdb".into(), "/dev/sdc".into()],
        size: Some(ByteSize(500 << 30)),
        client: vec!["any".into()],
        ..Answers::default()
    }
}

fn planned(facts: &Facts, answers: &Answers) -> Result<Plan> {
    let choices = choose(facts, answers, &mut Dialogue::silent())?;
    plan(facts, &choices, RESTART)
}

fn commands(plan: &Plan) -> Vec<String> {
    let text = |step: &Step| match step {
        Step::Config { .. } => "config".to_owned(),
        Step::Restart { command } => command.clone(),
        Step::Run { words } => command(words),
    };
    plan.steps.iter().map(text).collect()
}

#[test]
fn the_plan_of_a_first_export() {
    let plan = planned(&Facts::example(), &answers()).expect("a plan");
    assert_eq!(
        plan.text(),
        "The plan:
  the server listens on 10.0.0.7:4420 (nvmf); serve only networks that you trust
  pool tank: one mirror, about 1.8 TiB usable of 3.6 TiB
    /dev/disk/by-id/ata-B  1.8 TiB  SSD B (/dev/sdb)
    /dev/disk/by-id/ata-C  1.8 TiB  SSD C (/dev/sdc)
  tank/vm1, over nvme: 500 GiB, which takes space only as it is written
  1. change wirepool.toml:
       - listen = [\"127.0.0.1:4420\"]
       + listen = [\"127.0.0.1:4420\", \"10.0.0.7:4420\"]
  2. systemctl restart wirepool      (connected clients wait for some seconds)
  3. wirepool pool create tank mirror /dev/disk/by-id/ata-B /dev/disk/by-id/ata-C
  4. wirepool volume create tank/vm1 --size 500G
  5. wirepool export nvme tank/vm1 --host any
  6. wirepool client-config tank/vm1 --os debian --address 10.0.0.7
"
    );
}

#[test]
fn an_address_that_is_served_needs_no_restart() {
    let mut facts = Facts::example();
    facts.pools.push(("tank".into(), 8 << 30));
    let mut given = answers();
    (given.disk, given.pool) = (Vec::new(), Some("tank".into()));
    given.listen = vec!["127.0.0.1".parse().expect("an address")];
    let plan = planned(&facts, &given).expect("a plan");
    assert_eq!(
        commands(&plan),
        [
            "wirepool volume create tank/vm1 --size 500G",
            "wirepool export nvme tank/vm1 --host any",
            "wirepool client-config tank/vm1 --os debian --address 127.0.0.1",
        ]
    );
    assert!(plan.warnings[0].contains("this machine only"));
}

#[test]
fn other_protocols_get_their_section() {
    for (protocol, section, export, create) in [
        (
            Protocol::Iscsi,
            "[iscsi]\nlisten = [\"10.0.0.7:3260\"]",
            "wirepool export iscsi tank/vm1 --initiator any",
            "wirepool volume create tank/vm1 --size 500G",
        ),
        (
            Protocol::Nfs,
            "[nfs]\nlisten = [\"10.0.0.7:2049\"]",
            "wirepool export nfs tank/home --client any",
            "wirepool fs create tank/home",
        ),
    ] {
        let given = Answers {
            protocol: Some(protocol),
            ..answers()
        };
        let plan = planned(&Facts::example(), &given).expect("a plan");
        let Step::Config { after, .. } = &plan.steps[0] else {
            panic!("no change of the configuration: {:?}", plan.steps);
        };
        assert!(after.text().contains(section), "{}", after.text());
        let commands = commands(&plan);
        assert!(commands.contains(&export.to_owned()), "{commands:?}");
        assert!(commands.contains(&create.to_owned()), "{commands:?}");
    }
}

#[test]
fn an_address_for_every_interface_replaces_those_with_its_port() {
    let mut given = answers();
    given.listen = vec!["0.0.0.0".parse().expect("an address")];
    let plan = planned(&Facts::example(), &given).expect("a plan");
    let Step::Config { after, .. } = &plan.steps[0] else {
        panic!("no change of the configuration");
    };
    let listen: Vec<String> = after
        .config()
        .nvmf
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(listen, ["0.0.0.0:4420"]);
    let last = commands(&plan).pop().expect("a command");
    assert!(last.ends_with("--address 10.0.0.7"), "{last}");
}

#[test]
fn risks_are_named() {
    let mut facts = Facts::example();
    facts.disks[1].stable = None;
    let given = Answers {
        layout: Some(Layout::Stripe),
        client: Vec::new(),
        ..answers()
    };
    let plan = planned(&facts, &given).expect("a plan");
    let text = plan.text();
    for risk in [
        "WARNING: a lost disk loses the pool tank",
        "WARNING: /dev/sdb has no name that survives a reboot",
        "WARNING: no client may connect yet",
    ] {
        assert!(text.contains(risk), "{risk}:\n{text}");
    }
}

#[test]
fn names_that_are_taken_are_refused() {
    let mut facts = Facts::example();
    facts.pools.push(("tank".into(), 8 << 30));
    facts.datasets.push("tank/vm1".into());
    let given = Answers {
        disk: Vec::new(),
        pool: Some("tank".into()),
        ..answers()
    };
    let e = planned(&facts, &given).expect_err("the volume exists");
    assert!(e.to_string().contains("tank/vm1 exists already"), "{e}");
}

#[test]
fn words_are_quoted_as_a_shell_reads_them() {
    let words = ["export", "nfs", "tank/home", "--client", "*:rw", "it's"].map(str::to_owned);
    assert_eq!(
        command(&words),
        r"wirepool export nfs tank/home --client '*:rw' 'it'\''s'"
    );
}

#[test]
fn changed_lines_are_shown_and_no_others() {
    assert_eq!(changes("a\nb\nc\n", "a\nx\nc\n"), ["- b", "+ x"]);
    assert_eq!(changes("a\n", "a\n\n[b]\n"), ["+ ", "+ [b]"]);
    assert_eq!(changes("a\n", "a\n"), [] as [String; 0]);
}
