//! The table of all metrics: names, kinds, labels, and help texts.
//!
//! **Owns** the table. **Called by** the encoder, which takes help and labels from it; by the generators of alert rules,
//! dashboard and `docs/metrics.md`. **Invariants**: a family that is not in the table, or has other labels, panics in debug
//! builds; names follow the conventions of Prometheus (prefix, base units, `_total` of counters), which its own linter checks
//! in a test.

/// Prefix of all names.
pub(crate) const PREFIX: &str = "wirepool";

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It has series for buckets, sum and count.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) kind: Kind,
    /// Its name without prefix and suffix.
    pub(crate) name: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

/// Metrics of one area.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) metrics: &'static [Metric],
}

/// The metric of this name without prefix and suffix.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    all().find(|m| m.name == name)
}

/// All metrics.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    SECTIONS.iter().flat_map(|s| s.metrics)
}

impl Metric {
    /// The name by which it is known: that of a histogram has no suffix.
    pub(crate) fn full_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{PREFIX}_{}_total", self.name),
            Kind::Gauge | Kind::Histogram => format!("{PREFIX}_{}", self.name),
        }
    }
}

/// Makes the sections. A line has kind, name, labels, help.
macro_rules! sections {
    ($(section $title:literal { $($kind:ident $name:ident [$($label:ident)*] $help:literal;)* })*) => {
        /// The metrics by area.
        pub(crate) const SECTIONS: &[Section] = &[$(Section {
            title: $title,
            metrics: &[$(Metric {
                kind: Kind::$kind,
                name: stringify!($name),
                labels: &[$(stringify!($label)),*],
                help: $help,
            }),*],
        }),*];
    };
}

