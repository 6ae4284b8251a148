//! The table of metrics as text of `docs/metrics.md`.
//!
//! **Called by** `wirepool monitoring metrics`, and the test that keeps the page current.

use super::sections::SECTIONS;
use std::fmt::Write;

/// The table of metrics as Markdown.
#[must_use]
pub fn metrics_page() -> String {
    let mut out = String::new();
    for section in SECTIONS {
        let _ = writeln!(
            out,
            "\n### {}\n| metric | labels | meaning |\n|---|---|---|",
            section.title
        );
        for m in section.metrics() {
            let labels: Vec<_> = m.labels().map(|l| format!("`{l}`")).collect();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} |",
                m.full_name(),
                labels.join(", "),
                m.help
            );
        }
    }
    out
}
