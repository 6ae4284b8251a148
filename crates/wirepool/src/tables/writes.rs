//! Written bytes between two readings, write amplification, and the text output of `pool iostat -w`.
//!
//! **Owns** the differences and ratios. **Called by** `pool iostat -w`. **Invariants**: counters that went back, because a pool
//! was opened anew, count from zero; an unknown value is none, and printed as `unknown` with its reason below the table.
//! `docs/wear.md`.

use crate::columns::{human, table, text};
use crate::tables::iostat::growth;
use serde::Serialize;
use server::api::{
    DatasetWrites, DiskHealth, DiskWrites, EnduranceSource, PoolWrites, RateSource, WearForecast,
    Writes, WrittenBytes,
};
use server::wear::{Observed, forecast};
use std::fmt::Write;

/// Bytes written since the pools were opened, or in an interval.
#[derive(Serialize)]
pub(crate) struct WriteReport {
    /// Length of the interval; none since the pools were opened.
    seconds: Option<f64>,
    pools: Vec<PoolPart>,
}

#[derive(Serialize)]
struct PoolPart {
    name: String,
    datasets: Vec<DatasetPart>,
    /// Blocks and batches that belong to no present dataset: the pool's own trees, headers and padding of the journal, and
    /// destroyed datasets.
    own: Classes,
    disks: Vec<DiskPart>,
    /// Data of clients.
    client: u64,
    /// Bytes of all disks.
    total: u64,
    /// Bytes of all disks for a byte of clients.
    amplification: Option<f64>,
}

/// Bytes by class, each block once for all members of a mirror.
#[derive(Serialize, Default, Clone, Copy)]
struct Classes {
    data: u64,
    journal: u64,
    nodes: u64,
}

#[derive(Serialize)]
struct DatasetPart {
    name: String,
    client: u64,
    #[serde(flatten)]
    classes: Classes,
    amplification: Option<f64>,
}

#[derive(Serialize)]
struct DiskPart {
    disk: String,
    #[serde(flatten)]
    written: WrittenBytes,
    /// Bytes of all classes.
    total: u64,
    /// Growth of the disk's own counters; none since the pools were opened, or if they are unknown.
    host_written: Option<u64>,
    media_written: Option<u64>,
    /// The disk's own counters now.
    health: DiskHealth,
    forecast: WearForecast,
}

impl Classes {
    fn total(self) -> u64 {
        self.data + self.journal + self.nodes
    }
}

fn ratio(bytes: u64, client: u64) -> Option<f64> {
    (client > 0).then(|| bytes as f64 / client as f64)
}

fn classes(before: Option<&DatasetWrites>, now: &DatasetWrites) -> Classes {
    let since = |of: fn(&DatasetWrites) -> u64| growth(before.map_or(0, of), of(now));
    Classes {
        data: since(|d| d.data),
        journal: since(|d| d.journal),
        nodes: since(|d| d.nodes),
    }
}

fn written(before: Option<&WrittenBytes>, now: &WrittenBytes) -> WrittenBytes {
    let since = |of: fn(&WrittenBytes) -> u64| growth(before.map_or(0, of), of(now));
    WrittenBytes {
        data: since(|w| w.data),
        journal: since(|w| w.journal),
        nodes: since(|w| w.nodes),
        labels: since(|w| w.labels),
        repair: since(|w| w.repair),
        moved: since(|w| w.moved),
    }
}

impl DiskPart {
    /// `ms` is the length of the interval.
    fn of(before: Option<&DiskWrites>, now: &DiskWrites, ms: Option<u64>) -> DiskPart {
        let bytes = written(before.map(|b| &b.written), &now.written);
        let grown =
            |of: fn(&DiskHealth) -> Option<u64>| of(&now.health)?.checked_sub(of(&before?.health)?);
        let host_written = grown(|h| h.host_written);
        DiskPart {
            disk: now.path.display().to_string(),
            written: bytes,
            total: bytes.total(),
            host_written,
            media_written: grown(|h| h.media_written),
            health: now.health.clone(),
            forecast: match ms {
                None => now.forecast.clone(),
                Some(span_ms) => {
                    let seen = Observed {
                        span_ms,
                        disk: host_written,
                        server: bytes.total(),
                    };
                    forecast(&now.health, seen, 0)
                }
            },
        }
    }
}