sections! {
    section "The server and its threads" {
        Counter accept_exhausted [] "Pauses of listeners for lack of descriptors or memory";
        Gauge build_info [version] "Always 1; the version is its label";
        Gauge uptime_seconds [] "Time since the server started";
        Gauge warnings [] "Number of warnings in `wirepool status`";
        Gauge open_files_limit [] "Limit of open descriptors";
        Gauge connections_limit [] "Limit of connections";
        Counter accept_dropped [] "Connections that no shard accepted";
        Gauge shard_up [shard] "1 if the shard answers, 0 if its thread does not";
        Gauge shard_connections [shard] "Connections of the shard";
        Gauge shard_stalled_seconds [shard] "Time for which the shard has made no progress, by the watchdog";
        Counter shard_cpu_seconds [shard] "Processor time of the shard";
        Counter shard_turns [shard] "Turns of the shard";
        Gauge buffer_pool_limit_bytes [shard] "Limit of the shard's buffer pool";
        Gauge buffer_pool_used_bytes [shard] "Bytes of the pool in use";
        Gauge buffer_pool_idle_bytes [shard] "Bytes of the pool kept for reuse";
        Gauge buffer_pool_waiting [shard] "Requests that wait for a buffer; above zero for long means that buffer_mib is too small";
    }
    section "Disks, pools and their members" {
        Gauge disk_online [disk kind] "1 if the disk is open, 0 if it is held back";
        Gauge disk_healthy [disk kind] "1 if the last check of the disk found no error";
        Gauge disk_size_bytes [disk kind] "Size of the disk";
        Gauge disk_used_bytes [disk kind] "Allocated space of the disk";
        Gauge pool_online [pool] "1 if the pool is open, 0 if it is held back";
        Gauge pool_healthy [pool] "1 if every member of the pool has every block, and the pool takes writes";
        Gauge pool_sync_disabled_volumes [pool] "Volumes and filesystems of the pool with sync=disabled";
        Gauge pool_member_latency_seconds [pool member path kind percentile] "Durations of the disk's operations since the pool was opened, by percentile";
        Gauge pool_damaged_ranges [pool] "Unreadable ranges of volumes and snapshots that reads, scrubs and resilvers found";
        Gauge pool_resilvering [pool] "1 during a resilver of the pool";
        Gauge pool_spares [pool state] "Hot spares of the pool, by state: avail, inuse or unavail";
        Counter pool_spares_taken [pool] "How often a hot spare took the place of a disk";
        Gauge pool_size_bytes [pool] "Size of the pool's allocator: used, freeing and free";
        Gauge pool_used_bytes [pool] "Space taken in the pool";
        Gauge pool_freeing_bytes [pool] "Space that the next checkpoint makes reusable";
        Gauge pool_free_bytes [pool] "Free space of the pool";
        Gauge pool_dirty_bytes [pool] "Bytes acknowledged that are only in memory";
        Gauge pool_record_cache_limit_bytes [pool] "Limit of the pool's record cache";
        Gauge pool_record_cache_bytes [pool] "Size of the record cache with its tables";
        Counter pool_record_cache_hits [pool] "Lookups that found a record in the record cache";
        Counter pool_record_cache_misses [pool] "Lookups that did not find a record in the record cache";
        Counter pool_record_cache_ghost_hits [pool] "Misses that a record cache of twice the size would probably have found";
        Counter pool_member_reads [pool member path] "Reads of the disk";
        Counter pool_member_writes [pool member path] "Writes of the disk";
        Counter pool_member_read_bytes [pool member path] "Bytes read from the disk";
        Counter pool_member_written_bytes [pool member path] "Bytes written to the disk";
        Counter pool_member_read_errors [pool member path] "Reads of the disk that failed since the pool was opened";
        Counter pool_member_write_errors [pool member path] "Writes and flushes of the disk that failed";
        Counter pool_member_no_space [pool member path] "Writes for which the file system below the disk had no space";
        Counter pool_member_checksum_errors [pool member path] "Blocks of the disk with a wrong checksum";
        Counter pool_member_repairs [pool member path] "Blocks of the disk that were repaired from another member";
        Gauge pool_scrub_running [pool] "1 during a scrub of the pool";
        Gauge pool_scrub_done_bytes [pool] "Bytes the last scrub has read";
        Gauge pool_scrub_repaired [pool] "Copies that the last scrub repaired";
        Gauge pool_scrub_lost [pool] "Blocks that the last scrub found without a correct copy";
        Counter pool_member_class_written_bytes [pool member path class] "Bytes written to the disk by class: data, journal, nodes, labels, repair";
        Counter pool_member_disk_written_bytes [pool member path] "Bytes that hosts wrote to the disk in its life, by the disk's own counter; absent if the disk does not tell";
        Counter pool_member_media_written_bytes [pool member path] "Bytes that the disk wrote to its medium in its life, by the disk's own counter; absent if the disk does not tell";
        Gauge pool_member_endurance_used_ratio [pool member path] "Used part of the disk's endurance as its vendor estimates it, 1 is all; absent if the disk does not tell";
        Gauge pool_member_endurance_left_seconds [pool member path] "Forecast of the time that the disk's endurance lasts; absent if it is unknown";
        Counter pool_written_bytes [pool class] "Blocks and batches that the pool wrote by class, each once for all members of a mirror";
        Gauge pool_journal_size_bytes [pool] "Size of the pool's journal";
        Gauge pool_journal_used_bytes [pool] "Bytes of the journal that a start after a crash would replay";
        Counter pool_journal_full [pool] "Times that a change found no room in the journal, and waited for a checkpoint";
        Gauge pool_last_checkpoint_timestamp_seconds [pool] "Time of the last durable checkpoint, seconds since 1970";
    }
    section "Volumes and filesystems" {
        Gauge volume_size_bytes [volume] "Size of the volume as clients see it";
        Gauge volume_used_bytes [volume] "Bytes of the volume's records as stored, as of the last checkpoint";
        Gauge filesystem_mounted [filesystem] "1 if the filesystem is mounted, 0 if the configuration has a mount that is not there";
        Counter mount_operations [filesystem operation] "Requests of the kernel that were answered, by kind";
        Counter mount_operation_errors [filesystem operation] "Requests of the kernel that failed, by kind";
        Gauge mount_latency_seconds [filesystem operation percentile] "Time from a request of the kernel to its answer since the mount, by percentile";
        Gauge filesystem_used_bytes [filesystem] "Bytes of the filesystem and its snapshots as stored, as of the last checkpoint";
        Gauge filesystem_snapshot_bytes [filesystem] "Bytes that only snapshots of the filesystem hold";
        Gauge filesystem_referenced_bytes [filesystem] "Bytes of the filesystem as stored, including shared ones";
        Gauge filesystem_available_bytes [filesystem] "Bytes that can still be written to the filesystem";
        Gauge filesystem_quota_bytes [filesystem] "Quota of the filesystem, 0 for none";
        Counter mount_read_bytes [filesystem] "Bytes that the kernel read";
        Counter mount_written_bytes [filesystem] "Bytes that the kernel wrote";
        Gauge mount_requests_in_flight [filesystem] "Requests of the kernel that are not answered";
        Gauge mount_known_objects [filesystem] "Objects that the kernel knows";
        Gauge mount_open_files [filesystem] "Open files";
        Counter dataset_client_written_bytes [dataset] "Data of acknowledged writes of clients to the volume or filesystem";
        Counter dataset_written_bytes [dataset class] "Bytes written for the volume or filesystem by class: data, journal, nodes; each block once for all members of a mirror";
        Gauge volume_snapshot_bytes [volume] "Bytes that only snapshots of the volume hold";
    }
    section "Requests and sessions of every protocol" {
        Counter requests [protocol export command] "Requests that ended, since the export was published; export is the subsystem or target, and nfs for all exports over NFS";
        Counter request_stage_seconds [protocol export command stage] "Time of these requests in each stage; divided by the requests, the parts of the mean latency";
        Counter hosts_refused [protocol reason] "Connections, logins and mounts of hosts that were refused, by reason: not_listed (no access list or client rule has the host), no_secret or unprivileged_port; `wirepool session refused` names the hosts";
        Gauge sessions [] "Sessions now";
        Counter session_received_bytes [session client export] "Bytes received from the host";
        Counter session_sent_bytes [session client export] "Bytes sent to the host";
        Counter session_commands [session client export] "Commands of the session";
        Counter session_errors [session client export] "Commands that failed";
        Counter session_retransmits [session client export] "TCP segments sent again";
        Counter session_reconnects [session client export] "Times the host connected again";
        Gauge session_queues [session client export] "I/O queues of the session";
        Gauge session_rtt_seconds [session client export] "Smoothed round-trip time of its slowest queue";
        Gauge session_keep_alive_age_seconds [session client export] "Time since the last message of the host";
        Gauge session_latency_seconds [session client export command percentile] "Time from a command to its answer since the session began, by percentile";
    }
    section "NVMe" {
        Counter connects_forbidden [] "Connect commands refused because the host is not on the subsystem's list";
        Gauge subsystem_sessions [subsystem] "Sessions to the subsystem";
        Gauge namespace_served [subsystem nsid disk] "1 if clients see the namespace, 0 if it is held back";
        Counter subsystem_read_bytes [subsystem] "Bytes that clients read";
        Counter subsystem_written_bytes [subsystem] "Bytes that clients wrote or zeroed";
        Counter subsystem_media_errors [subsystem] "Commands that failed with a media error";
        Histogram subsystem_command_seconds [subsystem command] "Time from an I/O command to its answer, 10 µs to 30 s in steps of 1, 2, 5";
        Counter connections_accepted [] "Connections taken";
        Gauge connections_open [] "Connections open now";
        Gauge connections [state] "Connections now, by state";
        Counter connections_closed [reason] "Connections that ended, by reason";
        Counter connects_refused [] "Connect commands refused";
        Counter pdu_errors [status] "Fatal PDU errors found, by the status sent";
        Counter data_digest_errors [] "Data digests that did not match";
        Counter log_lines_suppressed [] "Log lines dropped by the rate limit";
        Counter received_bytes [] "Bytes received from clients";
        Counter sent_bytes [] "Bytes sent to clients";
        Counter control_commands [class] "Commands other than I/O, by class";
        Counter io_commands [opcode] "I/O commands, by opcode";
        Counter command_errors [status] "Commands that failed, by status";
    }
    section "iSCSI" {
        Gauge target_sessions [target] "Sessions with the target";
        Gauge target_lun_served [target lun disk] "1 if initiators see the logical unit, 0 if it is held back";
        Gauge iscsi_connections_open [] "iSCSI connections open now";
        Gauge iscsi_connections [state] "iSCSI connections now, by state";
        Counter iscsi_connections_closed [reason] "iSCSI connections that ended, by reason";
        Counter iscsi_logins_refused [status] "Logins refused, by status class and detail in hexadecimal";
        Counter iscsi_pdus_rejected [reason] "PDUs rejected, by reason";
        Counter iscsi_command_errors [status] "SCSI commands that did not end with GOOD, by status in hexadecimal";
        Counter iscsi_connections_accepted [] "iSCSI connections taken";
        Counter iscsi_logins [] "Logins that reached the full feature phase";
        Counter iscsi_header_digest_errors [] "iSCSI header digests that did not match";
        Counter iscsi_data_digest_errors [] "iSCSI data digests that did not match";
        Counter iscsi_ignored_commands [] "Commands ignored because their CmdSN was outside the window";
        Counter iscsi_discarded_data [] "Data-Out PDUs without a task";
        Counter iscsi_task_management [] "Task management functions";
        Counter iscsi_commands [] "SCSI commands";
        Counter iscsi_received_bytes [] "Bytes received from initiators";
        Counter iscsi_sent_bytes [] "Bytes sent to initiators";
        Counter iscsi_log_lines_suppressed [] "Log lines about initiators dropped by the rate limit";
    }
    section "NFS" {
        Gauge nfs_export_served [export filesystem] "1 if clients see the export, 0 if it is held back";
        Gauge nfs_connections [state] "NFS connections now, by state";
        Counter nfs_refused_calls [reason] "Calls that RPC refused, by reason: program, version, procedure, arguments, rpc, credential";
        Counter nfs_tls_handshakes [result] "TLS handshakes of NFS clients, by result";
        Counter nfs_connections_closed [reason] "NFS connections that ended, by reason";
        Counter nfs_operations [operation] "Operations, by name";
        Counter nfs_operation_failures [operation status] "Operations that failed, by name and status";
        Counter nfs3_procedures [procedure] "Procedures of version 3, by name";
        Counter nfs3_procedure_failures [procedure status] "Procedures of version 3 that failed, by name and status";
        Counter nfs3_host_calls [host] "Calls of version 3 and MOUNT, by host";
        Counter nfs3_host_refused_calls [host] "Calls of version 3 and MOUNT that RPC refused, by host";
        Counter nfs3_host_received_bytes [host] "Bytes of calls of version 3 and MOUNT, by host";
        Counter nfs3_host_sent_bytes [host] "Bytes of replies of version 3 and MOUNT, by host";
        Gauge nfs3_host_silence_seconds [host] "Time since the last call of version 3 or MOUNT, by host";
        Gauge nfs_clients [] "Records of NFS clients";
        Gauge nfs_sessions [] "Sessions of NFS clients";
        Gauge nfs_slots [] "Slots of all NFS sessions";
        Gauge nfs_states [] "Opens and lock states of NFS clients";
        Gauge nfs_delegations [] "Delegations that clients hold";
        Gauge nfs_kept_names [] "Names of client rules that have no answer now, whose last addresses are in force";
        Gauge nfs_unresolved_names [] "Names of client rules that never had an answer: clients wait whose rights depend on them";
        Counter nfs_connections_accepted [] "NFS connections taken";
        Counter nfs_received_bytes [] "Bytes received from NFS clients";
        Counter nfs_sent_bytes [] "Bytes sent to NFS clients";
        Counter nfs_replays [] "Requests that were answered from a reply cache";
        Counter nfs_delegations_granted [] "Delegations that clients were granted";
        Counter nfs_delegations_recalled [] "Delegations that were recalled";
        Counter nfs_delegations_revoked [] "Delegations that were revoked because they were not returned in time";
        Counter nfs_callbacks [] "Callbacks that were sent to clients";
        Counter nfs_callback_failures [] "Callbacks that no client answered in time";
        Counter nfs_lock_notices [] "Lock owners that heard that the locks that they waited for were free";
        Counter nfs_tls_probes_refused [] "Requests for TLS that were refused";
    }
}
