//! Pages of other crates in the frame of the lab's reports.
//!
//! **Called by** the drills. **Invariants**: a page needs nothing from elsewhere: no script, no font, no image.

use super::frame;

/// A whole page of a body of HTML. The title is escaped here; texts in the body were escaped by the caller ([`text`]).
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    frame::open(title) + body + frame::CLOSE
}

/// Text as it may stand in HTML: control characters of a terminal are visible, and no markup is left.
#[must_use]
pub fn text(text: &str) -> String {
    frame::safe(text)
}
