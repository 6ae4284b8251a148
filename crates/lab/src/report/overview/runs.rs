//! Results of benchmarks; local against remote; published results beside own ones.

use super::input::{Row, Runs, Side};
use crate::report::field;
use crate::report::frame::{safe, table};
use crate::report::svg::{Bar, bars};
use crate::size::{count, digits, nanos};
use std::fmt::Write;

/// Block size from which a rate is given in MiB/s, in words of a workload.
const LARGE_BLOCKS: [&str; 5] = ["64K", "128K", "256K", "512K", "1M"];

/// Size and mode of a workload: its first two words.
fn shape(workload: &str) -> (&str, &str) {
    let mut words = workload.split_whitespace();
    (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    )
}

/// The rate: IOPS for small blocks, MiB/s for large ones.
fn rate(row: &Row) -> String {
    if row.rounds.is_empty() {
        return "–".into();
    }
    if LARGE_BLOCKS.contains(&shape(&row.workload).0) {
        let mut rates: Vec<f64> = row.rounds.iter().map(|r| r.bw_bytes).collect();
        rates.sort_by(f64::total_cmp);
        return format!(
            "{} MiB/s",
            digits(rates[rates.len() / 2] / f64::from(1 << 20))
        );
    }
    format!("{} IOPS", count(row.iops.median))
}

/// Times of the row: of reads if there are any, else of writes.
fn times<'a>(runs: &'a Runs, row: &Row) -> Option<&'a Side> {
    let name = format!("{} on {}", row.workload, row.target);
    let job = runs.jobs.iter().find(|j| j.jobname == name)?;
    Some(if job.read.total_ios > 0 {
        &job.read
    } else {
        &job.write
    })
}

/// The results of one command as a table.
pub(super) fn matrix(runs: &Runs) -> String {
    let own = &runs.wirepool;
    let mut out = format!("<h3>{}</h3>", safe(&own.title));
    let _ = write!(
        out,
        "<p class=\"about\">{} · {} × {} · {} GiB · Linux {}</p>",
        safe(&runs.time),
        own.processors,
        safe(&own.processor),
        own.memory_bytes >> 30,
        safe(&own.kernel)
    );
    let rows = own.rows.iter().map(|row| {
        let side = times(runs, row);
        let at = |key: &str| {
            let found = side.and_then(|s| s.clat_ns.percentile.get(key));
            found.map_or("–".into(), |ns| nanos(*ns as f64))
        };
        vec![
            safe(&row.workload),
            safe(&row.target),
            rate(row),
            side.map_or("–".into(), |s| nanos(s.clat_ns.mean)),
            at("50.000000"),
            at("99.000000"),
            at("99.900000"),
            safe(&row.verdict),
        ]
    });
    let header = [
        "workload", "target", "rate", "mean", "p50", "p99", "p99.9", "verdict",
    ];
    out.push_str(&table(&header, &rows.collect::<Vec<_>>()));
    out
}

/// Whether an address is a disk or memory of the machine that measured.
fn is_local(address: &str) -> bool {
    address.starts_with("file:") || address.starts_with("mem:")
}

