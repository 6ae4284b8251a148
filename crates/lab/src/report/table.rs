//! Reports as tables in a terminal.

use super::printable::for_people;
use crate::plan::{Report, Row};
use crate::size::{self, count, digits, nanos};
use crate::stats::process::processors;
use crate::validity::Weight;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use console::{Term, measure_text_width};
use std::collections::HashSet;
use std::fmt::Write;

/// Block size from which a rate is given in MiB/s.
const LARGE_BLOCK: u32 = 64 << 10;

/// The rate of a row: IOPS for small blocks, MiB/s for large ones.
#[must_use]
pub fn rate(row: &Row) -> String {
    if row.workload.block_size >= LARGE_BLOCK {
        return format!(
            "{} MiB/s",
            digits(row.bandwidth().median / f64::from(1 << 20))
        );
    }
    format!("{} IOPS", count(row.iops().median))
}

fn ratio(report: &Report, row: &Row) -> String {
    let Some(base) = report.base(row) else {
        return if row.target == 0 {
            "1".into()
        } else {
            "–".into()
        };
    };
    match row.ratio(base) {
        Some(r) if r.max - r.min >= 0.005 => format!("{:.2} ({:.2}–{:.2})", r.median, r.min, r.max),
        Some(r) => format!("{:.2}", r.median),
        None => "–".into(),
    }
}

/// Spread of a row's rounds; `n/a` for one round.
#[must_use]
pub fn spread(row: &Row) -> String {
    row.iops()
        .percent()
        .map_or("n/a".into(), |p| format!("±{p:.0} %"))
}

/// A table whose columns from `numbers` on are right-aligned, except the last.
#[must_use]
pub fn blank(header: &[&str], numbers: usize) -> Table {
    let mut t = Table::new();
    t.load_style(UTF8_BORDERS_ONLY);
    t.set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    let words = header.len() - 1;
    for c in t.column_iter_mut().take(words).skip(numbers) {
        c.set_cell_alignment(CellAlignment::Right);
    }
    t
}

/// Columns up to this width, such as numbers, keep their cells in one line.
const WHOLE: u16 = 14;

/// The text of a table without spaces at the ends of lines. If the standard output is a terminal that is narrower than the table, cells get
/// several lines; if words and numbers alone are wider than the terminal, each row is one line.
#[must_use]
pub fn fitted(t: &Table) -> String {
    let size = Term::stdout().size_checked();
    within(t, size.map(|(_, columns)| columns.into()))
}

fn lines(t: &Table) -> String {
    t.lines().map(|l| l.trim_end().to_owned() + "\n").collect()
}

