//! Reports in fio's JSON format (`--output-format=json`, fio 3.x), for programs that read fio's output.
//!
//! **Invariants**: every key of a real run of fio exists, with fio's unit; values that we do not measure are zero, as
//! in fio. Our own values are under `wirepool`, which readers of fio's format ignore. One fio job stands for one row
//! of the report (`group_reporting`): its rounds together.

use crate::plan::{Report, Row};
use crate::stats::Latency;
use crate::workload::Sync;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The percentiles fio reports.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The report as the text of one JSON document. Names are unchanged; deceptive characters in them are JSON escapes.
#[must_use]
pub fn text(report: &Report) -> String {
    let text = format!("{:#}\n", render(report));
    io::printable::json(&text).into_owned()
}

/// The report as one JSON document.
#[must_use]
pub fn render(report: &Report) -> Value {
    let rows = report.rows.iter().filter(|r| !r.rounds.is_empty());
    json!({
        "fio version": concat!("wirepool-", env!("CARGO_PKG_VERSION"), " (layout of fio-3.33)"),
        "timestamp": report.at_ms / 1000,
        "timestamp_ms": report.at_ms,
        "time": crate::size::utc(report.at_ms),
        "global options": {},
        "jobs": rows.enumerate().map(|(i, r)| job(report, r, i)).collect::<Vec<_>>(),
        "disk_util": [],
        "wirepool": {
            "title": report.title,
            "processor": report.machine.processor,
            "processors": report.machine.processors,
            "memory_bytes": report.machine.memory,
            "kernel": report.machine.kernel,
            "load_before": report.machine.load,
            "rows": report.rows.iter().map(|r| own(report, r)).collect::<Vec<_>>(),
        },
    })
}

/// Values without a place in fio's format.
fn own(report: &Report, row: &Row) -> Value {
    let findings: Vec<_> = row
        .verdict
        .0
        .iter()
        .map(|f| json!({ "rule": f.rule.name(), "weight": format!("{:?}", f.weight).to_lowercase(), "text": f.text }))
        .collect();
    let (iops, ratio) = (row.iops(), report.base(row).and_then(|b| row.ratio(b)));
    json!({
        "workload": row.workload.to_string(),
        "target": report.label(row),
        "address": report.targets[row.target].1,
        "verdict": row.verdict.to_string(),
        "findings": findings,
        "rounds": row.rounds.iter().map(|r| json!({ "iops": r.iops(), "bw_bytes": r.bandwidth() })).collect::<Vec<_>>(),
        "iops": { "median": iops.median, "min": iops.min, "max": iops.max,
            "spread_percent": iops.percent() },
        "ratio": ratio.map(|r| json!({ "median": r.median, "min": r.min, "max": r.max })),
        "client_cpu_us_per_io": row.client_us(),
        "server_cpu_us_per_io": row.server_us(),
        "device_bytes_per_byte_written": row.write_amplification(),
        "transport": row.rounds.first().and_then(|r| r.facts.transport.as_ref()).map(|t| json!({
            "kind": t.kind, "device": t.rdma.as_ref().map(|r| &r.device), "path_mtu": t.rdma.as_ref().map(|r| r.path_mtu),
            "congestion": t.congestion, "server_congestion": t.congestion_server,
            "header_digest": t.digests.0, "data_digest": t.digests.1,
            "queue_depth": t.depth, "fallbacks": t.fallbacks,
        })),
    })
}

