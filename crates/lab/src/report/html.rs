//! Reports as one self-contained HTML file: no script, no font, no image from elsewhere.

use super::printable::for_people;
use super::svg::{Bar, Line, Plot, bars, escape, lines};
use super::{frame, table};
use crate::limits::SERIES_STEP;
use crate::plan::{Report, Row};
use crate::size::{self, count, digits, nanos};
use crate::validity::Weight;
use crate::workload::Workload;
use std::fmt::Write;

/// The percentiles of the latency plot, evenly spaced by nines.
const CURVE: [(f64, &str); 8] = [
    (0.0, "min"),
    (50.0, "p50"),
    (90.0, "p90"),
    (99.0, "p99"),
    (99.9, "p99.9"),
    (99.99, "p99.99"),
    (99.999, "p99.999"),
    (100.0, "max"),
];

/// The report as a page.
#[must_use]
pub fn render(report: &Report) -> String {
    let report = &for_people(report);
    let mut out = frame::open(&report.title);
    out.push_str(&frame::machine(&report.machine, report.at_ms));
    legend(&mut out, report);
    summary(&mut out, report);
    findings(&mut out, report);
    if report.targets.len() > 1 {
        let _ = write!(
            out,
            "<h2>Rate against {}</h2><div class=\"plots\">{}</div>",
            escape(&report.targets[0].0),
            ratios(report)
        );
    }
    for w in workloads(report) {
        let rows: Vec<&Row> = report
            .rows
            .iter()
            .filter(|r| &r.workload == w && !r.rounds.is_empty())
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "<h2>{}</h2><div class=\"plots\">{}{}</div>",
            escape(&w.to_string()),
            curve(report, &rows),
            steadiness(report, &rows)
        );
    }
    out.push_str(frame::CLOSE);
    out
}

fn workloads(report: &Report) -> Vec<&Workload> {
    let mut seen: Vec<&Workload> = Vec::new();
    for r in &report.rows {
        if !seen.contains(&&r.workload) {
            seen.push(&r.workload);
        }
    }
    seen
}

fn legend(out: &mut String, report: &Report) {
    out.push_str("<ul class=\"legend\">");
    for (i, (label, address, facts)) in report.targets.iter().enumerate() {
        let _ = write!(
            out,
            "<li><span class=\"key b{}\"></span><b>{}</b> <code>{}</code> {}, {}</li>",
            i % super::svg::COLOURS,
            escape(label),
            escape(address),
            size::size(facts.size),
            escape(&facts.description)
        );
    }
    out.push_str("</ul>");
}

fn summary(out: &mut String, report: &Report) {
    out.push_str("<table><thead><tr>");
    for h in [
        "workload",
        "target",
        "rate",
        "rounds",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "ratio",
        "client CPU µs/IO",
        "server CPU µs/IO",
        "verdict",
    ] {
        let _ = write!(out, "<th>{h}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in &report.rows {
        let class = match row.verdict.weight() {
            None | Some(Weight::Note) => "valid",
            Some(Weight::Flag) => "flagged",
            Some(Weight::Refuse) => "refused",
        };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><td>{}</td><td>{}</td>",
            escape(&row.workload.to_string()),
            escape(report.label(row))
        );
        if row.rounds.is_empty() {
            out.push_str(&"<td>–</td>".repeat(11));
        } else {
            numbers(out, report, row);
        }
        let _ = write!(
            out,
            "<td class=\"verdict\">{}</td></tr>",
            escape(&row.verdict.to_string())
        );
    }
    out.push_str("</tbody></table>");
}

fn numbers(out: &mut String, report: &Report, row: &Row) {
    let l = row.latency();
    let at = |p: f64| nanos(l.percentile(p) as f64);
    let ratio = report
        .base(row)
        .and_then(|b| row.ratio(b))
        .map_or("–".into(), |r| format!("{:.2}", r.median));
    for cell in [
        table::rate(row),
        table::spread(row),
        nanos(l.mean()),
        at(50.0),
        at(99.0),
        at(99.9),
        at(99.99),
        nanos(l.max() as f64),
        ratio,
        digits(row.client_us()),
        row.server_us().map_or("–".into(), digits),
    ] {
        let _ = write!(out, "<td>{cell}</td>");
    }
}

