//! Columns, sizes, times and durations of text output.
//!
//! **Called by** everything that prints a table. **Invariants**: columns are never truncated; a table that is wider than the terminal
//! gets cells of several lines, if it then fits; of the server's types it knows sizes only.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use server::ByteSize;

/// A size for people, such as `1.5 GiB`.
pub(crate) fn human(bytes: u64) -> String {
    ByteSize(bytes).human()
}

/// A table without lines. Columns of the indexes in `right` are aligned to the right.
pub(crate) fn table(header: &[&str], right: &[usize]) -> Table {
    let mut t = Table::new();
    t.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header.to_vec());
    for (i, column) in t.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    t
}

/// A table with a row for each item, and columns that have their titles and texts together.
pub(crate) struct Rows<'i, T> {
    items: &'i [T],
    titles: Vec<&'static str>,
    numbers: Vec<usize>,
    /// By item.
    cells: Vec<Vec<String>>,
}

/// A table of these items, without columns.
pub(crate) fn rows<T>(items: &[T]) -> Rows<'_, T> {
    Rows {
        items,
        titles: Vec::new(),
        numbers: Vec::new(),
        cells: items.iter().map(|_| Vec::new()).collect(),
    }
}

impl<T> Rows<'_, T> {
    /// Adds a column that is aligned to the left, with the text of each item.
    pub(crate) fn left(mut self, title: &'static str, text: impl Fn(&T) -> String) -> Self {
        self.titles.push(title);
        for (cells, item) in self.cells.iter_mut().zip(self.items) {
            cells.push(text(item));
        }
        self
    }

    /// Adds a column that is aligned to the right: numbers and sizes.
    pub(crate) fn right(mut self, title: &'static str, text: impl Fn(&T) -> String) -> Self {
        self.numbers.push(self.titles.len());
        self.left(title, text)
    }

    /// The text of the table.
    pub(crate) fn text(self) -> String {
        let mut t = table(&self.titles, &self.numbers);
        t.add_rows(self.cells);
        text(&t)
    }
}

pub(crate) fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// Each item with each of its parts: the rows of a table of parts. An item without parts has one row.
pub(crate) fn with_parts<T, P>(items: &[T], parts: impl Fn(&T) -> &[P]) -> Vec<(&T, Option<&P>)> {
    let mut rows = Vec::new();
    for item in items {
        let parts = parts(item);
        rows.extend(parts.iter().map(|part| (item, Some(part))));
        if parts.is_empty() {
            rows.push((item, None));
        }
    }
    rows
}

/// A text, or `-` for none.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The table without spaces at the ends of lines, for the terminal of the standard output.
pub(crate) fn text(t: &Table) -> String {
    lab::report::table::fitted(t)
}

/// A time as `2026-11-21 12:00:00 UTC`.
pub(crate) fn utc(ms: u64) -> String {
    lab::size::utc(ms)
}

pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..86_400_000 => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{} d {} h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

pub(crate) fn micros(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} µs"),
        10_000..10_000_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}
