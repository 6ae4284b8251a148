//! Cases of disks, and of the disks of pools.

use crate::{Case, cases, changed};
use doctor::checks::judge;
use doctor::{Finding, Severity};
use serde_json::{Value, json};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    cases! {
        "disk-scheduler": {"/disks/0/scheduler": "bfq"} / {"/disks/0/scheduler": "mq-deadline"};
        "disk-scheduler": {"/disks/4/scheduler": "mq-deadline"} / {"/disks/2/scheduler": "bfq"};
        "disk-cache-hidden": {"/disks/0/claims_volatile_cache": true}
            / {"/disks/0/claims_volatile_cache": true, "/disks/0/write_cache": "write back"};
        "disk-flush-slow": {"/server/members/0/flushes/p50_us": 3000} / {"/server/members/0/flushes/p50_us": 900};
        "disk-flush-ignored": {"/probes/flushes/0/times/p50_us": 60}
            / {"/probes/flushes/0/times/p50_us": 60, "/disks/2/transport": "virtio"};
        "disk-volatile-cache": {"/disks/1/claims_volatile_cache": true, "/disks/1/write_cache": "write back", "/server/members": []}
            / {"/disks/1/claims_volatile_cache": true, "/disks/1/write_cache": "write back"};
        "disk-discard": {"/disks/0/discard_max": 0} / {"/disks/2/discard_max": 0};
        "pcie-link": {"/disks/1/pcie/width": 2} / {"/disks/1/pcie": null};
        "pcie-link": {"/nics/0/pcie/speed": 8.0} / {"/nics/0/pcie/speed": 16.0};
        "disk-sector-format": {"/disks/0/formats/0/is_current": true, "/disks/0/formats/1/is_current": false}
            / {"/disks/0/formats/0": {"index": 0, "block": 512, "performance": 0, "is_current": true}, "/disks/0/formats/1/is_current": false};
        "disk-queue-depth": {"/disks/2/queue_depth": 1} / {"/disks/2/queue_depth": 31};
        "disk-link-power": {"/disks/2/link_power": "med_power_with_dipm"} / {"/disks/2/link_power": null};
        "disk-usb": {"/disks/0/transport": "usb"} / {"/disks/2/transport": "usb"};
        "disk-request-size": {"/disks/0/request_kib": 128} / {"/disks/0/request_kib": 128, "/disks/0/request_kib_max": 128};
        "disk-failing": {"/disks/2/smart/is_passed": false} / {"/disks/2/smart": null};
        "disk-temperature": {"/disks/0/smart/temperature": 70} / {"/disks/0/smart/temperature": 69};
        "disk-temperature": {"/disks/2/smart/temperature": 65} / {"/disks/2/smart/temperature": 64};
        "disk-wear": {"/disks/0/smart/wear_percent": 80} / {"/disks/0/smart/wear_percent": 79};
        "disk-spare": {"/disks/0/smart/spare_percent": 9} / {"/disks/0/smart/spare_percent": 10};
        "disk-media-errors": {"/disks/2/smart/media_errors": 8} / {"/disks/2/smart/media_errors": 0};
        "disk-firmware": {"/disks/0/model": "Samsung SSD 980 PRO 2TB", "/disks/0/firmware": "3B2QGXA7"}
            / {"/disks/0/model": "Samsung SSD 980 PRO 2TB", "/disks/0/firmware": "5B2QGXA7"};
        "server-silent": {"/silence": {"socket": "/run/wirepool/control.sock", "waited_ms": 2000}} / {"/silence": null};
        "pool-unusable": {"/server/pools/0/unusable": "a disk is missing"} / {"/server/pools": []};
        "export-held": {"/server/exports/1/held": ["tank/home: a disk of pool tank is missing"]} / {"/server/exports/1/held": []};
        "members-on-one-disk": {"/server/members/1/disk": "nvme0n1"} / {"/server/members/1/disk": "nvme0n1", "/server/members/1/vdev": "mirror-1"};
        "pool-full": {"/server/pools/0/used": 900000000000u64} / {"/server/pools/0/used": 899999999999u64};
        "sync-disabled": {"/server/pools/0/sync_disabled": ["tank/vm"]} / {"/server/pools/0/sync_disabled": []};
        "export-open": {"/server/exports/0/is_open": true} / {"/server/exports/0/is_open": false};
        "scrub-old": {"/server/pools/0/unscrubbed_s": 3200000} / {"/server/pools/0/unscrubbed_s": null};
        "member-state": {"/server/members/1/state": "faulted"} / {"/server/members": []};
        "spare-in-use": {"/server/spares/0/instead_of": "/dev/nvme1n1"} / {"/server/spares": []};
        "spare-unusable": {"/server/spares/0/unusable": "its disk was not found"} / {"/server/spares/0/instead_of": null};
        "expansion-waits": {"/server/expansions": [{"pool": "tank", "vdev": "raidz1-0", "done": 1, "of": 4, "waits_for": "a disk fails"}]}
            / {"/server/expansions": [{"pool": "tank", "vdev": "raidz1-0", "done": 1, "of": 4, "left_s": 60}]};
        "expansion-runs": {"/server/expansions": [{"pool": "tank", "vdev": "raidz1-0", "done": 1, "of": 4, "left_s": 60}]}
            / {"/server/expansions": [{"pool": "tank", "vdev": "raidz1-0", "done": 1, "of": 4, "waits_for": "a disk is missing"}]};
        "member-errors": {"/server/members/1/checksum_errors": 1} / {"/server/members/1/read_errors": 0};
        "mirror-uneven": {"/server/members/1/flushes/p50_us": 101} / {"/server/members/1/flushes/p50_us": 99};
        "member-write-tail": {"/server/members/0/writes/p99_us": 60000}
            / {"/server/members/0/writes": {"count": 10, "p50_us": 30, "p99_us": 60000}};
        "journal-on-slow-disks": {"/server/members/0/has_journal": true, "/server/members/0/writes/p50_us": 2000, "/server/members/1/writes/p50_us": 2000}
            / {"/server/members/0/writes/p50_us": 2000, "/server/members/1/writes/p50_us": 2000};
        "special-full": {"/server/pools/0/special": {"size": 1000, "free": 10, "takes_small_records": false, "spilled": [["tank/home", 5000]]}}
            / {"/server/pools/0/special": {"size": 1000, "free": 500, "takes_small_records": true, "spilled": []}};
        "class-less-redundant": {"/server/members/1/class": "special", "/server/members/1/vdev": "disk-1", "/server/members/1/may_fail": 0}
            / {"/server/members/1/class": "special", "/server/members/1/vdev": "mirror-1"};
        "class-on-hard-disk": {"/server/caches/0/disk": "sda"} / {"/server/caches/0/disk": "sda", "/disks/2/transport": "virtio"};
        "class-on-hard-disk": {"/server/members/1/class": "log", "/server/members/1/disk": "sda"} / {"/server/members/1/disk": "sda"};
        "cache-device-out": {"/server/caches/0/unusable": "the device disappeared"} / {"/server/caches": []};
        "cache-device-idle": {"/server/caches/0/hits": 10000} / {"/server/caches/0/hits": 10000, "/server/caches/0/used": 80000};
        "cache-before-memory": {"/server/pools/0/memory_first": "still growing"}
            / {"/server/pools/0/memory_first": "still growing", "/server/caches": []};
        "metadata-on-slow-disks": {"/server/pools/0/node_reads": 150000, "/server/pools/0/node_read_us": 9000}
            / {"/server/pools/0/node_reads": 150000, "/server/pools/0/node_read_us": 300};
        "metadata-on-slow-disks": {"/server/pools/0/node_reads": 100000, "/server/pools/0/node_read_us": 9000}
            / {"/server/pools/0/node_reads": 99000, "/server/pools/0/node_read_us": 9000};
        "member-not-trimmed": {"/server/members/0/is_autotrim_on": false}
            / {"/server/members/0/is_autotrim_on": false, "/disks/0/discard_max": 0};
        "member-on-file": {"/server/members/0/disk": {"unknown": "/srv is on tmpfs, which has no disk of its own"}}
            / {"/server/members/0/disk": {"unknown": "the disk is missing"}, "/server/members/0/state": "missing"};
    }
}

