//! The frame of every page: head, style, machine; and text that is safe in it.
//!
//! **Called by** the pages. **Invariants**: nothing is fetched; a text from a target or a file passes [`safe`].

use super::svg::escape;
use crate::plan::Machine;
use io::printable::printable;
use std::fmt::Write;

const STYLE: &str = include_str!("report.css");

/// A text as part of a page: one line, without control characters and markup.
pub(super) fn safe(text: &str) -> String {
    escape(&printable(text))
}

/// The start of a page, up to its heading.
pub(super) fn open(title: &str) -> String {
    let title = safe(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>"
    )
}

/// The end of a page.
pub(super) const CLOSE: &str = "</main></body></html>\n";

/// The machine, in a line, and whether it was busy.
pub(super) fn machine(m: &Machine, at_ms: u64) -> String {
    let mut out = format!(
        "<p class=\"about\">{} · {} × {} · {} GiB · Linux {}</p>",
        crate::size::utc(at_ms),
        m.processors,
        safe(&m.processor),
        m.memory >> 30,
        safe(&m.kernel)
    );
    if let Some(text) = m.busy() {
        let _ = write!(out, "<p class=\"about\">{}</p>", escape(&text));
    }
    out
}

/// A table: its heading, and rows of cells that are markup already.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"wide\"><table><thead><tr>");
    header.iter().for_each(|h| {
        let _ = write!(out, "<th>{}</th>", escape(h));
    });
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| {
            let _ = write!(out, "<td>{cell}</td>");
        });
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}
