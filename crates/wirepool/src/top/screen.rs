//! The terminal: its modes, its keys, and the readings that arrive meanwhile.
//!
//! **Owns** the threads for keys, readings and signals, which send events to one loop. **Called by** `top`. **Invariants**: the terminal is
//! as before when the command ends, also after a signal, an error or a panic; the loop draws after each event, so that nothing is
//! drawn without a change; a server that does not answer leaves the last tables and the keys.

use super::reading::Reading;
use super::state::{Action, Board};
use super::table::All;
use super::{rows, view};
use crate::client::Client;
use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyEvent, KeyEventKind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// An event of the loop.
enum Event {
    Key(KeyEvent),
    Resized,
    /// Tables, or the reason why there are none.
    Tables(Box<Result<All, String>>),
    /// A signal, or the terminal has gone.
    End,
}

/// The terminal in raw mode, on its alternate screen.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Changes the terminal; a panic of any thread restores it first.
    pub(super) fn enter() -> Result<Screen> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Screen(terminal)),
            Err(e) => {
                // A part of the changes may be made.
                ratatui::restore();
                Err(e).context("the terminal cannot be used: use `wirepool top --once`")
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows tables until `q` or a signal.
pub(super) fn run(client: Client, interval: Duration) -> Result<()> {
    let (events, inbox) = mpsc::channel();
    // Before the terminal changes: from here on a signal is an event.
    end_by_signals(events.clone())?;
    let (intervals, changes) = mpsc::channel();
    let mut screen = Screen::enter()?;
    let to = events.clone();
    thread::spawn(move || send_input(&to));
    thread::spawn(move || send_tables(&client, interval, &changes, &events));
    let mut state = Board::new(interval);
    loop {
        let size = screen.0.size()?;
        state.resize(usize::from(size.height.saturating_sub(view::CHROME)));
        screen.0.draw(|frame| view::draw(frame, &state))?;
        match inbox.recv()? {
            Event::Key(key) => match state.press(key) {
                Action::Quit => return Ok(()),
                Action::Interval(interval) => intervals.send(interval)?,
                Action::Draw => {}
            },
            Event::Tables(tables) => state.read(*tables),
            Event::Resized => {}
            Event::End => return Ok(()),
        }
    }
}

/// Sends [`Event::End`] at a signal that would end the process.
fn end_by_signals(to: Sender<Event>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let guard = runtime.enter();
    let signals = kinds.map(signal);
    drop(guard);
    for signal in signals {
        let (mut signal, to) = (signal?, to.clone());
        runtime.spawn(async move {
            while signal.recv().await.is_some() {
                let _ = to.send(Event::End);
            }
        });
    }
    thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(())
}

/// Sends keys and changes of size.
fn send_input(to: &Sender<Event>) {
    loop {
        let sent = match event::read() {
            Ok(Input::Key(key)) if key.kind != KeyEventKind::Release => to.send(Event::Key(key)),
            Ok(Input::Resize(..)) => to.send(Event::Resized),
            Ok(_) => Ok(()),
            Err(_) => {
                let _ = to.send(Event::End);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends tables at an interval, which a message changes.
fn send_tables(
    client: &Client,
    mut interval: Duration,
    changes: &Receiver<Duration>,
    to: &Sender<Event>,
) {
    let mut before = None;
    loop {
        let reading = Reading::take(client);
        let tables = reading.map(|now| {
            let all = rows::all(before.as_ref(), &now);
            before = Some(now);
            all
        });
        let tables = tables.map_err(|e| format!("{e:#}"));
        if to.send(Event::Tables(Box::new(tables))).is_err() {
            return;
        }
        match changes.recv_timeout(interval) {
            Ok(changed) => interval = changed,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