fn job(report: &Report, row: &Row, index: usize) -> Value {
    let w = &row.workload;
    let total: Duration = row.rounds.iter().map(|r| r.elapsed).sum();
    let runtime_ms = total.as_millis() as u64;
    let cpu: Duration = row.rounds.iter().flat_map(|r| &r.client_cpu).sum();
    let mut options = Map::new();
    for (key, value) in [
        ("name", format!("{w}")),
        ("ioengine", "wirepool".into()),
        ("filename", report.targets[row.target].1.clone()),
        ("rw", w.mode().into()),
        ("bs", w.block_size.to_string()),
        ("iodepth", w.depth.to_string()),
        ("numjobs", w.jobs.to_string()),
        ("runtime", w.runtime.as_secs_f64().to_string()),
        ("ramp_time", w.ramp.as_secs_f64().to_string()),
        ("rwmixread", w.read_percent.to_string()),
        ("direct", "1".into()),
    ] {
        options.insert(key.into(), value.into());
    }
    if let Sync::FlushEvery(n) = w.sync {
        options.insert("fsync".into(), n.to_string().into());
    }
    let mut flush = Latency::default();
    row.rounds.iter().for_each(|r| flush.merge(&r.flush));
    let mut job = json!({
        "jobname": format!("{} on {}", w, report.label(row)),
        "groupid": index,
        "error": 0,
        "eta": 0,
        "elapsed": total.as_secs().max(1),
        "job options": options,
        "read": side(row, runtime_ms, true),
        "write": side(row, runtime_ms, false),
        "trim": empty_side(),
        "sync": { "total_ios": flush.count(), "lat_ns": with_percentiles(&flush) },
        "job_runtime": runtime_ms,
        "usr_cpu": if total.is_zero() { 0.0 } else { cpu.as_secs_f64() / total.as_secs_f64() * 100.0 },
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "latency_depth": w.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Some(map) = job.as_object_mut() {
        distributions(map, row);
    }
    job
}

fn side(row: &Row, runtime_ms: u64, read: bool) -> Value {
    let mut all = crate::engine::Direction::default();
    for r in &row.rounds {
        all.merge(if read { &r.read } else { &r.write });
    }
    if all.ios() == 0 {
        return empty_side();
    }
    let seconds = (runtime_ms as f64 / 1000.0).max(1e-9);
    let (iops, bw) = (all.ios() as f64 / seconds, all.bytes as f64 / seconds);
    let step = crate::limits::SERIES_STEP * 5;
    let rates: Vec<f64> = row
        .rounds
        .iter()
        .flat_map(|r| r.series.rates(step, r.elapsed))
        .collect();
    let share = all.ios() as f64
        / row
            .rounds
            .iter()
            .map(|r| r.read.ios() + r.write.ios())
            .sum::<u64>()
            .max(1) as f64;
    let seen: Vec<f64> = rates.iter().map(|r| r * share).collect();
    let kib = f64::from(row.workload.block_size) / 1024.0;
    let low = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let low = if low.is_finite() { low } else { 0.0 };
    let high = seen.iter().copied().fold(0.0, f64::max);
    let mean = seen.iter().sum::<f64>() / (seen.len() as f64).max(1.0);
    let deviation = (seen.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
        / (seen.len() as f64).max(1.0))
    .sqrt();
    json!({
        "io_bytes": all.bytes, "io_kbytes": all.bytes >> 10,
        "bw_bytes": bw as u64, "bw": (bw / 1024.0) as u64, "iops": iops,
        "runtime": runtime_ms, "total_ios": all.ios(), "short_ios": 0, "drop_ios": 0,
        "slat_ns": summary(&Latency::default()),
        "clat_ns": with_percentiles(&all.latency),
        "lat_ns": summary(&all.latency),
        "bw_min": (low * kib) as u64, "bw_max": (high * kib) as u64, "bw_agg": 100.0,
        "bw_mean": mean * kib, "bw_dev": deviation * kib, "bw_samples": seen.len(),
        "iops_min": low as u64, "iops_max": high as u64, "iops_mean": mean, "iops_stddev": deviation,
        "iops_samples": seen.len(),
    })
}

fn empty_side() -> Value {
    let none = || summary(&Latency::default());
    json!({
        "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0,
        "short_ios": 0, "drop_ios": 0, "slat_ns": none(), "clat_ns": none(), "lat_ns": none(),
        "bw_min": 0, "bw_max": 0, "bw_agg": 0.0, "bw_mean": 0.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": 0, "iops_max": 0, "iops_mean": 0.0, "iops_stddev": 0.0, "iops_samples": 0,
    })
}

fn summary(l: &Latency) -> Value {
    json!({ "min": l.min(), "max": l.max(), "mean": l.mean(), "stddev": l.deviation(), "N": l.count() })
}

fn with_percentiles(l: &Latency) -> Value {
    let mut v = summary(l);
    if l.count() > 0
        && let Some(map) = v.as_object_mut()
    {
        let table: Map<_, _> = PERCENTILES
            .iter()
            .map(|p| (format!("{p:.6}"), l.percentile(*p).into()))
            .collect();
        map.insert("percentile".into(), table.into());
    }
    v
}

/// fio's shares of depths and latencies, percent.
fn distributions(job: &mut Map<String, Value>, row: &Row) {
    let depth = row.workload.depth;
    let bucket = match depth {
        0..=1 => "1",
        2..=3 => "2",
        4..=7 => "4",
        8..=15 => "8",
        16..=31 => "16",
        32..=63 => "32",
        _ => ">=64",
    };
    let shares = |names: &[&str], full: &str| -> Value {
        names
            .iter()
            .map(|n| ((*n).to_owned(), json!(if *n == full { 100.0 } else { 0.0 })))
            .collect::<Map<_, _>>()
            .into()
    };
    job.insert(
        "iodepth_level".into(),
        shares(&["1", "2", "4", "8", "16", "32", ">=64"], bucket),
    );
    let submit = ["0", "4", "8", "16", "32", "64", ">=64"];
    job.insert("iodepth_submit".into(), shares(&submit, "4"));
    job.insert("iodepth_complete".into(), shares(&submit, "4"));
    let all = row.latency();
    let mut below = 0.0;
    let mut buckets = |bounds: &[u64], unit: u64| -> Value {
        let mut map = Map::new();
        for b in bounds {
            let upto = all.share_below(b * unit) * 100.0;
            map.insert(b.to_string(), json!(upto - below));
            below = upto;
        }
        map.into()
    };
    let ns = buckets(&[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 1);
    let us = buckets(&[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 1000);
    let mut ms = buckets(
        &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000],
        1_000_000,
    );
    if let Some(map) = ms.as_object_mut() {
        map.insert(
            ">=2000".into(),
            json!(if all.count() == 0 { 0.0 } else { 100.0 - below }),
        );
    }
    job.insert("latency_ns".into(), ns);
    job.insert("latency_us".into(), us);
    job.insert("latency_ms".into(), ms);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every path of keys in a document, array elements as `[]`.
    fn paths(v: &Value, at: &str, out: &mut BTreeSet<String>) {
        match v {
            Value::Object(map) => {
                for (k, v) in map {
                    let here = format!("{at}/{k}");
                    paths(v, &here, out);
                    out.insert(here);
                }
            }
            Value::Array(list) => list.iter().for_each(|v| paths(v, &format!("{at}[]"), out)),
            _ => {}
        }
    }

    #[test]
    fn every_key_of_a_real_fio_run_is_there() {
        let real: Value = serde_json::from_str(include_str!("../../data/fio-3.33-null.json"))
            .expect("fio wrote JSON");
        let ours = render(&crate::report::html::tests::sample());
        let (mut want, mut have) = (BTreeSet::new(), BTreeSet::new());
        paths(&real, "", &mut want);
        paths(&ours, "", &mut have);
        // The options a user gave and the devices a file system sits on are not part of the layout.
        let layout = |p: &&String| {
            !p.contains("job options/")
                && !p.starts_with("/disk_util")
                && !p.contains("global options/")
        };
        let missing: Vec<_> = want
            .iter()
            .filter(layout)
            .filter(|p| !have.contains(*p))
            .collect();
        assert!(missing.is_empty(), "fio has and we have not: {missing:#?}");
    }

    #[test]
    fn numbers_are_in_fios_units() {
        let report = crate::report::html::tests::sample();
        let read = &render(&report)["jobs"][0]["read"];
        let run = &report.rows[0].rounds[0];
        let ios: u64 = report.rows[0].rounds.iter().map(|r| r.read.ios()).sum();
        assert_eq!(read["total_ios"], ios);
        assert_eq!(read["io_bytes"], ios * 4096);
        assert_eq!(
            read["bw"].as_u64().expect("KiB/s"),
            read["bw_bytes"].as_u64().expect("bytes/s") / 1024
        );
        let p50 = read["clat_ns"]["percentile"]["50.000000"]
            .as_u64()
            .expect("ns");
        assert!(p50.abs_diff(run.read.latency.percentile(50.0)) < p50 / 2);
        let job = &render(&report)["jobs"][0];
        let total: f64 = ["latency_ns", "latency_us", "latency_ms"]
            .iter()
            .flat_map(|k| job[*k].as_object().expect("a map").values())
            .map(|v| v.as_f64().expect("percent"))
            .sum();
        assert!((total - 100.0).abs() < 1e-6, "{total} %");
    }
}
