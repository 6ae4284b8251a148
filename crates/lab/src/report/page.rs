//! Frame of an HTML page: title, style sheet, body.
//!
//! **Owns** the style sheet of all reports. **Called by** the HTML report and the drills. **Invariants**: a page needs nothing
//! from elsewhere: no script, no font, no image; it follows the reader's choice of light or dark.

use super::svg::escape;

const STYLE: &str = include_str!("report.css");

/// A whole page of a body of HTML. The title is escaped here; texts in the body were escaped by the caller ([`text`]).
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>\n"
    )
}

/// Text as it may stand in HTML: control characters of a terminal are visible, and no markup is left.
#[must_use]
pub fn text(text: &str) -> String {
    escape(&io::printable::printable(text))
}