fn findings(out: &mut String, report: &Report) {
    let heavy = |r: &&Row| !r.verdict.0.is_empty();
    if !report.rows.iter().any(|r| heavy(&r)) {
        return;
    }
    out.push_str("<details open><summary>What the rules found</summary><ul>");
    for row in report.rows.iter().filter(heavy) {
        for f in &row.verdict.0 {
            let _ = write!(
                out,
                "<li><b>{}</b> on {}: <i>{}</i>: {}</li>",
                escape(&row.workload.to_string()),
                escape(report.label(row)),
                f.rule.name(),
                escape(&f.text)
            );
        }
    }
    out.push_str("</ul></details>");
}

fn ratios(report: &Report) -> String {
    let groups: Vec<(String, Vec<Bar>)> = workloads(report)
        .into_iter()
        .map(|w| {
            let rows = report
                .rows
                .iter()
                .filter(|r| &r.workload == w && r.target > 0);
            let bars = rows.filter_map(|r| {
                let ratio = r.ratio(report.base(r)?)?;
                Some(Bar {
                    name: report.label(r).into(),
                    colour: r.target,
                    value: ratio.median,
                    low: ratio.min,
                    high: ratio.max,
                })
            });
            (w.to_string(), bars.collect())
        })
        .filter(|g: &(String, Vec<Bar>)| !g.1.is_empty())
        .collect();
    bars(
        "rate as a share of the first target's (median, smallest and largest round)",
        &groups,
    )
}

/// Lines keep the colour of their target: missing targets leave an empty line.
fn by_target(
    report: &Report,
    rows: &[&Row],
    points: impl Fn(&Row) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let line = |i: usize, label: &str| {
        let row = rows.iter().find(|r| r.target == i);
        Line {
            name: label.to_owned(),
            points: row.map_or(Vec::new(), |r| points(r)),
        }
    };
    report
        .targets
        .iter()
        .enumerate()
        .map(|(i, t)| line(i, &t.0))
        .collect()
}

fn curve(report: &Report, rows: &[&Row]) -> String {
    let plot = Plot {
        title: "latency by percentile",
        x_label: "percentile of I/Os",
        y_label: "latency",
        x_marks: CURVE
            .iter()
            .enumerate()
            .map(|(i, c)| (i as f64, c.1.to_owned()))
            .collect(),
        log: true,
        y_text: nanos,
    };
    let points = |row: &Row| {
        let l = row.latency();
        CURVE
            .iter()
            .enumerate()
            .map(|(i, c)| (i as f64, l.percentile(c.0) as f64))
            .collect()
    };
    lines(&plot, &by_target(report, rows, points))
}

