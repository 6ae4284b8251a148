//! State of the screen: the chosen table, its order, filter and scroll position, and the effect of each key.
//!
//! **Called by** the screen and the drawing. **Invariants**: no terminal and no server is needed; the rows are sorted and filtered once
//! for each reading and each key that changes them, not for each drawing; the scroll position is always within the rows.

use super::rows::{SORTED_BY, TABLES};
use super::table::{All, Column, Kind, Table};
use crate::cli::top::interval;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Longest text that is typed, characters.
const TYPED_MAX: usize = 64;

/// The meaning of the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// They change the table.
    Table,
    /// They are a filter.
    Filter(String),
    /// They are a number of seconds.
    Interval(String),
    /// Any key closes the help.
    Help,
}

/// Reaction of the screen to a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Draw,
    Quit,
    /// Take readings at this interval from now on.
    Interval(Duration),
}

/// A table's choice of rows.
#[derive(Debug, Default, Clone)]
pub(super) struct View {
    /// The column to sort by.
    pub(super) sort: usize,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// Rows above the first one shown.
    pub(super) top: usize,
    /// Columns hidden behind the first one, which is always shown.
    pub(super) left: usize,
}

/// State of the screen.
pub(super) struct Board {
    pub(super) interval: Duration,
    pub(super) mode: Mode,
    /// The chosen table.
    pub(super) tab: usize,
    pub(super) views: [View; TABLES],
    /// The newest reading; `None` before the first.
    pub(super) all: Option<All>,
    /// The error of the last reading, or of the last key.
    pub(super) message: Option<String>,
    /// Rows of the chosen table that pass the filter, in order.
    order: Vec<usize>,
    /// Rows that the screen has room for.
    room: usize,
}

impl Board {
    /// The state before the first reading.
    pub(super) fn new(interval: Duration) -> Board {
        Board {
            interval,
            mode: Mode::Table,
            tab: 0,
            views: SORTED_BY.map(|sort| View {
                sort,
                ..View::default()
            }),
            all: None,
            message: None,
            order: Vec::new(),
            room: 1,
        }
    }

    /// Takes a reading, or the reason why there is none; the last tables stay then.
    pub(super) fn read(&mut self, reading: Result<All, String>) {
        match reading {
            Ok(all) => {
                self.all = Some(all);
                self.message = None;
                self.sort();
            }
            Err(e) => self.message = Some(e),
        }
    }

    /// The number of rows that the screen has room for.
    pub(super) fn resize(&mut self, room: usize) {
        self.room = room.max(1);
        self.clamp();
    }

    /// The chosen table.
    pub(super) fn table(&self) -> Option<&Table> {
        self.all.as_ref()?.tables.get(self.tab)
    }

    /// The view of the chosen table.
    pub(super) fn view(&self) -> &View {
        &self.views[self.tab]
    }

    /// Rows of the chosen table that pass the filter.
    pub(super) fn passing(&self) -> usize {
        self.order.len()
    }

    /// The numbers of the rows that are shown.
    pub(super) fn shown(&self) -> &[usize] {
        let top = self.view().top.min(self.order.len());
        let end = self.order.len().min(top + self.room);
        &self.order[top..end]
    }

    fn sort(&mut self) {
        let View {
            sort,
            is_reversed,
            filter,
            ..
        } = self.view();
        // The filter applies while it is typed.
        let filter = match &self.mode {
            Mode::Filter(typed) => typed,
            _ => filter,
        };
        let order = self.table().map(|t| t.order(filter, *sort, *is_reversed));
        self.order = order.unwrap_or_default();
        self.clamp();
    }