impl PoolPart {
    fn of(before: Option<&PoolWrites>, now: &PoolWrites, ms: Option<u64>) -> PoolPart {
        let dataset = |d: &DatasetWrites| {
            let old = before.and_then(|b| b.datasets.iter().find(|o| o.name == d.name));
            let client = growth(old.map_or(0, |o| o.client), d.client);
            let classes = classes(old, d);
            DatasetPart {
                name: d.name.clone(),
                client,
                classes,
                amplification: ratio(classes.total(), client),
            }
        };
        let datasets: Vec<_> = now.datasets.iter().map(dataset).collect();
        let disk = |d: &DiskWrites| {
            let old = before.and_then(|b| b.disks.iter().find(|o| o.guid == d.guid));
            DiskPart::of(old, d, ms)
        };
        let disks: Vec<_> = now.disks.iter().map(disk).collect();
        let all = written(before.map(|b| &b.written), &now.written);
        let sum = |of: fn(&Classes) -> u64| datasets.iter().map(|d| of(&d.classes)).sum::<u64>();
        let client = datasets.iter().map(|d| d.client).sum();
        let total = disks.iter().map(|d| d.total).sum();
        PoolPart {
            name: now.name.clone(),
            own: Classes {
                data: all.data.saturating_sub(sum(|c| c.data)),
                journal: all.journal.saturating_sub(sum(|c| c.journal)),
                nodes: all.nodes.saturating_sub(sum(|c| c.nodes)),
            },
            amplification: ratio(total, client),
            client,
            total,
            datasets,
            disks,
        }
    }

    fn datasets_text(&self) -> String {
        let header = [
            "DATASET",
            "CLIENT",
            "DATA",
            "JOURNAL",
            "NODES",
            "AMPLIFICATION",
        ];
        let mut t = table(&header, &[1, 2, 3, 4, 5]);
        let row = |name: &str, client: String, c: Classes, amplification: String| {
            let classes = [c.data, c.journal, c.nodes].map(human);
            let mut row = vec![name.to_owned(), client];
            row.extend(classes);
            row.push(amplification);
            row
        };
        for d in &self.datasets {
            let factor = factor(d.amplification);
            t.add_row(row(&d.name, human(d.client), d.classes, factor));
        }
        let none = || "-".to_owned();
        t.add_row(row("(pool)", none(), self.own, none()));
        text(&t)
    }

    fn disks_text(&self, is_interval: bool) -> String {
        let counted = if is_interval {
            "DISK COUNTED"
        } else {
            "IN ITS LIFE"
        };
        let header = [
            "DISK", "DATA", "MOVED", "JOURNAL", "NODES", "OTHER", "TOTAL", counted, "MEDIA",
            "USED", "LEFT",
        ];
        let mut t = table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for d in &self.disks {
            let w = &d.written;
            let (host, media) = match is_interval {
                true => (d.host_written, d.media_written),
                false => (d.health.host_written, d.health.media_written),
            };
            let used = d.health.percentage_used.map(|used| format!("{used}%"));
            let days = d.forecast.days.map(days);
            let mut row = vec![d.disk.clone()];
            let other = w.labels + w.repair;
            let bytes = [w.data, w.moved, w.journal, w.nodes, other, d.total];
            row.extend(bytes.map(human));
            row.extend([host.map(human), media.map(human), used, days].map(known));
            t.add_row(row);
        }
        let notes = self.disks.iter().map(|d| note(&d.disk, &d.forecast));
        text(&t) + &notes.collect::<String>()
    }
}

fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".into())
}

fn factor(amplification: Option<f64>) -> String {
    amplification.map_or("-".into(), |a| format!("{a:.2}"))
}

fn days(days: f64) -> String {
    match days {
        d if d < 10.0 => format!("{d:.1} days"),
        d if d < 36_500.0 => format!("{d:.0} days"),
        _ => "> 100 years".into(),
    }
}

/// The reason why there is no forecast, or its sources.
fn note(disk: &str, f: &WearForecast) -> String {
    let mut out = format!("{disk}: ");
    let known = (f.endurance, f.rate, f.bytes_per_day);
    let (Some(endurance), Some(rate), Some(per_day)) = known else {
        let reason = f.unknown.as_deref().unwrap_or("no reason is known");
        let _ = writeln!(out, "no forecast: {reason}");
        return out;
    };
    let endurance = match endurance {
        EnduranceSource::Rated => "rated endurance",
        EnduranceSource::PercentageUsed => "endurance by percentage used",
    };
    let rate = match rate {
        RateSource::Disk => "by the disk's counter",
        RateSource::Server => "by this server's writes",
        RateSource::Life => "the mean of the disk's life",
    };
    let per_day = human(per_day as u64);
    let _ = writeln!(
        out,
        "{endurance}, {per_day} a day {rate} over {} s",
        f.span_s
    );
    out
}

