//! The drawing of the screen.
//!
//! One line about the server, one with the tables, one with the headings, the rows, and one for messages and typed text. **Called by**
//! the screen and the tests. **Invariants**: only rows that fit are formatted and measured; every text is printable; a drawing works at
//! every size, down to nothing.

use super::state::{Board, Mode};
use super::table::{Column, Kind, Table};
use io::printable::printable;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use std::borrow::Cow;

/// Lines around the rows.
pub(super) const CHROME: u16 = 4;
/// Widest text of a cell, columns of the screen.
const TEXT_WIDTH_MAX: usize = 44;
/// Space between two columns.
const GAP: u16 = 2;

const KEYS: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "pools, devices, exports, sessions"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "reverse the order"),
    (
        "/",
        "filter: rows that contain a text, or with ! before it do not",
    ),
    ("Esc", "end the filter"),
    ("j k, Down Up", "scroll by a row"),
    ("PgDn PgUp, Space", "scroll by a page"),
    ("g G, Home End", "the first rows, the last rows"),
    ("Left Right", "hide and show columns"),
    ("d", "set the seconds between two readings"),
    ("? h", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Draws the state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &Board) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    head(buffer, area, state);
    tabs(buffer, area, state);
    if state.mode == Mode::Help {
        help(buffer, area, state);
    } else if let Some(table) = state.table() {
        rows(buffer, area, state, table);
    } else {
        line(buffer, area, 2, "waiting for the server", bold);
    }
    if area.height >= CHROME {
        foot(buffer, area, state);
    }
}

/// Writes one line of the screen.
fn line(buffer: &mut Buffer, area: Rect, y: u16, text: &str, style: Style) {
    put(buffer, area, 0, y, text, style);
}

/// Writes text from a column of the screen on; returns the column behind it.
fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if x >= area.width || y >= area.height {
        return x;
    }
    let room = usize::from(area.width - x);
    let (end, _) = buffer.set_stringn(area.x + x, area.y + y, text, room, style);
    end - area.x
}

fn head(buffer: &mut Buffer, area: Rect, state: &Board) {
    let server = state.all.as_ref().map_or("wirepool", |a| a.head.as_str());
    let seconds = state.interval.as_secs_f64();
    let text = format!("{}; every {seconds} s", printable(server));
    line(buffer, area, 0, &text, Style::new());
}

fn tabs(buffer: &mut Buffer, area: Rect, state: &Board) {
    let Some(all) = &state.all else { return };
    let mut x = 0;
    for (i, table) in all.tables.iter().enumerate() {
        let style = match i == state.tab {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let text = format!(" {} {} {} ", i + 1, table.title, table.rows.len());
        x = put(buffer, area, x, 1, &text, style) + 1;
    }
}

fn help(buffer: &mut Buffer, area: Rect, state: &Board) {
    let mut y = 2;
    for (keys, meaning) in KEYS {
        line(
            buffer,
            area,
            y,
            &format!("  {keys:<18} {meaning}"),
            Style::new(),
        );
        y += 1;
    }
    let columns = state.table().map_or(&[][..], |t| t.columns);
    let letters = columns.iter().filter_map(|c| Some((c.letter?, c.title)));
    let letters: Vec<String> = letters
        .map(|(l, t)| format!("{l} {}", t.to_lowercase()))
        .collect();
    let text = format!("  sort by: {}", letters.join(", "));
    line(buffer, area, y, &text, Style::new());
}

/// A column as it is shown: its heading, and its cells.
struct Shown<'a> {
    column: &'static Column,
    heading: String,
    cells: Vec<Cow<'a, str>>,
    width: u16,
}

fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The least width of a column, so that columns seldom move from one reading to the next.
fn least(kind: Kind) -> usize {
    match kind {
        Kind::Text | Kind::Percent => 4,
        Kind::Count => 6,
        Kind::Bytes | Kind::Micros | Kind::Millis => 8,
        Kind::BytesRate => 10,
    }
}