    fn clamp(&mut self) {
        let last = self.order.len().saturating_sub(self.room);
        let view = &mut self.views[self.tab];
        view.top = view.top.min(last);
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            return Action::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Table if is_control => Action::Draw,
            Mode::Table => self.press_table(key.code),
            Mode::Help => Action::Draw,
            Mode::Filter(text) => {
                self.press_filter(text, key.code);
                Action::Draw
            }
            Mode::Interval(text) => self.press_interval(text, key.code),
        }
    }

    fn press_filter(&mut self, mut text: String, key: KeyCode) {
        match key {
            KeyCode::Enter => self.views[self.tab].filter = text,
            KeyCode::Esc => self.views[self.tab].filter.clear(),
            key => {
                typed(&mut text, key);
                self.mode = Mode::Filter(text);
            }
        }
        self.views[self.tab].top = 0;
        self.sort();
    }

    fn press_interval(&mut self, mut text: String, key: KeyCode) -> Action {
        match key {
            KeyCode::Esc => {}
            KeyCode::Enter => match interval(&text) {
                Ok(interval) => {
                    self.interval = interval;
                    return Action::Interval(interval);
                }
                Err(e) => self.message = Some(e),
            },
            key => {
                typed(&mut text, key);
                self.mode = Mode::Interval(text);
            }
        }
        Action::Draw
    }

    fn press_table(&mut self, key: KeyCode) -> Action {
        self.message = None;
        let page = self.room.saturating_sub(1).max(1);
        let top = self.view().top;
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter(self.view().filter.clone()),
            KeyCode::Char('d') => self.mode = Mode::Interval(String::new()),
            KeyCode::Char(c @ '1'..='4') => self.choose(c as usize - '1' as usize),
            KeyCode::Tab => self.choose((self.tab + 1) % TABLES),
            KeyCode::BackTab => self.choose((self.tab + TABLES - 1) % TABLES),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(top.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(top.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(top.saturating_add(page)),
            KeyCode::PageUp => self.scroll(top.saturating_sub(page)),
            KeyCode::Home | KeyCode::Char('g') => self.scroll(0),
            KeyCode::End | KeyCode::Char('G') => self.scroll(usize::MAX),
            KeyCode::Right => self.shift(self.view().left + 1),
            KeyCode::Left => self.shift(self.view().left.saturating_sub(1)),
            KeyCode::Char('r') => self.views[self.tab].is_reversed ^= true,
            KeyCode::Char('>') => self.sort_by(self.view().sort + 1),
            KeyCode::Char('<') => self.sort_by(self.view().sort.saturating_sub(1)),
            KeyCode::Esc => self.views[self.tab].filter.clear(),
            KeyCode::Char(c) => self.sort_by_letter(c),
            _ => return Action::Draw,
        }
        self.sort();
        Action::Draw
    }

    fn choose(&mut self, tab: usize) {
        self.tab = tab;
    }

    fn scroll(&mut self, top: usize) {
        self.views[self.tab].top = top;
    }

    fn columns(&self) -> &'static [Column] {
        self.table().map_or(&[], |t| t.columns)
    }

    fn shift(&mut self, left: usize) {
        // The last column stays.
        let most = self.columns().len().saturating_sub(2);
        self.views[self.tab].left = left.min(most);
    }

    fn sort_by(&mut self, column: usize) {
        if column < self.columns().len() {
            let view = &mut self.views[self.tab];
            view.sort = column;
            view.is_reversed = false;
        }
    }

    fn sort_by_letter(&mut self, letter: char) {
        let found = self.columns().iter().position(|c| c.letter == Some(letter));
        if let Some(column) = found {
            self.sort_by(column);
        }
    }

    /// Whether the rows rise along the column that they are sorted by.
    pub(super) fn is_rising(&self) -> bool {
        let view = self.view();
        let kind = self.columns().get(view.sort).map(|c| c.kind);
        (kind == Some(Kind::Text)) != view.is_reversed
    }
}

/// Changes a text by a key.
fn typed(text: &mut String, key: KeyCode) {
    match key {
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(c) if !c.is_control() && text.chars().count() < TYPED_MAX => text.push(c),
        _ => {}
    }
}
