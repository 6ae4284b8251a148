//! A dashboard for Grafana.
//!
//! **Owns** the panels. **Called by** `wirepool monitoring grafana-dashboard`. **Invariants**: a panel has only metrics and
//! labels that [`super::sections`] has (a test checks it); the dashboard asks for its data source when it is imported, and
//! selects the server by `instance`.

use serde_json::{Value, json};

/// A panel with its title, unit, and expressions with their legends. `$s` is the selector of the server.
pub(super) struct Panel {
    title: &'static str,
    unit: &'static str,
    pub(super) queries: &'static [(&'static str, &'static str)],
}

/// Panels in one row have half of the width each.
const WIDTH: usize = 12;
const HEIGHT: usize = 8;
/// The selector of the server.
pub(super) const SERVER: &str = r#"instance=~"$instance""#;

/// Makes the panels. A line has title, unit, and pairs of expression and legend.
macro_rules! panels {
    ($($title:literal $unit:ident [$($expr:literal => $legend:literal),*];)*) => {
        /// All panels, in order.
        pub(super) const PANELS: &[Panel] = &[$(Panel {
            title: $title,
            unit: stringify!($unit),
            queries: &[$(($expr, $legend)),*],
        }),*];
    };
}

panels! {
    "Pools: used part" percentunit ["1 - wirepool_pool_free_bytes{$s} / wirepool_pool_size_bytes{$s}" => "{{pool}}"];
    "Pools: healthy" short ["wirepool_pool_healthy{$s}" => "{{pool}}"];
    "Bytes of clients" Bps ["sum by (dataset) (rate(wirepool_dataset_client_written_bytes_total{$s}[5m]))" => "{{dataset}}"];
    "Write amplification" short ["sum by (instance) (rate(wirepool_pool_member_class_written_bytes_total{$s}[1h])) / sum by (instance) (rate(wirepool_dataset_client_written_bytes_total{$s}[1h]))" => "{{instance}}"];
    "Bytes to disks by class" Bps ["sum by (class) (rate(wirepool_pool_member_class_written_bytes_total{$s}[5m]))" => "{{class}}"];
    "Bytes of disks" Bps [
        "rate(wirepool_pool_member_read_bytes_total{$s}[5m])" => "read {{path}}",
        "rate(wirepool_pool_member_written_bytes_total{$s}[5m])" => "write {{path}}"
    ];
    "Latency of disks, 99 %" s [r#"wirepool_pool_member_latency_seconds{$s, percentile="99"}"# => "{{kind}} {{path}}"];
    "Errors of disks" short [
        "increase(wirepool_pool_member_read_errors_total{$s}[1h])" => "read {{path}}",
        "increase(wirepool_pool_member_write_errors_total{$s}[1h])" => "write {{path}}",
        "increase(wirepool_pool_member_checksum_errors_total{$s}[1h])" => "checksum {{path}}"
    ];
    "Endurance used" percentunit ["wirepool_pool_member_endurance_used_ratio{$s}" => "{{path}}"];
    "Endurance left" s ["wirepool_pool_member_endurance_left_seconds{$s}" => "{{path}}"];
    "Requests" reqps ["sum by (export, command) (rate(wirepool_requests_total{$s}[5m]))" => "{{command}} {{export}}"];
    "Time of a request by stage" s ["sum by (stage) (rate(wirepool_request_stage_seconds_total{$s}[5m])) / ignoring (stage) group_left () sum(rate(wirepool_requests_total{$s}[5m]))" => "{{stage}}"];
    "Latency of NVMe commands, 99 %" s ["histogram_quantile(0.99, sum by (le, command) (rate(wirepool_subsystem_command_seconds_bucket{$s}[5m])))" => "{{command}}"];
    "Bytes from and to NVMe and iSCSI clients" Bps [
        "rate(wirepool_received_bytes_total{$s}[5m])" => "NVMe in",
        "rate(wirepool_sent_bytes_total{$s}[5m])" => "NVMe out",
        "rate(wirepool_iscsi_received_bytes_total{$s}[5m])" => "iSCSI in",
        "rate(wirepool_iscsi_sent_bytes_total{$s}[5m])" => "iSCSI out"
    ];
    "Sessions" short [
        "wirepool_sessions{$s}" => "all",
        "wirepool_nfs_clients{$s}" => "NFS clients"
    ];
    "Connections that were lost" short [
        r#"increase(wirepool_connections_closed_total{$s, reason=~"network|keep_alive|send_stall|data_timeout"}[15m])"# => "NVMe {{reason}}",
        r#"increase(wirepool_iscsi_connections_closed_total{$s, reason=~"network|silent|send_stall|data_timeout"}[15m])"# => "iSCSI {{reason}}"
    ];
    "Journal: used part" percentunit ["wirepool_pool_journal_used_bytes{$s} / wirepool_pool_journal_size_bytes{$s}" => "{{pool}}"];
    "Age of the last checkpoint" s ["time() - wirepool_pool_last_checkpoint_timestamp_seconds{$s}" => "{{pool}}"];
    "Record cache: found" percentunit ["rate(wirepool_pool_record_cache_hits_total{$s}[5m]) / (rate(wirepool_pool_record_cache_hits_total{$s}[5m]) + rate(wirepool_pool_record_cache_misses_total{$s}[5m]))" => "{{pool}}"];
    "Space of snapshots" bytes [
        "wirepool_volume_snapshot_bytes{$s}" => "{{volume}}",
        "wirepool_filesystem_snapshot_bytes{$s}" => "{{filesystem}}"
    ];
    "Processor time of threads" percentunit ["rate(wirepool_shard_cpu_seconds_total{$s}[5m])" => "shard {{shard}}"];
    "Buffers of threads" bytes ["wirepool_buffer_pool_used_bytes{$s}" => "shard {{shard}}"];
}

fn panel((n, panel): (usize, &Panel)) -> Value {
    let target = |(n, (expr, legend)): (usize, &(&str, &str))| {
        json!({
            "refId": char::from(b'A' + n as u8).to_string(),
            "expr": expr.replace("$s", SERVER),
            "legendFormat": legend,
        })
    };
    let targets: Vec<_> = panel.queries.iter().enumerate().map(target).collect();
    json!({
        "id": n + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
        "gridPos": {"x": n % 2 * WIDTH, "y": n / 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    })
}

/// The dashboard, as Grafana imports it.
#[must_use]
pub fn grafana_dashboard() -> Value {
    let panels: Vec<_> = PANELS.iter().enumerate().map(panel).collect();
    json!({
        "__inputs": [{
            "name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus",
        }],
        "uid": "wirepool",
        "title": "Wirepool",
        "tags": ["wirepool"],
        "schemaVersion": 38,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [{
            "name": "instance", "label": "Server", "type": "query", "multi": true, "includeAll": true,
            "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
            "query": "label_values(wirepool_build_info, instance)", "refresh": 2,
        }]},
        "panels": panels,
    })
}
