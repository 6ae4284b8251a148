//! Choices from answers, and from scripted lines of a person.

use super::*;

/// The choices after these lines, and everything that was shown.
fn scripted(facts: &Facts, answers: &Answers, lines: &str) -> (Result<Choices>, String) {
    let mut input = lines.as_bytes();
    let mut output = Vec::new();
    let mut d = Dialogue::with(&mut input, &mut output);
    let choices = choose(facts, answers, &mut d);
    (choices, String::from_utf8(output).expect("text"))
}

fn silent(facts: &Facts, answers: &Answers) -> Result<Choices> {
    choose(facts, answers, &mut Dialogue::silent())
}

fn disks(paths: &[&str]) -> Answers {
    Answers {
        disk: paths.iter().map(PathBuf::from).collect(),
        ..Answers::default()
    }
}

fn members(choices: &Choices) -> Vec<String> {
    let PoolChoice::New(pool) = &choices.pool else {
        panic!("an existing pool");
    };
    let all = pool.vdevs.iter().flatten();
    all.map(|m| m.path.display().to_string()).collect()
}

#[test]
fn a_newcomer_who_only_presses_enter_gets_a_mirror_over_nvme() {
    let facts = Facts::example();
    let (choices, shown) = scripted(&facts, &Answers::default(), &"\n".repeat(9));
    let choices = choices.expect("choices");
    assert_eq!(
        members(&choices),
        ["/dev/disk/by-id/ata-B", "/dev/disk/by-id/ata-C"]
    );
    assert_eq!(choices.pool.name(), "tank");
    assert_eq!((choices.protocol, &*choices.name), (Protocol::Nvme, "vm1"));
    assert_eq!(choices.size, Some(ByteSize(931 << 30)));
    assert_eq!(choices.listen[0].to_string(), "10.0.0.7");
    assert_eq!(choices.clients, [] as [String; 0]);
    for text in [
        "-  /dev/sda",
        "1  /dev/sdb",
        "ext4, mounted at /",
        "by number or path [1 2]?",
        "[mirror]?",
        "Clients: host NQNs (/etc/nvme/hostnqn of each client), or any [none]?",
    ] {
        assert!(shown.contains(text), "{text}:\n{shown}");
    }
}

#[test]
fn other_answers_are_taken_and_wrong_ones_asked_for_again() {
    let facts = Facts::example();
    let lines = "/dev/sda\n9\n1\nfast\nsmb\nnfs\nmy home\nhome\n10.0.0.300\n10.0.0.7 fd00::1\n10.0.0.0/24:rw *:ro\nbeos\nproxmox\n";
    let (choices, shown) = scripted(&facts, &Answers::default(), lines);
    let choices = choices.unwrap_or_else(|e| panic!("{e:#}\n{shown}"));
    assert_eq!(members(&choices), ["/dev/disk/by-id/ata-B"]);
    assert_eq!(choices.pool.name(), "fast");
    assert_eq!((choices.protocol, &*choices.name), (Protocol::Nfs, "home"));
    assert_eq!(choices.size, None, "a filesystem has no size");
    assert_eq!(choices.listen.len(), 2);
    assert_eq!(choices.clients, ["10.0.0.0/24:rw", "*:ro"]);
    assert_eq!(choices.os, System::Proxmox);
    for text in [
        "/dev/sda is not free: ext4, mounted at /",
        "there is no free disk 9",
        "one word without / is needed",
        "found \"10.0.0.300\"",
    ] {
        assert!(shown.contains(text), "{text}:\n{shown}");
    }
}

#[test]
fn a_script_that_ends_early_chooses_nothing() {
    let (choices, _) = scripted(&Facts::example(), &Answers::default(), "\n\n");
    let e = choices.expect_err("the end");
    assert!(e.to_string().contains("nothing was changed"), "{e}");
}

#[test]
fn given_answers_are_not_asked_for() {
    let answers = Answers {
        pool: Some("tank".into()),
        protocol: Some(Protocol::Iscsi),
        size: Some(ByteSize(1 << 40)),
        client: vec!["any".into()],
        ..disks(&["/dev/disk/by-id/ata-B", "/dev/sdc"])
    };
    let (choices, shown) = scripted(&Facts::example(), &answers, "stripe\n\n\n\n");
    let choices = choices.expect("choices");
    assert_eq!(choices.protocol, Protocol::Iscsi);
    let PoolChoice::New(pool) = &choices.pool else {
        panic!("an existing pool");
    };
    assert_eq!(pool.vdevs.len(), 2, "a stripe");
    for text in [
        "Disks of",
        "Name of the pool",
        "Protocol",
        "Size",
        "Clients",
    ] {
        assert!(!shown.contains(text), "{text}:\n{shown}");
    }
}