fn within(t: &Table, width: Option<usize>) -> String {
    let whole = lines(t);
    let fits = |text: &str, width| text.lines().all(|l| measure_text_width(l) <= width);
    let Some(width) = width.filter(|width| !fits(&whole, *width)) else {
        return whole;
    };
    let mut t = t.clone();
    t.set_content_arrangement(ContentArrangement::Dynamic);
    t.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let widths = t.column_max_content_widths();
    for (column, width) in t.column_iter_mut().zip(widths) {
        if width <= WHOLE {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let narrow = lines(&t);
    let words: HashSet<&str> = narrow.split_whitespace().collect();
    // a name that is cut in two cannot be copied
    let is_whole = whole.split_whitespace().all(|word| {
        let is_line = word.chars().all(|c| !c.is_alphanumeric());
        is_line || words.contains(word)
    });
    match fits(&narrow, width) && is_whole {
        true => narrow,
        false => whole,
    }
}

fn cells(report: &Report, row: &Row, full: bool) -> Vec<String> {
    let mut cells = vec![row.workload.to_string(), report.label(row).to_owned()];
    if row.rounds.is_empty() {
        cells.resize(if full { 12 } else { 9 }, "–".into());
    } else {
        let l = row.latency();
        let at = |p: f64| nanos(l.percentile(p) as f64);
        cells.push(rate(row));
        cells.push(spread(row));
        if full {
            cells.push(nanos(l.mean()));
        }
        cells.extend([at(50.0), at(99.0), at(99.9)]);
        if full {
            cells.extend([at(99.99), nanos(l.max() as f64)]);
        }
        let server = row.server_us().map_or("–".into(), digits);
        cells.push(ratio(report, row));
        cells.push(format!("{} / {server}", digits(row.client_us())));
    }
    cells.push(row.verdict.to_string());
    cells
}

/// The report as a table with the reasons of flags below it. `full` adds mean, p99.99 and maximum.
#[must_use]
pub fn render(report: &Report, full: bool) -> String {
    let report = &for_people(report);
    let mut header = vec!["workload", "target", "rate", "rounds"];
    if full {
        header.push("mean");
    }
    header.extend(["p50", "p99", "p99.9"]);
    if full {
        header.extend(["p99.99", "max"]);
    }
    header.extend(["ratio", "CPU µs/IO client/server", "verdict"]);
    let mut t = blank(&header, 2);
    let mut last = None;
    for row in &report.rows {
        if last.is_some_and(|w| w != &row.workload) && report.targets.len() > 1 {
            t.add_row(vec![""; header.len()]);
        }
        last = Some(&row.workload);
        t.add_row(cells(report, row, full));
    }
    let mut out = format!("{}\n{}", report.title, fitted(&t));
    describe(&mut out, report);
    reasons(&mut out, report);
    out
}

fn describe(out: &mut String, report: &Report) {
    for (label, address, facts) in &report.targets {
        let _ = writeln!(
            out,
            "  {label}: {address}, {}, {}",
            size::size(facts.size),
            facts.description
        );
        if let Some(run) = report
            .rows
            .iter()
            .filter(|r| &report.targets[r.target].0 == label)
            .find_map(|r| r.rounds.first())
            && let Some(t) = &run.facts.transport
        {
            let digest = match t.digests {
                (false, false) => "no digests",
                (true, false) => "header digests",
                (false, true) => "data digests",
                (true, true) => "header and data digests",
            };
            let _ = writeln!(out, "    {}, {}, {digest}", t.kind, t.connection());
        }
    }
    let m = &report.machine;
    let (cores, memory) = (m.processors, m.memory >> 30);
    let _ = writeln!(
        out,
        "  {cores} × {}, {memory} GiB, Linux {}",
        m.processor, m.kernel
    );
    if let Some(text) = m.busy() {
        let _ = writeln!(out, "  {text}");
    }
    let rounds = report
        .rows
        .iter()
        .map(|r| r.rounds.len())
        .max()
        .unwrap_or(0);
    if rounds > 1 {
        let _ = writeln!(
            out,
            "  rates and CPU: median of {rounds} rounds; latencies: all rounds; ratio: against {}",
            report.targets[0].0
        );
    }
    if processors() < 4 && report.targets.iter().any(|t| t.2.server_pid.is_some()) {
        let _ = writeln!(
            out,
            "  client and server share {} processors: less is left for each than on two machines",
            processors()
        );
    }
}

/// The reasons of the verdicts, one line for each row.
fn reasons(out: &mut String, report: &Report) {
    for row in &report.rows {
        let heavy: Vec<_> = row
            .verdict
            .0
            .iter()
            .filter(|f| f.weight > Weight::Note)
            .map(|f| f.text.as_str())
            .collect();
        if !heavy.is_empty() {
            let _ = writeln!(
                out,
                "  {} on {}: {}",
                row.workload,
                report.label(row),
                heavy.join("; ")
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut t = blank(&["NAME", "SIZE", "EXPORTED AS"], 1);
        t.add_row([
            "tank/vm1",
            "1.5 GiB",
            "nqn.2026-01.org.example:vm1 iqn.2026-01.org.example:vm1",
        ]);
        t
    }

    #[test]
    fn a_table_that_is_wider_than_the_terminal_gets_more_lines() {
        let t = example();
        let whole = within(&t, None);
        assert_eq!(whole.lines().count(), 5, "borders, titles, one row");
        assert_eq!(within(&t, Some(200)), whole, "a wide terminal");
        let narrow = within(&t, Some(60));
        assert!(narrow.lines().all(|l| l.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("1.5 GiB"), "numbers stay whole: {narrow}");
        for word in ["nqn.2026-01.org.example:vm1", "iqn.2026-01.org.example:vm1"] {
            assert!(narrow.contains(word), "nothing is lost: {narrow}");
        }
    }

    #[test]
    fn a_terminal_that_is_too_narrow_gets_whole_lines() {
        let t = example();
        for width in [8, 50] {
            assert_eq!(within(&t, Some(width)), within(&t, None), "no name is cut");
        }
    }
}
