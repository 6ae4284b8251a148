//! The table, the rules and the dashboard, also as Debian's promtool judges them.

use super::alerts::{ALERTS, alert_rules};
use super::dashboard::{PANELS, SERVER, grafana_dashboard};
use super::page::metrics_page;
use super::sections;
use super::{classic, references};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Lines around the table of `docs/metrics.md`.
const BEGIN: &str = "<!-- metrics: made by crates/server/src/metrics/tests.rs -->\n";
const END: &str = "<!-- end of metrics -->\n";

/// A series that grows by one a minute.
const GROWS: &str = "0+1x720";
const ZERO: &str = "0+0x720";
const ONE: &str = "1+0x720";

/// Series and their values, by minute.
type Series = &'static [(&'static str, &'static str)];

/// For each alert, series that fire it and series that do not.
const CASES: &[(&str, Series, Series)] = &[
    (
        "Down",
        &[("up{job='wirepool'}", ZERO)],
        &[("up{job='wirepool'}", ONE), ("up{job='node'}", ZERO)],
    ),
    (
        "ShardStuck",
        &[("wirepool_shard_up{shard='1'}", ZERO)],
        &[("wirepool_shard_up{shard='1'}", ONE)],
    ),
    (
        "PoolOffline",
        &[("wirepool_pool_online{pool='a'}", ZERO)],
        &[("wirepool_pool_online{pool='a'}", ONE)],
    ),
    (
        "PoolDegraded",
        &[
            ("wirepool_pool_online{pool='a'}", ONE),
            ("wirepool_pool_healthy{pool='a'}", ZERO),
        ],
        &[
            ("wirepool_pool_online{pool='a'}", ZERO),
            ("wirepool_pool_healthy{pool='a'}", ZERO),
        ],
    ),
    (
        "SpareInUse",
        &[("wirepool_pool_spares{pool='a',state='inuse'}", ONE)],
        &[
            ("wirepool_pool_spares{pool='a',state='inuse'}", ZERO),
            ("wirepool_pool_spares{pool='a',state='avail'}", ONE),
        ],
    ),
    (
        "NoSpareLeft",
        &[
            ("wirepool_pool_spares{pool='a',state='avail'}", ZERO),
            ("wirepool_pool_spares{pool='a',state='unavail'}", ONE),
        ],
        &[
            ("wirepool_pool_spares{pool='a',state='avail'}", ZERO),
            ("wirepool_pool_spares{pool='a',state='inuse'}", ZERO),
            ("wirepool_pool_spares{pool='a',state='unavail'}", ZERO),
        ],
    ),
    (
        "DiskHeldBack",
        &[("wirepool_disk_online{disk='a'}", ZERO)],
        &[("wirepool_disk_online{disk='a'}", ONE)],
    ),
    (
        "AddressNotServed",
        &[("wirepool_addresses_not_served{transport='rdma'}", ONE)],
        &[("wirepool_addresses_not_served{transport='rdma'}", ZERO)],
    ),
    (
        "DeviceErrors",
        &[
            ("wirepool_pool_member_read_errors_total{path='a'}", ZERO),
            ("wirepool_pool_member_write_errors_total{path='a'}", GROWS),
        ],
        &[
            (
                "wirepool_pool_member_read_errors_total{path='a'}",
                "7+0x720",
            ),
            ("wirepool_pool_member_write_errors_total{path='a'}", ZERO),
        ],
    ),
    (
        "ChecksumErrors",
        &[(
            "wirepool_pool_member_checksum_errors_total{path='a'}",
            GROWS,
        )],
        &[("wirepool_pool_member_checksum_errors_total{path='a'}", ONE)],
    ),
    (
        "FileSystemFull",
        &[("wirepool_pool_member_no_space_total{path='a'}", GROWS)],
        &[("wirepool_pool_member_no_space_total{path='a'}", ONE)],
    ),
    (
        "DataDamaged",
        &[("wirepool_pool_scrub_lost{pool='a'}", ONE)],
        &[
            ("wirepool_pool_scrub_lost{pool='a'}", ZERO),
            ("wirepool_pool_damaged_ranges{pool='a'}", ZERO),
        ],
    ),
    (
        "ScrubRepaired",
        &[("wirepool_pool_scrub_repaired{pool='a'}", ONE)],
        &[("wirepool_pool_scrub_repaired{pool='a'}", ZERO)],
    ),
    (
        "Space80",
        &[
            ("wirepool_pool_free_bytes{pool='a'}", "15+0x720"),
            ("wirepool_pool_size_bytes{pool='a'}", "100+0x720"),
        ],
        &[
            ("wirepool_pool_free_bytes{pool='a'}", "25+0x720"),
            ("wirepool_pool_size_bytes{pool='a'}", "100+0x720"),
        ],
    ),
    (
        "Space90",
        &[
            ("wirepool_pool_free_bytes{pool='a'}", "5+0x720"),
            ("wirepool_pool_size_bytes{pool='a'}", "100+0x720"),
        ],
        &[
            ("wirepool_pool_free_bytes{pool='a'}", "15+0x720"),
            ("wirepool_pool_size_bytes{pool='a'}", "100+0x720"),
        ],
    ),
    (
        "SpecialFull",
        &[("wirepool_pool_special_spilled_bytes_total{pool='a'}", GROWS)],
        &[(
            "wirepool_pool_special_spilled_bytes_total{pool='a'}",
            "7+0x720",
        )],
    ),
    (
        "SpecialNearlyFull",
        &[
            ("wirepool_pool_special_free_bytes{pool='a'}", "20+0x720"),
            ("wirepool_pool_special_size_bytes{pool='a'}", "100+0x720"),
        ],
        &[
            ("wirepool_pool_special_free_bytes{pool='a'}", ZERO),
            ("wirepool_pool_special_size_bytes{pool='a'}", ZERO),
        ],
    ),
    (
        "LogLost",
        &[("wirepool_pool_logs_lost_total{pool='a'}", GROWS)],
        &[("wirepool_pool_logs_lost_total{pool='a'}", ONE)],
    ),
    (
        "CacheDeviceOut",
        &[("wirepool_pool_cache_device_online{pool='a',path='b'}", ZERO)],
        &[("wirepool_pool_cache_device_online{pool='a',path='b'}", ONE)],
    ),
    (
        "VolumeSnapshotSpace",
        &[
            ("wirepool_volume_snapshot_bytes{volume='a/b'}", "2e10+0x720"),
            ("wirepool_volume_used_bytes{volume='a/b'}", "3e10+0x720"),
        ],
        &[
            ("wirepool_volume_snapshot_bytes{volume='a/b'}", "2e10+0x720"),
            ("wirepool_volume_used_bytes{volume='a/b'}", "9e10+0x720"),
        ],
    ),
    (
        "FilesystemSnapshotSpace",
        &[
            (
                "wirepool_filesystem_snapshot_bytes{filesystem='a/b'}",
                "2e10+0x720",
            ),
            (
                "wirepool_filesystem_used_bytes{filesystem='a/b'}",
                "3e10+0x720",
            ),
        ],
        &[
            (
                "wirepool_filesystem_snapshot_bytes{filesystem='a/b'}",
                "2e6+0x720",
            ),
            (
                "wirepool_filesystem_used_bytes{filesystem='a/b'}",
                "3e6+0x720",
            ),
        ],
    ),
    (
        "JournalFull",
        &[("wirepool_pool_journal_full_total{pool='a'}", GROWS)],
        &[("wirepool_pool_journal_full_total{pool='a'}", ONE)],
    ),
    (
        "CheckpointOld",
        &[
            (
                "wirepool_pool_last_checkpoint_timestamp_seconds{pool='a'}",
                ZERO,
            ),
            ("wirepool_pool_journal_used_bytes{pool='a'}", "80+0x720"),
            ("wirepool_pool_journal_size_bytes{pool='a'}", "100+0x720"),
        ],
        &[
            (
                "wirepool_pool_last_checkpoint_timestamp_seconds{pool='a'}",
                ZERO,
            ),
            ("wirepool_pool_journal_used_bytes{pool='a'}", "5+0x720"),
            ("wirepool_pool_journal_size_bytes{pool='a'}", "100+0x720"),
        ],
    ),
    (
        "WearHigh",
        &[(
            "wirepool_pool_member_endurance_used_ratio{path='a'}",
            "0.8+0x720",
        )],
        &[(
            "wirepool_pool_member_endurance_used_ratio{path='a'}",
            "0.79+0x720",
        )],
    ),
    (
        "WearForecast",
        &[(
            "wirepool_pool_member_endurance_left_seconds{path='a'}",
            "1e6+0x720",
        )],
        &[(
            "wirepool_pool_member_endurance_left_seconds{path='a'}",
            "1e8+0x720",
        )],
    ),
    (
        "NvmeSessionsLost",
        &[(
            "wirepool_connections_closed_total{reason='keep_alive'}",
            GROWS,
        )],
        &[
            (
                "wirepool_connections_closed_total{reason='disconnect'}",
                GROWS,
            ),
            ("wirepool_connections_closed_total{reason='network'}", ONE),
        ],
    ),
    (
        "IscsiSessionsLost",
        &[(
            "wirepool_iscsi_connections_closed_total{reason='silent'}",
            GROWS,
        )],
        &[(
            "wirepool_iscsi_connections_closed_total{reason='logout'}",
            GROWS,
        )],
    ),
    (
        "NfsSessionsLost",
        &[(
            "wirepool_nfs_connections_closed_total{reason='send_stall'}",
            GROWS,
        )],
        &[(
            "wirepool_nfs_connections_closed_total{reason='peer'}",
            GROWS,
        )],
    ),
    (
        "LoginsRefused",
        &[("wirepool_iscsi_logins_refused_total{status='0201'}", GROWS)],
        &[
            ("wirepool_iscsi_logins_refused_total{status='0203'}", GROWS),
            ("wirepool_iscsi_logins_refused_total{status='0201'}", ONE),
        ],
    ),
    (
        "DelegationsRevoked",
        &[("wirepool_nfs_delegations_revoked_total", GROWS)],
        &[("wirepool_nfs_delegations_revoked_total", ONE)],
    ),
    (
        "SlowStage",
        &[
            (
                "wirepool_request_stage_seconds_total{protocol='nvme',export='a',command='read',stage='device'}",
                "0+20x720",
            ),
            (
                "wirepool_requests_total{protocol='nvme',export='a',command='read'}",
                "0+100x720",
            ),
        ],
        &[
            (
                "wirepool_request_stage_seconds_total{protocol='nvme',export='a',command='read',stage='device'}",
                "0+2x720",
            ),
            (
                "wirepool_requests_total{protocol='nvme',export='a',command='read'}",
                "0+100x720",
            ),
        ],
    ),
    (
        "BuffersShort",
        &[("wirepool_buffer_pool_waiting{shard='0'}", ONE)],
        &[("wirepool_buffer_pool_waiting{shard='0'}", "1 0+0x719")],
    ),
    (
        "NamespaceHeldBack",
        &[("wirepool_namespace_served{nsid='1'}", ZERO)],
        &[("wirepool_namespace_served{nsid='1'}", ONE)],
    ),
    (
        "UnitHeldBack",
        &[("wirepool_target_lun_served{lun='1'}", ZERO)],
        &[("wirepool_target_lun_served{lun='1'}", ONE)],
    ),
    (
        "NfsExportHeldBack",
        &[("wirepool_nfs_export_served{export='/a'}", ZERO)],
        &[("wirepool_nfs_export_served{export='/a'}", ONE)],
    ),
    (
        "NotMounted",
        &[("wirepool_filesystem_mounted{filesystem='a/b'}", ZERO)],
        &[("wirepool_filesystem_mounted{filesystem='a/b'}", ONE)],
    ),
    (
        "SyncDisabled",
        &[("wirepool_pool_sync_disabled_volumes{pool='a'}", ONE)],
        &[("wirepool_pool_sync_disabled_volumes{pool='a'}", ZERO)],
    ),
    (
        "Warnings",
        &[("wirepool_warnings", ONE)],
        &[("wirepool_warnings", ZERO)],
    ),
];

