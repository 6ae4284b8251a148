//! Errors in a configuration file, with their position.

use std::ops::Range;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Item, Table, Value};

/// An error in the configuration: file, position, key and expected value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {}{message}", .file.display(), prefix(.key))]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key, such as `disk.size`; empty if no key belongs to the position.
    pub key: String,
    /// The error and the expected value.
    pub message: String,
}

fn prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}

impl ConfigError {
    /// An error that the parser found in `text`. Its "sequence" is a word of programmers: the message shows the form of a list.
    pub(super) fn of_toml(file: &Path, text: &str, e: &toml::de::Error) -> ConfigError {
        let span = e.span().unwrap_or(0..0);
        let found = text.get(span.clone()).unwrap_or_default();
        let mut error = ConfigError::at(file, text, span, e.message());
        if let Some(start) = error.message.strip_suffix("a sequence") {
            error.message = format!("{start}{}", list_form(&error.key, found));
        }
        error
    }

    /// An error at `span` (bytes) of `text`; the key is found in the text.
    pub(super) fn at(
        file: &Path,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> ConfigError {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError {
            file: file.to_path_buf(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            key: key_at(text, &span),
            message: message.into(),
        }
    }
}

/// The keys whose values are tables; all other lists have values in brackets.
const TABLES: [&str; 8] = [
    "disk",
    "pool",
    "mount",
    "subsystem",
    "namespace",
    "target",
    "lun",
    "export",
];

/// The expected form of the list `key` that was found as the text `found`.
fn list_form(key: &str, found: &str) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    if TABLES.contains(&last) {
        return format!("tables: begin each with a line [[{key}]]");
    }
    let values = match found.starts_with(['"', '\'']) {
        true => found,
        false => "\"...\", \"...\"",
    };
    format!("a list such as {last} = [{values}]")
}

/// The innermost key whose name or value contains `span`.
fn key_at(text: &str, span: &Range<usize>) -> String {
    let mut keys = Vec::new();
    if let Ok(document) = Document::parse(text) {
        in_table(document.as_table(), span, &mut keys);
    }
    keys.join(".")
}

fn covers(outer: Option<Range<usize>>, span: &Range<usize>) -> bool {
    outer.is_some_and(|o| o.start <= span.start && span.end <= o.end)
}

fn in_table(table: &Table, span: &Range<usize>, keys: &mut Vec<String>) -> bool {
    for (name, item) in table {
        let key_span = table.key(name).and_then(toml_edit::Key::span);
        keys.push(name.to_owned());
        let inside = match item {
            Item::Table(t) => in_table(t, span, keys) || covers(t.span(), span),
            Item::ArrayOfTables(a) => {
                a.iter().any(|t| in_table(t, span, keys))
                    || a.iter().any(|t| covers(t.span(), span))
            }
            Item::Value(v) => covers(key_span, span) || in_value(v, span, keys),
            Item::None => false,
        };
        if inside {
            return true;
        }
        keys.pop();
    }
    false
}

fn in_value(value: &Value, span: &Range<usize>, keys: &mut Vec<String>) -> bool {
    match value {
        Value::InlineTable(t) => {
            for (name, v) in t {
                keys.push(name.to_owned());
                if covers(t.key(name).and_then(toml_edit::Key::span), span)
                    || in_value(v, span, keys)
                {
                    return true;
                }
                keys.pop();
            }
        }
        Value::Array(a)
            if a.iter()
                .any(|v| v.is_inline_table() && in_value(v, span, keys)) =>
        {
            return true;
        }
        _ => {}
    }
    covers(value.span(), span)
}
