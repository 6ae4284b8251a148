//! Cases of clients.

use crate::{Case, cases};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    cases! {
        "nfs-soft": {"/nfs_mounts/0/options": {"soft": "", "vers": "4.2", "nconnect": "4"}}
            / {"/nfs_mounts/0/options": {"hard": "", "vers": "4.2", "nconnect": "4"}};
        "nfs-version": {"/nfs_mounts/0/options/vers": "3"} / {"/nfs_mounts/0/options/vers": "4.1"};
        "nfs-udp": {"/nfs_mounts/0/options/proto": "udp"} / {"/nfs_mounts/0/options/proto": "tcp6"};
        "nfs-transfer-size": {"/nfs_mounts/0/options/wsize": "65536"} / {"/nfs_mounts/0/options/wsize": "262144"};
        "nfs-nconnect": {"/nfs_mounts/0/options/nconnect": "1"}
            / {"/nfs_mounts/0/options/nconnect": "1", "/nfs_mounts/0/options/addr": "127.0.0.1"};
        "nfs-timeo": {"/nfs_mounts/0/options/timeo": "14"} / {"/nfs_mounts/0/options/timeo": "100"};
        "nfs-sync-noac": {"/nfs_mounts/0/options": {"noac": "", "vers": "4.2", "nconnect": "4"}}
            / {"/nfs_mounts/0/options": {"acregmin": "3", "vers": "4.2", "nconnect": "4"}};
        "nfs-retransmissions": {"/nfs_mounts/0/retransmissions": 200} / {"/nfs_mounts/0/retransmissions": 90};
        "nfs-read-ahead": {"/nfs_mounts/0/read_ahead_kib": 128} / {"/nfs_mounts/0/read_ahead_kib": 1024};
        "nfs-dirty-memory": {"/memory/dirty_max": 13743895347u64} / {"/memory/dirty_max": 13743895347u64, "/nfs_mounts": []};
        "nvme-state": {"/nvme_controllers/0/state": "connecting"} / {"/nvme_controllers": []};
        "nvme-loss-timeout": {"/nvme_controllers/0/loss_timeout_s": 10} / {"/nvme_controllers/0/loss_timeout_s": null};
        "nvme-keep-alive": {"/nvme_controllers/0/keep_alive_s": 0} / {"/nvme_controllers/0/keep_alive_s": 30};
        "nvme-queues": {"/nvme_controllers/0/io_queues": 1} / {"/nvme_controllers/0/io_queues": 2, "/cpu/online": [0, 1]};
        "nvme-io-policy": {"/nvme_controllers/0/io_policy": "numa"}
            / {"/nvme_controllers/0/io_policy": "numa", "/nvme_controllers/1/state": "connecting"};
        "nvme-boot": {"/nvme_boot": false} / {"/nvme_boot": false, "/nvme_controllers": []};
        "iscsi-state": {"/iscsi_sessions/0/state": "FAILED"} / {"/iscsi_sessions": []};
        "iscsi-recovery": {"/iscsi_sessions/0/recovery_s": 120} / {"/iscsi_sessions/0/recovery_s": 30};
        "iscsi-recovery": {"/iscsi_sessions/0/disks/0/is_multipath": false}
            / {"/iscsi_sessions/0/disks/0/is_multipath": false, "/iscsi_sessions/0/recovery_s": 120};
        "iscsi-noop": {"/iscsi_sessions/0/noop_interval_s": 0} / {"/iscsi_sessions/0/noop_interval_s": 30};
        "iscsi-queue-depth": {"/iscsi_sessions/0/disks/0/queue_depth": 32} / {"/iscsi_sessions/0/disks/0/queue_depth": 64};
        "iscsi-disk-timeout": {"/iscsi_sessions/0/disks/0/timeout_s": 10} / {"/iscsi_sessions/0/disks/0/timeout_s": 30};
        "iscsi-no-multipath": {"/iscsi_sessions/0/disks/0/is_multipath": false, "/iscsi_sessions/1/disks/0/is_multipath": false}
            / {"/iscsi_sessions/0/disks/0/is_multipath": false, "/iscsi_sessions/1/disks/0/is_multipath": false,
               "/iscsi_sessions/1/disks/0/wwid": "naa.6002"};
    }
}
