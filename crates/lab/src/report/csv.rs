//! Reports as comma-separated values (RFC 4180): one line per row of the report, raw units in the column names.

use super::printable::for_people;
use crate::plan::{Report, Row};

/// The columns.
pub const COLUMNS: [&str; 24] = [
    "workload",
    "mode",
    "block_size",
    "depth",
    "jobs",
    "target",
    "address",
    "rounds",
    "iops",
    "iops_min",
    "iops_max",
    "iops_spread_percent",
    "bytes_per_s",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
    "client_cpu_us_per_io",
    "server_cpu_us_per_io",
    "ratio",
    "verdict",
    "reasons",
];

/// The report with a header line.
#[must_use]
pub fn render(report: &Report) -> String {
    let report = &for_people(report);
    let mut out = line(COLUMNS.iter().map(|c| (*c).to_owned()));
    for row in &report.rows {
        out.push_str(&line(fields(report, row)));
    }
    out
}

fn fields(report: &Report, row: &Row) -> impl Iterator<Item = String> {
    let w = &row.workload;
    let (iops, l) = (row.iops(), row.latency());
    let measured = |v: f64| {
        if row.rounds.is_empty() {
            String::new()
        } else {
            format!("{v:.3}")
        }
    };
    let ratio = report.base(row).and_then(|b| row.ratio(b));
    let reasons: Vec<_> = row
        .verdict
        .0
        .iter()
        .map(|f| format!("{}: {}", f.rule.name(), f.text))
        .collect();
    [
        w.to_string(),
        w.mode().into(),
        w.block_size.to_string(),
        w.depth.to_string(),
        w.jobs.to_string(),
        report.label(row).into(),
        report.targets[row.target].1.clone(),
        row.rounds.len().to_string(),
        measured(iops.median),
        measured(iops.min),
        measured(iops.max),
        iops.percent().map_or(String::new(), |p| format!("{p:.3}")),
        measured(row.bandwidth().median),
        measured(l.mean()),
        measured(l.percentile(50.0) as f64),
        measured(l.percentile(99.0) as f64),
        measured(l.percentile(99.9) as f64),
        measured(l.percentile(99.99) as f64),
        measured(l.max() as f64),
        measured(row.client_us()),
        row.server_us().map_or(String::new(), |v| format!("{v:.3}")),
        ratio.map_or(String::new(), |r| format!("{:.4}", r.median)),
        row.verdict.to_string(),
        reasons.join("; "),
    ]
    .into_iter()
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut out = fields.map(|f| quote(&f)).collect::<Vec<_>>().join(",");
    out.push_str("\r\n");
    out
}

fn quote(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader of its own making: RFC 4180 without extras.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field, mut quoted) =
            (Vec::new(), Vec::new(), String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    field.push(chars.next().unwrap_or('"'))
                }
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(std::mem::take(&mut field)),
                '\r' if !quoted => {}
                '\n' if !quoted => {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                c => field.push(c),
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_back(fields in prop::collection::vec("[a-z,\"\r\n µ]{0,12}", 1..8)) {
            let text = line(fields.iter().cloned());
            prop_assert_eq!(parse(&text), vec![fields]);
        }
    }

    #[test]
    fn a_report_survives_the_round_trip() {
        let report = crate::report::html::tests::sample();
        let rows = parse(&render(&report));
        assert_eq!(rows[0], COLUMNS);
        assert_eq!(rows.len(), report.rows.len() + 1);
        for (read, row) in rows[1..].iter().zip(&report.rows) {
            assert_eq!(read.len(), COLUMNS.len());
            assert_eq!(read[0], row.workload.to_string());
            if row.rounds.is_empty() {
                assert_eq!(read[8], "", "a refused row has no number");
                continue;
            }
            let iops: f64 = read[8].parse().expect("a number");
            assert!((iops - row.iops().median).abs() < 0.001);
        }
    }
}
