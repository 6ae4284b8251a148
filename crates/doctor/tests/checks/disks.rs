//! Cases of disks, and of the disks of pools.

use crate::{Case, cases};

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
        "member-not-trimmed": {"/server/members/0/is_autotrim_on": false}
            / {"/server/members/0/is_autotrim_on": false, "/disks/0/discard_max": 0};
        "member-on-file": {"/server/members/0/disk": {"unknown": "/srv is on tmpfs, which has no disk of its own"}}
            / {"/server/members/0/disk": {"unknown": "the disk is missing"}, "/server/members/0/state": "missing"};
    }
}