/// Rates of remote targets as shares of a local one's, of the same workload in the same command.
pub(super) fn against(all: &[&Runs]) -> Option<String> {
    let mut groups = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for runs in all {
        let rows = &runs.wirepool.rows;
        for row in rows.iter().filter(|r| !is_local(&r.address)) {
            if !names.contains(&row.target.as_str()) {
                names.push(&row.target);
            }
        }
        let colour = |name: &str| names.iter().position(|n| *n == name).unwrap_or(0);
        let bases = rows
            .iter()
            .filter(|r| is_local(&r.address) && r.iops.median > 0.0);
        let mut seen: Vec<&str> = Vec::new();
        for base in bases {
            if seen.contains(&base.workload.as_str()) {
                continue;
            }
            seen.push(&base.workload);
            let remote = rows.iter().filter(|r| {
                r.workload == base.workload && !is_local(&r.address) && r.iops.median > 0.0
            });
            let found = remote.map(|r| Bar {
                name: io::printable::printable(&r.target).into_owned(),
                colour: colour(&r.target),
                value: r.iops.median / base.iops.median,
                low: r.iops.min / base.iops.median,
                high: r.iops.max / base.iops.median,
            });
            let found: Vec<Bar> = found.collect();
            if !found.is_empty() {
                groups.push((io::printable::printable(&base.workload).into_owned(), found));
            }
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut out = String::from("<div class=\"plots\">");
    out.push_str(&bars(
        "rate of a remote target as a share of the local one's (median, slowest and fastest round)",
        &groups,
    ));
    out.push_str("</div>");
    let rows: Vec<Vec<String>> = groups
        .iter()
        .flat_map(|(workload, bars)| {
            bars.iter().map(move |b| {
                vec![
                    safe(workload),
                    safe(&b.name),
                    format!("{:.2} ({:.2}–{:.2})", b.value, b.low, b.high),
                ]
            })
        })
        .collect();
    out.push_str(&table(
        &["workload", "remote target", "share of the local rate"],
        &rows,
    ));
    Some(out)
}

/// Published results, each with the best own one of the same size and mode.
pub(super) fn published(all: &[&Runs]) -> String {
    let rows = || {
        all.iter()
            .flat_map(|r| &r.wirepool.rows)
            .filter(|r| r.iops.median > 0.0)
    };
    let entries = field::entries();
    let cells = entries.iter().map(|e| {
        let own =
            rows().filter(|r| !e.workload.is_empty() && shape(&r.workload) == shape(&e.workload));
        let best = own.max_by(|a, b| a.iops.median.total_cmp(&b.iops.median));
        vec![
            safe(&e.id),
            safe(&e.workload),
            safe(&e.numbers),
            best.map_or("–".into(), |r| {
                format!("{} ({} on {})", rate(r), safe(&r.workload), safe(&r.target))
            }),
            safe(&e.remark),
            safe(&e.setup),
        ]
    });
    let header = [
        "result",
        "workload",
        "published",
        "best of this page",
        "flaw or note",
        "setup",
    ];
    format!(
        "<p>Others measured these, on their hardware; flaws are named where they are known.</p><div class=\"words\">{}</div>",
        table(&header, &cells.collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::overview::input::{Own, Rate, Round};

    fn row(workload: &str, address: &str, iops: f64) -> Row {
        Row {
            workload: workload.into(),
            target: address.into(),
            address: address.into(),
            rounds: vec![Round {
                iops,
                bw_bytes: iops * 4096.0,
            }],
            iops: Rate {
                median: iops,
                min: iops / 2.0,
                max: iops * 2.0,
            },
            ..Row::default()
        }
    }

    fn runs(rows: Vec<Row>) -> Runs {
        Runs {
            wirepool: Own {
                rows,
                ..Own::default()
            },
            ..Runs::default()
        }
    }

    #[test]
    fn remote_rows_are_compared_with_the_local_one_of_their_workload() {
        let r = runs(vec![
            row("4K randread Q1T1", "file:/d", 10_000.0),
            row("4K randread Q1T1", "nvme-tcp://h:1/n?ns=1", 5000.0),
            row("4K randread Q8T1", "nvme-tcp://h:1/n?ns=1", 7000.0),
        ]);
        let text = against(&[&r]).expect("a pair");
        assert!(text.contains("0.50 (0.25–1.00)"), "{text}");
        assert!(!text.contains("Q8T1"), "no local row: {text}");
        assert!(against(&[&runs(vec![row("4K randread Q1T1", "mem:1M", 1.0)])]).is_none());
        assert!(against(&[]).is_none());
    }

    #[test]
    fn a_published_result_has_the_best_own_one_beside_it() {
        let r = runs(vec![
            row("4K randwrite Q1T1", "file:/d", 10_000.0),
            row("4K randwrite Q32T1", "file:/d", 99_000.0),
        ]);
        let text = published(&[&r]);
        assert!(
            text.contains("iser-nvme-4k-randwrite")
                && text.contains("99.0k IOPS (4K randwrite Q32T1"),
            "{text}"
        );
        assert!(
            text.contains("absorbed by the server&#39;s memory"),
            "{text}"
        );
    }

    #[test]
    fn large_blocks_have_a_bandwidth() {
        let large = row("1M read Q8T1", "file:/d", 2560.0);
        assert_eq!(rate(&large), "10.0 MiB/s");
        assert_eq!(rate(&row("4K read Q8T1", "file:/d", 2560.0)), "2560 IOPS");
        assert_eq!(rate(&Row::default()), "–");
    }
}