fn shown<'a>(state: &Board, table: &'a Table, number: usize) -> Shown<'a> {
    let column = &table.columns[number];
    let mark = match (number == state.view().sort, state.is_rising()) {
        (false, _) => "",
        (true, true) => "▲",
        (true, false) => "▼",
    };
    let heading = format!("{}{mark}", column.title);
    let cells = state.shown().iter();
    let cells: Vec<_> = cells
        .map(|row| table.rows[*row][number].text(column.kind))
        .collect();
    let widest = cells.iter().map(|c| width(c)).max().unwrap_or(0);
    let widest = widest.min(TEXT_WIDTH_MAX).max(least(column.kind));
    Shown {
        column,
        width: widest.max(width(&heading)) as u16,
        heading,
        cells,
    }
}

fn rows(buffer: &mut Buffer, area: Rect, state: &Board, table: &Table) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let hidden = state.view().left;
    let mut x = 0;
    for number in 0..table.columns.len() {
        if number > 0 && number <= hidden {
            continue;
        }
        if x >= area.width {
            break;
        }
        let shown = shown(state, table, number);
        let style = match number == state.view().sort {
            true => bold.fg(Color::Cyan),
            false => bold,
        };
        cell(buffer, area, (x, 2), &shown, &shown.heading, style);
        for (i, text) in shown.cells.iter().enumerate() {
            cell(buffer, area, (x, 3 + i as u16), &shown, text, Style::new());
        }
        x = x.saturating_add(shown.width + GAP);
    }
    if table.rows.is_empty() {
        line(buffer, area, 3, table.empty, Style::new());
    }
}

/// Writes a cell; numbers stand to the right, and longer texts end with an ellipsis.
fn cell(
    buffer: &mut Buffer,
    area: Rect,
    at: (u16, u16),
    shown: &Shown<'_>,
    text: &str,
    style: Style,
) {
    let (x, y) = at;
    if x >= area.width || y + 1 >= area.height {
        return;
    }
    let (wide, room) = (width(text), usize::from(shown.width));
    let room = room.min(usize::from(area.width - x));
    if wide > room {
        buffer.set_stringn(area.x + x, area.y + y, text, room.saturating_sub(1), style);
        put(buffer, area, x + room as u16 - 1, y, "…", style);
        return;
    }
    let indent = match shown.column.kind {
        Kind::Text => 0,
        _ => (room - wide) as u16,
    };
    put(buffer, area, x + indent, y, text, style);
}

fn foot(buffer: &mut Buffer, area: Rect, state: &Board) {
    let y = area.height - 1;
    let red = Style::new().fg(Color::Red);
    let warnings = state.all.as_ref().map_or(&[][..], |a| &a.warnings);
    let (text, style) = match (&state.mode, &state.message) {
        (Mode::Filter(typed), _) => (format!("/{}_", printable(typed)), Style::new()),
        (Mode::Interval(typed), _) => (
            format!("seconds between two readings: {}_", printable(typed)),
            Style::new(),
        ),
        (Mode::Help, _) => ("any key closes the help".to_owned(), Style::new()),
        (Mode::Table, Some(message)) => (printable(message).into_owned(), red),
        (Mode::Table, None) => (place(state), Style::new()),
    };
    let end = put(buffer, area, 0, y, &text, style);
    if let (Mode::Table, None, Some(first)) = (&state.mode, &state.message, warnings.first()) {
        let text = match warnings.len() {
            1 => format!("warning: {}", printable(first)),
            n => format!("{n} warnings: {}", printable(first)),
        };
        put(
            buffer,
            area,
            end + GAP,
            y,
            &text,
            Style::new().fg(Color::Yellow),
        );
    }
}

/// The rows shown, of all that pass the filter.
fn place(state: &Board) -> String {
    let top = state.view().top;
    let filter = state.view().filter.as_str();
    let rows = match (state.shown().len(), state.passing()) {
        (0, _) => "no rows".to_owned(),
        (n, all) => format!("rows {} to {} of {all}", top + 1, top + n),
    };
    match filter {
        "" => format!("{rows}  ? help  q quit"),
        filter => format!("{rows}, filter {}  Esc ends it  ? help", printable(filter)),
    }
}