/// The findings of a check.
fn found(check: &str, changes: &[(&'static str, Value)]) -> Vec<Finding> {
    let report = judge(&changed(&changes.to_vec()), false);
    let own = report.findings.into_iter().filter(|f| f.check == check);
    own.collect()
}

#[test]
fn a_special_class_that_spilled_is_told_with_its_datasets_and_the_size_that_it_lacks() {
    let mib = 1u64 << 20;
    let spilled = json!([
        ["tank/a", mib],
        ["tank/b", 200 * mib],
        ["tank", 2 * mib],
        ["tank/c", 6 * mib]
    ]);
    let class = |takes: bool, spilled: &Value| json!({"size": 800 * mib, "free": 10 * mib, "takes_small_records": takes, "spilled": spilled});
    let full = found(
        "special-full",
        &[("/server/pools/0/special", class(false, &spilled))],
    );
    assert_eq!(full[0].severity, Severity::Warning);
    let said = "209 MiB went to the other vdevs since the pool was opened: tank/b 200 MiB, tank/c 6 MiB, tank 2 MiB and 1 more datasets";
    assert!(full[0].evidence.ends_with(said), "{}", full[0].evidence);
    let add = format!("{:?}", full[0].steps[0]);
    assert!(
        add.contains("pool add tank special mirror DISK DISK, of 279 MiB"),
        "{add}"
    );
    // It has room again, and the blocks that spilled may still be on the other vdevs.
    let roomy = found(
        "special-full",
        &[("/server/pools/0/special", class(true, &spilled))],
    );
    assert_eq!(roomy[0].severity, Severity::Note);
    let nearly = found(
        "special-full",
        &[("/server/pools/0/special", class(false, &json!([])))],
    );
    assert_eq!(nearly[0].severity, Severity::Note);
}

#[test]
fn a_class_on_a_hard_disk_is_worse_beside_flash() {
    let log = |data: &'static str| {
        let changes = [
            ("/server/members/1/class", json!("log")),
            ("/server/members/1/disk", json!("sda")),
            ("/server/members/0/disk", json!(data)),
        ];
        found("class-on-hard-disk", &changes).remove(0)
    };
    assert_eq!(log("nvme0n1").severity, Severity::Warning);
    assert_eq!(log("sda").severity, Severity::Note);
}
