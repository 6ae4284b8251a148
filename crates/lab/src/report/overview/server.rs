//! The doctor's findings, and stages of requests.

use super::input::{Doctor, Why};
use crate::report::frame::{safe, table};
use crate::report::svg::shares;
use crate::size::digits;
use std::fmt::Write;

/// Findings as a table, the worst first.
pub(super) fn doctor(d: &Doctor) -> String {
    let mut out = format!(
        "<p>{} checks, {} findings, {} not checked.</p>",
        d.checks,
        d.findings.len(),
        d.not_checked.len()
    );
    if d.findings.is_empty() {
        return out;
    }
    let rows = d.findings.iter().map(|f| {
        vec![
            format!(
                "<b class=\"{}\">{}</b>",
                class(&f.severity),
                safe(&f.severity)
            ),
            safe(&f.check),
            safe(&f.object),
            safe(&f.evidence),
            safe(&f.why),
        ]
    });
    let header = ["severity", "check", "object", "evidence", "why it matters"];
    out.push_str(&format!(
        "<div class=\"words\">{}</div>",
        table(&header, &rows.collect::<Vec<_>>())
    ));
    out
}

/// The class of a severity: a word of ours.
fn class(severity: &str) -> &'static str {
    match severity {
        "critical" => "bad",
        "warning" => "doubtful",
        _ => "soft",
    }
}

/// Stages of an export as a bar and a table.
pub(super) fn why(w: &Why) -> String {
    let mut out = format!(
        "<h3>{} ({}), {} s</h3>",
        safe(&w.export),
        safe(&w.protocol),
        digits(w.seconds)
    );
    let parts: Vec<(String, f64)> = w
        .stages
        .iter()
        .map(|s| (s.stage.clone(), s.percent))
        .collect();
    out.push_str(&shares(
        "share of each stage in the time of requests",
        &parts,
    ));
    let rows = w.stages.iter().map(|s| {
        vec![
            safe(&s.stage),
            format!("{} %", digits(s.percent)),
            format!("{} µs", digits(s.mean_us)),
            format!("{} µs", digits(s.p99_us)),
        ]
    });
    out.push_str(&table(
        &["stage", "share", "mean", "p99"],
        &rows.collect::<Vec<_>>(),
    ));
    if let Some(limit) = &w.limit {
        let _ = write!(out, "<p><b>limit:</b> {}</p>", safe(&limit.summary));
        list(&mut out, &limit.evidence);
        if !limit.helps.is_empty() {
            out.push_str("<p>would help:</p>");
        }
        list(&mut out, &limit.helps);
    }
    out
}

/// A list, if there is anything in it.
pub(super) fn list(out: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str("<ul>");
    for line in lines {
        let _ = write!(out, "<li>{}</li>", safe(line));
    }
    out.push_str("</ul>");
}