#[test]
fn without_a_person_no_disk_and_no_network_is_guessed() {
    let facts = Facts::example();
    let e = silent(&facts, &Answers::default()).expect_err("no disk");
    assert!(e.to_string().contains("--disk"), "{e}");
    let choices = silent(&facts, &disks(&["/dev/sdb", "/dev/sdc"])).expect("defaults");
    assert_eq!(choices.listen[0].to_string(), "10.0.0.7", "the only one");
    let mut two = facts;
    two.addresses.push("10.1.0.7".parse().expect("an address"));
    let e = silent(&two, &disks(&["/dev/sdb"])).expect_err("two networks");
    assert!(e.to_string().contains("--listen"), "{e}");
}

#[test]
fn disks_that_are_not_free_are_refused_by_any_name() {
    let facts = Facts::example();
    for path in ["/dev/sda", "/dev/disk/by-id/ata-A"] {
        let e = silent(&facts, &disks(&[path])).expect_err(path);
        let text = e.to_string();
        assert!(text.contains("ext4") && text.contains("wipefs"), "{text}");
    }
    let e = silent(&facts, &disks(&["/dev/sdz"])).expect_err("no disk");
    assert!(e.to_string().contains("no disk of this machine"), "{e}");
    let e = silent(&facts, &disks(&["/dev/sdb", "/dev/disk/by-id/ata-B"])).expect_err("twice");
    assert!(e.to_string().contains("twice"), "{e}");
}

#[test]
fn files_are_disks_and_need_a_size_if_they_are_missing() {
    let facts = Facts::example();
    let dir = tempfile::tempdir().expect("a directory");
    let there = dir.path().join("there.img");
    std::fs::write(&there, [0; 4096]).expect("written");
    let missing = dir.path().join("missing.img");
    let mut answers = Answers {
        disk: vec![there.clone(), missing],
        ..Answers::default()
    };
    let e = silent(&facts, &answers).expect_err("no size");
    assert!(e.to_string().contains("--file-size"), "{e}");
    answers.file_size = Some(ByteSize(1 << 30));
    let choices = silent(&facts, &answers).expect("choices");
    let PoolChoice::New(pool) = choices.pool else {
        panic!("an existing pool");
    };
    let sizes: Vec<u64> = pool.vdevs[0].iter().map(|m| m.size).collect();
    assert_eq!(sizes, [1 << 30, 4096]);
    answers.disk = vec![there.clone(), there];
    assert!(silent(&facts, &answers).is_err(), "twice");
}

#[test]
fn a_pool_that_exists_is_used() {
    let mut facts = Facts::example();
    facts.pools.push(("tank".into(), 8 << 30));
    let (choices, shown) = scripted(&facts, &Answers::default(), "\niscsi\n\n\n\n\n\n");
    let choices = choices.expect("choices");
    assert_eq!(choices.pool, PoolChoice::Existing("tank".into()));
    assert_eq!(choices.size, Some(ByteSize(4 << 30)));
    assert!(shown.contains("tank (8 GiB free)"), "{shown}");
    let (choices, _) = scripted(
        &facts,
        &Answers::default(),
        "new\n1\ntank\nfast\n\n\n\n\n\n\n",
    );
    assert_eq!(choices.expect("choices").pool.name(), "fast");
    let answers = Answers {
        pool: Some("tank".into()),
        ..disks(&["/dev/sdb"])
    };
    let e = silent(&facts, &answers).expect_err("disks for an existing pool");
    assert!(e.to_string().contains("exists already"), "{e}");
}

#[test]
fn escapes_in_a_disks_model_are_harmless() {
    let mut facts = Facts::example();
    facts.disks[1].model = "\u{1b}[31mRED\u{1b}]0;owned\u{7}\nSSD".into();
    facts.disks[1].found = vec!["ext4 \u{202e}label".into()];
    let (_, shown) = scripted(&facts, &Answers::default(), "1\n");
    assert!(shown.contains(r"\u{1b}[31mRED"), "{shown}");
    let is_safe = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
    assert!(shown.chars().all(is_safe), "{shown:?}");
    let e = silent(&facts, &disks(&["/dev/sdb"])).expect_err("not free");
    assert!(e.to_string().chars().all(is_safe), "{e:?}");
}