fn steadiness(report: &Report, rows: &[&Row]) -> String {
    let step = SERIES_STEP * 2;
    let points = |row: &Row| {
        let rates = row
            .rounds
            .iter()
            .flat_map(|r| r.series.rates(step, r.elapsed));
        rates
            .enumerate()
            .map(|(i, v)| (i as f64 * step.as_secs_f64(), v))
            .collect::<Vec<_>>()
    };
    let all = by_target(report, rows, points);
    let end = all
        .iter()
        .flat_map(|l| &l.points)
        .map(|p| p.0)
        .fold(0.0, f64::max);
    let plot = Plot {
        title: "IOPS over time, rounds one after the other",
        x_label: "seconds of measuring",
        y_label: "IOPS",
        x_marks: (0..=4)
            .map(|i| (end * f64::from(i) / 4.0, digits(end * f64::from(i) / 4.0)))
            .collect(),
        log: false,
        y_text: count,
    };
    lines(&plot, &all)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::{Direction, Run};
    use crate::plan::Machine;
    use crate::stats::{Latency, Series};
    use crate::targets::{Engine, Facts, Medium};
    use crate::validity::{Finding, Rule, Verdict};
    use io::rng::Prng;
    use std::time::Duration;

    fn facts() -> Facts {
        Facts {
            size: 4 << 30,
            block_size: 512,
            transfer_max: 1 << 20,
            engine: Engine::Asynchronous,
            medium: Medium::Ram,
            direct: None,
            holes: 0,
            caches: 0,
            transport: None,
            server_pid: None,
            description: "a <sample> & \"more\"".into(),
        }
    }

    fn made_up(w: &Workload, seed: u64) -> Run {
        let mut rng = Prng::new(seed);
        let (mut read, mut write) = (Direction::default(), Direction::default());
        let (mut series, mut flush) = (Series::default(), Latency::default());
        for i in 0..40_000u64 {
            let ns = 20_000
                + rng.below(30_000)
                + if rng.chance(0.01) {
                    rng.below(2_000_000)
                } else {
                    0
                };
            let side = if i % 100 < w.read_percent.into() {
                &mut read
            } else {
                &mut write
            };
            side.latency.record(Duration::from_nanos(ns));
            side.bytes += 4096;
            series.record(Duration::from_nanos(i * 100_000), 4096);
        }
        flush.record(Duration::from_millis(1));
        Run {
            workload: w.clone(),
            facts: facts(),
            read,
            write,
            flush,
            elapsed: Duration::from_secs(4),
            series,
            client_cpu: vec![Duration::from_secs(1)],
            server: None,
            own: None,
            zeroes: (0, 0),
            missed: 0,
            reconnects: 0,
        }
    }

    /// A made-up report with all kinds of rows.
    pub(crate) fn sample() -> Report {
        let read = Workload::default();
        let mixed = Workload {
            read_percent: 50,
            depth: 32,
            ..Workload::default()
        };
        let flag = Finding {
            rule: Rule::Unsteady,
            weight: Weight::Flag,
            text: "it, \"varied\"".into(),
        };
        let refuse = Finding {
            rule: Rule::DepthIgnored,
            weight: Weight::Refuse,
            text: "no depth <here>".into(),
        };
        let row = |target, w: &Workload, seeds: &[u64], found: Vec<Finding>| Row {
            target,
            workload: w.clone(),
            rounds: seeds.iter().map(|s| made_up(w, *s)).collect(),
            verdict: Verdict(found),
        };
        Report {
            title: "A <sample>".into(),
            targets: ["local file", "remote & RAM"]
                .map(|l| (l.to_owned(), format!("mem:{l}"), facts()))
                .into(),
            rows: vec![
                row(0, &read, &[1, 2], vec![]),
                row(1, &read, &[3, 4], vec![flag]),
                row(0, &mixed, &[5, 6], vec![]),
                row(1, &mixed, &[], vec![refuse]),
            ],
            machine: Machine {
                processor: "CPU".into(),
                processors: 2,
                memory: 8 << 30,
                kernel: "6.1".into(),
                load: 9.0,
            },
            at_ms: 1_795_229_418_000,
        }
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = render(&sample());
        for outside in [
            "http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", "src=", "href=",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    /// Every tag of a page is closed, in order.
    pub(crate) fn assert_well_formed(page: &str) {
        let mut open = Vec::new();
        for tag in page.split('<').skip(1) {
            let inner = tag.split('>').next().expect("a tag ends");
            let name = inner
                .split([' ', '/'])
                .find(|n| !n.is_empty())
                .unwrap_or_default();
            match inner {
                t if t.starts_with('!') || t.ends_with('/') || name == "meta" => {}
                t if t.starts_with('/') => {
                    assert_eq!(open.pop(), Some(name.to_owned()), "</{name}>")
                }
                _ => open.push(name.to_owned()),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn text_is_escaped_and_tags_are_closed() {
        let page = render(&sample());
        assert!(
            page.contains("A &lt;sample&gt;")
                && !page.contains("<sample>")
                && !page.contains("no depth <here>")
        );
        assert_well_formed(&page);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn every_workload_and_verdict_is_on_the_page() {
        let (report, page) = (sample(), render(&sample()));
        for row in &report.rows {
            assert!(page.contains(&escape(&row.workload.to_string())));
            assert!(page.contains(&escape(&row.verdict.to_string())));
        }
        assert_eq!(
            page.matches("<svg").count(),
            5,
            "ratios, and two plots for each workload"
        );
    }
}