impl WriteReport {
    /// What was written between two readings, or since the pools were opened.
    pub(crate) fn of(before: Option<&Writes>, now: &Writes) -> WriteReport {
        let ms = before.map(|b| now.at_ms.saturating_sub(b.at_ms));
        let pool = |p: &PoolWrites| {
            let old = before.and_then(|b| b.pools.iter().find(|o| o.guid == p.guid));
            PoolPart::of(old, p, ms)
        };
        WriteReport {
            seconds: ms.map(|ms| ms as f64 / 1000.0),
            pools: now.pools.iter().map(pool).collect(),
        }
    }

    /// As tables.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for p in &self.pools {
            let when = match self.seconds {
                None => "since it was opened".to_owned(),
                Some(s) => format!("in {s:.1} s"),
            };
            let _ = writeln!(
                out,
                "{}, {when}: {} of clients, {} to disks, amplification {}",
                p.name,
                human(p.client),
                human(p.total),
                factor(p.amplification)
            );
            out += &p.datasets_text();
            out += &p.disks_text(self.seconds.is_some());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A mirror of two disks; all counters are multiples of `n`.
    fn writes(at_ms: u64, n: u64) -> Writes {
        let written = |labels: u64| json!({"data": 10 * n, "journal": 3 * n, "nodes": 2 * n, "labels": labels, "repair": 0});
        let disk = |guid: &str, health: serde_json::Value| {
            json!({
                "guid": guid, "path": format!("/dev/{guid}"), "written": written(n), "health": health,
                "forecast": {"days": null, "endurance": null, "rate": null, "bytes_per_day": null, "span_s": 0,
                    "unknown": "observed for 0 s only"},
            })
        };
        let known = json!({
            "source": "nvme", "unknown": null, "host_written": 1_000_000_000 + 16 * n, "media_written": null,
            "percentage_used": 0, "power_on_hours": 0, "rated_bytes": 1_000_000_000_000u64,
        });
        let unknown = json!({
            "source": null, "unknown": "a file", "host_written": null, "media_written": null,
            "percentage_used": null, "power_on_hours": null, "rated_bytes": null,
        });
        let value = json!({"at_ms": at_ms, "pools": [{
            "name": "tank", "guid": "1", "written": written(0),
            "journal": {"used": 0, "size": 0, "full": 0, "checkpoint_ms": 0},
            "datasets": [
                {"name": "tank/a", "client": 8 * n, "data": 9 * n, "journal": n, "nodes": n},
                {"name": "tank/b", "client": 0, "data": 0, "journal": 0, "nodes": 0},
            ],
            "disks": [disk("d0", known), disk("d1", unknown)],
        }]});
        serde_json::from_value(value).expect("a reading")
    }

    #[test]
    fn the_rest_belongs_to_the_pool_and_the_disks_are_the_total() {
        let report = WriteReport::of(None, &writes(5, 1 << 20));
        let pool = &report.pools[0];
        assert_eq!(pool.own.total(), (1 + 2 + 1) << 20);
        assert_eq!((pool.client, pool.total), (8 << 20, 32 << 20));
        assert_eq!(pool.amplification, Some(4.0));
        assert_eq!(pool.datasets[0].amplification, Some(11.0 / 8.0));
        assert_eq!(pool.datasets[1].amplification, None, "no bytes of clients");
        let text = report.text();
        assert!(text.contains("since it was opened"), "{text}");
        assert!(text.contains("/dev/d1: no forecast: observed"), "{text}");
    }

    #[test]
    fn an_interval_has_differences_and_a_forecast_of_its_own() {
        let before = writes(1_000, 1_000_000);
        let now = writes(11_000, 3_000_000);
        let report = WriteReport::of(Some(&before), &now);
        let pool = &report.pools[0];
        assert_eq!((pool.client, pool.total), (16_000_000, 64_000_000));
        assert_eq!(pool.disks[0].host_written, Some(32_000_000));
        let found = &pool.disks[0].forecast;
        assert_eq!((found.rate, found.span_s), (Some(RateSource::Disk), 10));
        // (10^12 - 1.048 * 10^9) bytes at 3.2 * 10^6 a second
        let days = found.days.expect("known");
        assert!((days - 3.613).abs() < 0.001, "{days}");
        assert_eq!(pool.disks[1].forecast.days, None);
        let text = report.text();
        assert!(
            text.contains("DISK COUNTED") && text.contains("3.6 days"),
            "{text}"
        );
        assert!(text.contains("/dev/d1: no forecast: a file"), "{text}");
        // the pool was opened anew
        let anew = WriteReport::of(Some(&now), &writes(12_000, 7));
        assert_eq!(anew.pools[0].client, 56);
    }
}