/// Runs promtool in a directory.
fn promtool(dir: &Path, args: &[&str]) {
    let ran = Command::new("promtool")
        .current_dir(dir)
        .args(args)
        .output();
    let output = ran.expect("promtool runs: `xtask/install.sh test` installs Debian's prometheus");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "promtool {args:?}: {said}");
}

/// A test of promtool: after two hours, or eight for the rule that waits for six, an alert fires for these series, or does not.
fn case(alert: &str, series: Series, fires: bool) -> Value {
    let input = series
        .iter()
        .map(|(series, values)| json!({"series": series.replace('\'', "\""), "values": values}));
    let expected: Vec<Value> = match fires {
        true => vec![json!({"labels": "{}", "value": 1})],
        false => Vec::new(),
    };
    let after = if alert == "WearForecast" { "8h" } else { "2h" };
    let firing = format!("count(ALERTS{{alertname=\"Wirepool{alert}\",alertstate=\"firing\"}})");
    json!({
        "interval": "1m",
        "input_series": input.collect::<Vec<_>>(),
        "promql_expr_test": [{"expr": firing, "eval_time": after, "exp_samples": expected}],
    })
}

#[test]
fn every_rule_fires_when_it_should_and_not_otherwise() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("rules.yml"), alert_rules()).expect("written");
    let tests: Vec<_> = CASES
        .iter()
        .flat_map(|(alert, fires, quiet)| [case(alert, fires, true), case(alert, quiet, false)])
        .collect();
    let file = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    std::fs::write(dir.path().join("tests.yml"), file.to_string()).expect("written");
    promtool(dir.path(), &["check", "rules", "--lint-fatal", "rules.yml"]);
    promtool(dir.path(), &["test", "rules", "tests.yml"]);
    let named: Vec<_> = CASES
        .iter()
        .map(|(name, ..)| format!("Wirepool{name}"))
        .collect();
    let rules: Vec<_> = ALERTS.iter().map(|a| a.name.to_owned()).collect();
    assert_eq!(named, rules, "each rule has a case");
}

