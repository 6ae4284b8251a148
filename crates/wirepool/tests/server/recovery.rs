//! Damage to a pool's journal and uberblocks: messages name the recovery that loses least, and it works.

use crate::common::{BASE, Place, Server};
use std::fs::File;
use std::os::unix::fs::FileExt;

const DISKS: [&str; 2] = ["a.img", "b.img"];
const SIZE: u64 = 128 << 20;
const SECTOR: usize = 4096;
const DATA_START: u64 = 1 << 20;
const JOURNAL: u64 = 4 << 20;
const AREA: u64 = 256 << 10;
const LABEL: u64 = 16 << 10;

fn import(more: &[&str]) -> Vec<String> {
    let args = [&["pool", "import", "tank"], more, &["-d"], &DISKS];
    args.concat().into_iter().map(str::to_owned).collect()
}

fn names(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// A mirror whose server was killed. Its newest checkpoint has one volume, the one before none; its journal has four more.
fn killed() -> Place {
    let place = Place::new(BASE);
    let server = place.start();
    let create = ["pool", "create", "tank", "mirror"];
    server.ok(&[&create[..], &DISKS, &["--size", "128M"]].concat());
    server.ok(&["pool", "checkpoint", "tank"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    server.ok(&["pool", "checkpoint", "tank"]);
    for name in ["tank/vm2", "tank/vm3", "tank/vm4", "tank/vm5"] {
        server.ok(&["volume", "create", name, "--size", "1G"]);
    }
    server.signal("KILL");
    server.wait();
    place
}

fn open(place: &Place, disk: &str) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .open(place.path(disk));
    file.expect("it is there")
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Places of sectors that begin so, with the number at byte `field` of each; the highest number first.
fn sectors(place: &Place, from: u64, len: u64, magic: &[u8], field: usize) -> Vec<(u64, u64)> {
    let file = open(place, DISKS[0]);
    let mut found = Vec::new();
    let mut bytes = vec![0; SECTOR];
    for at in (from..from + len).step_by(SECTOR) {
        file.read_exact_at(&mut bytes, at).expect("read");
        if bytes.starts_with(magic) {
            found.push((number(&bytes, field), at));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

fn wipe(place: &Place, at: u64, len: u64) {
    for disk in DISKS {
        let zeroes = vec![0; len as usize];
        let written = open(place, disk).write_all_at(&zeroes, at);
        written.expect("written");
    }
}

/// Why the pool is held back.
fn held(server: &Server) -> String {
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["state"] != "opening");
    assert_eq!(pools[0]["state"], "held", "{pools}");
    pools[0]["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn a_damaged_journal_is_applied_up_to_the_damage() {
    let place = killed();
    let batches = sectors(&place, DATA_START, JOURNAL, b"WPjb", 16);
    // the last one is not known to have been flushed
    let (_, at) = batches[2];
    wipe(&place, at, SECTOR as u64);
    let server = place.start();
    let reason = held(&server);
    assert!(reason.contains("journal batch"), "{reason}");
    let trial = server.json(&names(&import(&["-n"])));
    let newest = &trial["checkpoints"][0];
    assert!(
        trial["problem"]
            .as_str()
            .is_some_and(|p| p.contains("journal batch"))
    );
    assert!(newest["batches"].as_u64() > Some(0) && newest["lost_batches"].as_u64() > Some(0));
    assert!(newest["reason"].is_null() && newest["epoch"].as_u64() > Some(0));
    assert_eq!(trial["checkpoints"][1]["lost_checkpoints"], 1);
    let rewind = newest["sequence"].to_string();
    let advice = format!("--rewind {rewind} ");
    assert!(reason.contains(&advice), "{reason}");
    let table = server.ok(&names(&import(&["-n"])));
    for words in [
        "JOURNAL APPLIED",
        "LOST",
        "durable batches",
        "action:",
        "error:",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let told = server.refused(&names(&import(&[])));
    assert!(told.contains(&advice), "{told}");
    server.ok(&names(&import(&["--rewind", &rewind])));
    let volumes = server.json(&["volume", "list"]);
    // vm1, and those before the batch that is damaged
    let count = volumes.as_array().map_or(0, Vec::len);
    assert!((1..5).contains(&count), "{volumes}");
    server.ok(&["volume", "create", "tank/new", "--size", "1G"]);
    server.ok(&["pool", "export", "tank"]);
    place.inspect_sound(&DISKS);
}

#[test]
fn a_damaged_newest_checkpoint_leads_to_the_one_before() {
    let place = killed();
    let ring = AREA - LABEL;
    let (newest, slot) = sectors(&place, LABEL, ring, b"WPub", 24)[0];
    let mut uberblock = vec![0; SECTOR];
    let read = open(&place, DISKS[0]).read_exact_at(&mut uberblock, slot);
    read.expect("read");
    // the root's pointer is at byte 56, its offset 16 bytes on
    wipe(&place, DATA_START + number(&uberblock, 72), SECTOR as u64);
    let server = place.start();
    let reason = held(&server);
    let rewind = (newest - 1).to_string();
    assert!(reason.contains(&format!("--rewind {rewind} ")), "{reason}");
    let trial = server.json(&names(&import(&["-n"])));
    assert!(trial["checkpoints"][0]["reason"].is_string(), "{trial}");
    assert!(trial["checkpoints"][1]["reason"].is_null(), "{trial}");
    let told = server.refused(&names(&import(&["--rewind", &newest.to_string()])));
    assert!(told.contains(&format!("--rewind {rewind} ")), "{told}");
    server.ok(&names(&import(&["--rewind", &rewind])));
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(volumes.as_array().map(Vec::len), Some(0));
}

#[test]
fn a_pool_without_uberblocks_is_not_said_to_be_unfinished() {
    let place = killed();
    for area in [0, AREA, SIZE - 2 * AREA, SIZE - AREA] {
        wipe(&place, area + LABEL, AREA - LABEL);
    }
    let server = place.start();
    let reason = held(&server);
    assert!(
        reason.contains("every uberblock") && reason.contains("backup"),
        "{reason}"
    );
    for more in [&["-n"][..], &[], &["--rewind", "2"]] {
        let told = server.refused(&names(&import(more)));
        assert!(told.contains("do not create the pool again"), "{told}");
    }
    let args = [&["pool", "import", "-d"][..], &DISKS].concat();
    let found = server.json(&args);
    assert!(found[0]["reason"].to_string().contains("backup"), "{found}");
}
