//! Alert rules for Prometheus.
//!
//! **Owns** the rules. **Called by** `wirepool monitoring prometheus-rules`. **Invariants**: an expression has only metrics and
//! labels of the [table](super::table) (a test checks it); each rule has a series that fires it and one that does not, which
//! Debian's promtool runs in a test; each description says what to do. Strings are JSON, which is YAML.

use serde_json::json;

/// A rule.
pub(super) struct Alert {
    pub(super) name: &'static str,
    /// `critical`: data or service is at risk now; `warning`: act within days; `info`: look at it.
    severity: &'static str,
    /// How long the expression must hold.
    hold: &'static str,
    pub(super) expr: &'static str,
    summary: &'static str,
    description: &'static str,
}

/// Makes the rules. A line has name, severity, time, expression; then summary, and description.
macro_rules! alerts {
    ($($name:ident $severity:ident $hold:literal $expr:literal $summary:literal $description:literal;)*) => {
        /// All rules.
        pub(super) const ALERTS: &[Alert] = &[$(Alert {
            name: concat!("Wirepool", stringify!($name)),
            severity: stringify!($severity),
            hold: $hold,
            expr: $expr,
            summary: $summary,
            description: $description,
        }),*];
    };
}

alerts! {
    Down critical "2m" r#"up{job=~".*wirepool.*"} == 0"#
        "Wirepool on {{ $labels.instance }} does not answer"
        "The metrics port has not answered for two minutes. Look at `systemctl status wirepool` and its journal; clients may be without their disks.";
    ShardStuck critical "2m" "wirepool_shard_up == 0"
        "A thread of Wirepool on {{ $labels.instance }} does not answer"
        "Shard {{ $labels.shard }} has not answered for two minutes. Connections on it stand still. Look at the log, and at `wirepool status`.";
    PoolOffline critical "2m" "wirepool_pool_online == 0"
        "Pool {{ $labels.pool }} is not open"
        "Its exports are held back. `wirepool pool status {{ $labels.pool }}` names the reason and the missing disks.";
    PoolDegraded warning "5m" "wirepool_pool_healthy == 0 and wirepool_pool_online == 1"
        "Pool {{ $labels.pool }} is degraded"
        "A member is missing, faulted, offline or stale; another loss may cost data. `wirepool pool status -v {{ $labels.pool }}` names it; replace it with `wirepool pool replace`.";
    SpareInUse warning "5m" "wirepool_pool_spares{state=\"inuse\"} > 0"
        "Pool {{ $labels.pool }} uses {{ $value }} hot spares"
        "A disk failed. `wirepool pool status {{ $labels.pool }}` names it; put in a new one with `wirepool pool replace`.";
    NoSpareLeft warning "15m" "wirepool_pool_spares{state=\"avail\"} == 0 and ignoring (state) (wirepool_pool_spares{state=\"inuse\"} > 0 or wirepool_pool_spares{state=\"unavail\"} > 0)"
        "Pool {{ $labels.pool }} has no hot spare left"
        "Its spares are in use or were not found. `wirepool pool add {{ $labels.pool }} spare DISK` adds one.";
    DiskHeldBack critical "5m" "wirepool_disk_online == 0"
        "Disk {{ $labels.disk }} cannot be opened"
        "Its export is held back. `wirepool disk list` has the reason.";
    AddressNotServed warning "10m" "wirepool_addresses_not_served > 0"
        "{{ $value }} addresses are not served over {{ $labels.transport }}"
        "The machine lacks the address, or a part that RDMA needs. Hosts use other addresses or TCP, or have no path. `wirepool status` has the reason.";
    DeviceErrors warning "0m" "increase(wirepool_pool_member_read_errors_total[15m]) + increase(wirepool_pool_member_write_errors_total[15m]) > 0"
        "I/O errors of {{ $labels.path }} in pool {{ $labels.pool }}"
        "Reads, writes or flushes failed in the last 15 minutes. Look at cables and at the disk's SMART report (`wirepool doctor`); replace the disk if the errors go on.";
    ChecksumErrors warning "0m" "increase(wirepool_pool_member_checksum_errors_total[1h]) > 0"
        "Wrong checksums of {{ $labels.path }} in pool {{ $labels.pool }}"
        "The disk returned wrong data in the last hour; mirrors repair it. Start `wirepool pool scrub {{ $labels.pool }}`, and replace the disk if it happens again.";
    FileSystemFull critical "0m" "increase(wirepool_pool_member_no_space_total[15m]) > 0"
        "The file system below {{ $labels.path }} is full"
        "Writes of pool {{ $labels.pool }} wait or fail. Free space in that file system.";
    DataDamaged critical "0m" "wirepool_pool_damaged_ranges > 0 or wirepool_pool_scrub_lost > 0"
        "Pool {{ $labels.pool }} has unreadable data"
        "No member has a right copy. `wirepool pool status -v {{ $labels.pool }}` lists the ranges; restore them from a backup or a snapshot.";
    ScrubRepaired warning "0m" "wirepool_pool_scrub_repaired > 0"
        "The last scrub of pool {{ $labels.pool }} repaired {{ $value }} copies"
        "A disk had wrong or unreadable copies. `wirepool pool status -v {{ $labels.pool }}` shows which; watch it, or replace it.";
    Space80 warning "15m" "1 - wirepool_pool_free_bytes / wirepool_pool_size_bytes > 0.8"
        "Pool {{ $labels.pool }} is {{ $value | humanizePercentage }} full"
        "Writes become slower as free space falls into fragments. Delete snapshots (`wirepool snapshot list`), or add a vdev (`wirepool pool add`).";
    Space90 critical "5m" "1 - wirepool_pool_free_bytes / wirepool_pool_size_bytes > 0.9"
        "Pool {{ $labels.pool }} is {{ $value | humanizePercentage }} full"
        "Writes will fail soon. Delete snapshots (`wirepool snapshot list`), or add a vdev (`wirepool pool add`).";
    SpecialFull warning "5m" "increase(wirepool_pool_special_spilled_bytes_total[1h]) > 0"
        "The special class of pool {{ $labels.pool }} has no room"
        "{{ $value | humanize1024 }}B of metadata and small records went to slower disks within an hour. `wirepool pool status -v {{ $labels.pool }}` names the datasets; add a special vdev (`wirepool pool add {{ $labels.pool }} special mirror DISK DISK`), or lower special_small_blocks.";
    SpecialNearlyFull info "1h" "wirepool_pool_special_free_bytes / wirepool_pool_special_size_bytes < 0.25"
        "The special class of pool {{ $labels.pool }} has {{ $value | humanizePercentage }} free"
        "Small records go to slower disks from now on: the rest is for metadata. `wirepool pool advise special {{ $labels.pool }}` has the sizes.";
    LogLost warning "0m" "increase(wirepool_pool_logs_lost_total[1h]) > 0"
        "A log of pool {{ $labels.pool }} failed and left it"
        "Nothing was lost; durable writes are as slow as the other disks. Add another log: `wirepool pool add {{ $labels.pool }} log mirror DISK DISK`.";
    CacheDeviceOut warning "15m" "wirepool_pool_cache_device_online == 0"
        "Cache device {{ $labels.path }} of pool {{ $labels.pool }} is not used"
        "It failed or was not found; all data is read from the other disks. Remove it (`wirepool pool remove {{ $labels.pool }} {{ $labels.path }}`) and add one that works.";
    VolumeSnapshotSpace info "1h" "wirepool_volume_snapshot_bytes > 10e9 and wirepool_volume_snapshot_bytes > 0.5 * wirepool_volume_used_bytes"
        "Snapshots of {{ $labels.volume }} take {{ $value | humanize1024 }}B"
        "More than its present data. `wirepool snapshot list` shows the space of each; destroy what is not needed.";
    FilesystemSnapshotSpace info "1h" "wirepool_filesystem_snapshot_bytes > 10e9 and wirepool_filesystem_snapshot_bytes > 0.5 * wirepool_filesystem_used_bytes"
        "Snapshots of {{ $labels.filesystem }} take {{ $value | humanize1024 }}B"
        "More than half of its space. `wirepool snapshot list` shows the space of each; destroy what is not needed.";
    JournalFull warning "15m" "increase(wirepool_pool_journal_full_total[10m]) > 0"
        "Changes of pool {{ $labels.pool }} wait for its journal"
        "Checkpoints are slower than the clients' writes. `wirepool why` shows the stage; the devices are too slow, or the journal is too small for this load.";
    CheckpointOld warning "5m" "time() - wirepool_pool_last_checkpoint_timestamp_seconds > 3600 and wirepool_pool_journal_used_bytes / wirepool_pool_journal_size_bytes > 0.75"
        "Pool {{ $labels.pool }} has had no checkpoint for {{ $value | humanizeDuration }}"
        "Its journal is three quarters full. A checkpoint should have come: look at the log, and try `wirepool pool checkpoint {{ $labels.pool }}`.";
    WearHigh warning "1h" "wirepool_pool_member_endurance_used_ratio >= 0.8"
        "{{ $labels.path }} has used {{ $value | humanizePercentage }} of its endurance"
        "Plan its replacement: `wirepool pool replace {{ $labels.pool }}`. Members of a mirror wear equally; replace them one by one.";
    WearForecast warning "6h" "wirepool_pool_member_endurance_left_seconds < 90 * 86400"
        "{{ $labels.path }} lasts {{ $value | humanizeDuration }} at the present rate"
        "Less than 90 days. `wirepool pool iostat -w {{ $labels.pool }} 60` shows which dataset writes; plan a replacement.";
    NvmeSessionsLost warning "0m" r#"increase(wirepool_connections_closed_total{reason=~"network|keep_alive|send_stall|data_timeout"}[15m]) > 0"#
        "NVMe connections of {{ $labels.instance }} were lost: {{ $labels.reason }}"
        "{{ $value }} in 15 minutes. Hosts reconnect by themselves; look at the network, and at `wirepool session list`.";
    IscsiSessionsLost warning "0m" r#"increase(wirepool_iscsi_connections_closed_total{reason=~"network|silent|send_stall|data_timeout"}[15m]) > 0"#
        "iSCSI connections of {{ $labels.instance }} were lost: {{ $labels.reason }}"
        "{{ $value }} in 15 minutes. Initiators reconnect by themselves; look at the network, and at `wirepool session list`.";
    NfsSessionsLost warning "0m" r#"increase(wirepool_nfs_connections_closed_total{reason=~"network|send_stall|data_timeout"}[15m]) > 0"#
        "NFS connections of {{ $labels.instance }} were lost: {{ $labels.reason }}"
        "{{ $value }} in 15 minutes. Clients reconnect by themselves; look at the network, and at `wirepool session list`.";
    LoginsRefused warning "0m" r#"increase(wirepool_iscsi_logins_refused_total{status="0201"}[15m]) > 5"#
        "iSCSI logins with wrong secrets on {{ $labels.instance }}"
        "An initiator has an old secret, or somebody guesses. The log names the address; see `wirepool export chap`.";
    DelegationsRevoked warning "0m" "increase(wirepool_nfs_delegations_revoked_total[1h]) > 0"
        "NFS clients of {{ $labels.instance }} did not return delegations"
        "A client did not answer a recall in time. Check that its callback path is not blocked.";
    SlowStage warning "10m" "sum by (instance, job, protocol, export, stage) (rate(wirepool_request_stage_seconds_total[5m])) / ignoring (stage) group_left () sum by (instance, job, protocol, export) (rate(wirepool_requests_total[5m])) > 0.1"
        "Requests of {{ $labels.export }} spend {{ $value | humanizeDuration }} in stage {{ $labels.stage }}"
        "On average over five minutes. `wirepool why {{ $labels.export }}` says what limits it, and what would help.";
    BuffersShort warning "10m" "wirepool_buffer_pool_waiting > 0"
        "Requests of {{ $labels.instance }} wait for buffers"
        "The buffer pool of shard {{ $labels.shard }} is too small for this load: raise buffer_mib of [server].";
    NamespaceHeldBack critical "5m" "wirepool_namespace_served == 0"
        "Namespace {{ $labels.nsid }} of {{ $labels.subsystem }} is held back"
        "Its disk {{ $labels.disk }} is not available. `wirepool status` has the reason.";
    UnitHeldBack critical "5m" "wirepool_target_lun_served == 0"
        "LUN {{ $labels.lun }} of {{ $labels.target }} is held back"
        "Its disk {{ $labels.disk }} is not available. `wirepool status` has the reason.";
    NfsExportHeldBack critical "5m" "wirepool_nfs_export_served == 0"
        "NFS export {{ $labels.export }} is held back"
        "Its filesystem {{ $labels.filesystem }} is not available. `wirepool status` has the reason.";
    NotMounted warning "5m" "wirepool_filesystem_mounted == 0"
        "{{ $labels.filesystem }} is not mounted"
        "The configuration has a mount that is not there. `wirepool fs list` has the reason.";
    SyncDisabled info "1h" "wirepool_pool_sync_disabled_volumes > 0"
        "Pool {{ $labels.pool }} has {{ $value }} datasets with sync=disabled"
        "Their clients are told that writes are stable that a power cut may lose. Set sync=standard unless that is meant.";
    Warnings info "15m" "wirepool_warnings > 0"
        "Wirepool on {{ $labels.instance }} has {{ $value }} warnings"
        "`wirepool status` lists them.";
}

/// The rules as a file for Prometheus.
#[must_use]
pub fn alert_rules() -> String {
    let mut out =
        "# Made by `wirepool monitoring prometheus-rules`.\ngroups:\n- name: wirepool\n  rules:\n"
            .to_owned();
    for a in ALERTS {
        for (key, value) in [
            ("- alert", json!(a.name)),
            ("  expr", json!(a.expr)),
            ("  for", json!(a.hold)),
            ("  labels", json!({"severity": a.severity})),
            (
                "  annotations",
                json!({"summary": a.summary, "description": a.description}),
            ),
        ] {
            out += &format!("  {key}: {value}\n");
        }
    }
    out
}