#[test]
fn rules_and_panels_have_only_metrics_of_the_table() {
    for alert in ALERTS {
        references::check(alert.expr).unwrap_or_else(|e| panic!("{}: {e}", alert.name));
    }
    for (expr, _) in PANELS.iter().flat_map(|p| p.queries) {
        let expr = expr.replace("$s", SERVER);
        references::check(&expr).unwrap_or_else(|e| panic!("{e}"));
    }
    let dashboard = grafana_dashboard();
    assert_eq!(
        dashboard["panels"].as_array().map(Vec::len),
        Some(PANELS.len())
    );
}

/// The dashboard's expressions as recording rules, which promtool parses.
#[test]
fn the_expressions_of_the_dashboard_parse() {
    let dir = tempfile::tempdir().expect("a directory");
    let queries = PANELS.iter().flat_map(|p| p.queries).enumerate();
    let rules: Vec<_> = queries
        .map(|(n, (expr, _))| {
            json!({"record": format!("panel:{n}"), "expr": expr.replace("$s", r#"instance="a""#)})
        })
        .collect();
    let file = json!({"groups": [{"name": "panels", "rules": rules}]});
    std::fs::write(dir.path().join("panels.yml"), file.to_string()).expect("written");
    promtool(dir.path(), &["check", "rules", "panels.yml"]);
}

#[test]
fn names_follow_the_conventions_and_occur_once() {
    let mut names = BTreeSet::new();
    for m in sections::all() {
        assert!(names.insert(m.name), "{} is there twice", m.name);
        assert!(!m.name.ends_with("_total"), "{}: the kind adds it", m.name);
        let abbreviated = m
            .name
            .split('_')
            .find(|w| ["ms", "us", "ns", "kb", "mb", "sec", "percent"].contains(w));
        assert_eq!(abbreviated, None, "{}: no base unit", m.name);
        assert!(
            m.help.len() > 8 && !m.help.ends_with('.'),
            "{}: {}",
            m.name,
            m.help
        );
    }
}

#[test]
fn the_page_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the table");
    let (now, after) = rest.split_once(END).expect("the end of the table");
    let expected = metrics_page();
    if std::env::var_os("WIREPOOL_BLESS").is_some() {
        let page = format!("{before}{BEGIN}{expected}{END}{after}");
        std::fs::write(&path, page).expect("written");
        return;
    }
    assert!(
        now == expected,
        "docs/metrics.md is old: run this test with WIREPOOL_BLESS=1"
    );
}

#[test]
fn the_older_format_has_the_full_names_of_counters() {
    let text = "# HELP a_b Bytes of it.\n# TYPE a_b counter\na_b_total{x=\"1\"} 7\n# HELP g Now.\n# TYPE g gauge\ng 1\n# EOF\n";
    let expected = "# HELP a_b_total Bytes of it.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 7\n# HELP g Now.\n# TYPE g gauge\ng 1\n";
    assert_eq!(classic(text), expected);
}
