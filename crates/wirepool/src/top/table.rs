//! A table: columns with their kind of value, and rows of values.
//!
//! **Owns** the text of a value, the order of rows, and the plain and JSON forms. **Called by** `rows`, `state` and `view`.
//! **Invariants**: a value becomes text only when it is shown; the text is printable, on one line; an unknown value is less than
//! every known one, and is shown as `-`; JSON has the exact values.

use crate::columns;
use io::printable::printable;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use server::ByteSize;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Count,
    Percent,
    Bytes,
    /// Bytes per second.
    BytesRate,
    Micros,
    Millis,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    /// The heading; without its case unique in the table.
    pub(super) title: &'static str,
    /// The name in JSON, with the unit.
    pub(super) key: &'static str,
    /// The capital letter that sorts by this column.
    pub(super) letter: Option<char>,
    pub(super) kind: Kind,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Unknown,
    Number(u64),
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Unknown, Into::into)
    }
}

impl Value {
    /// The text of a value in a column of this kind.
    pub(super) fn text(&self, kind: Kind) -> Cow<'_, str> {
        let number = match self {
            Value::Unknown => return "-".into(),
            Value::Text(text) => return printable(text),
            Value::Number(number) => *number,
        };
        match kind {
            Kind::Text | Kind::Count => number.to_string(),
            Kind::Percent => format!("{number}%"),
            Kind::Bytes => ByteSize(number).human(),
            Kind::BytesRate => ByteSize(number).human() + "/s",
            Kind::Micros => columns::micros(number),
            Kind::Millis => columns::duration(number),
        }
        .into()
    }

    /// The order of values of one column.
    pub(super) fn order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Unknown, Value::Unknown) => Ordering::Equal,
            (Value::Unknown, _) | (Value::Number(_), Value::Text(_)) => Ordering::Less,
            (_, Value::Unknown) | (Value::Text(_), Value::Number(_)) => Ordering::Greater,
        }
    }

    /// Whether a text contains `needle`, which is in lower case.
    pub(super) fn contains(&self, needle: &str) -> bool {
        match self {
            Value::Text(text) => text.to_lowercase().contains(needle),
            _ => false,
        }
    }
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// The tab's title: `Pools`.
    pub(super) title: &'static str,
    pub(super) columns: &'static [Column],
    /// Each with a value for each column.
    pub(super) rows: Vec<Vec<Value>>,
    /// The line in place of an empty table.
    pub(super) empty: &'static str,
}

impl Table {
    /// The rows in which a text contains `filter`, or with `!` before it in which none does, in order of the column's values.
    /// Numbers are sorted from the largest, texts from the first. Rows of equal values keep their order.
    pub(super) fn order(&self, filter: &str, column: usize, is_reversed: bool) -> Vec<usize> {
        let lower = filter.to_lowercase();
        let (needle, wanted) = match lower.strip_prefix('!') {
            Some(rest) => (rest, false),
            None => (lower.as_str(), true),
        };
        let passes = |row: &Vec<Value>| {
            needle.is_empty() || row.iter().any(|v| v.contains(needle)) == wanted
        };
        let rows = self.rows.iter().enumerate();
        let passing = rows.filter(|(_, row)| passes(row));
        let mut order: Vec<usize> = passing.map(|(i, _)| i).collect();
        let is_rising = (self.columns[column].kind == Kind::Text) != is_reversed;
        order.sort_by(|a, b| {
            let order = self.rows[*a][column].order(&self.rows[*b][column]);
            if is_rising { order } else { order.reverse() }
        });
        order
    }

    fn text(&self) -> String {
        if self.rows.is_empty() {
            return format!("{}\n", self.empty);
        }
        let titles: Vec<&str> = self.columns.iter().map(|c| c.title).collect();
        let numbers = self.columns.iter().enumerate();
        let numbers = numbers.filter(|(_, c)| c.kind != Kind::Text);
        let right: Vec<usize> = numbers.map(|(i, _)| i).collect();
        let mut t = columns::table(&titles, &right);
        // Numbers rise here, too.
        let is_reversed = self.columns[0].kind != Kind::Text;
        for i in self.order("", 0, is_reversed) {
            let cells = self.rows[i].iter().zip(self.columns);
            t.add_row(cells.map(|(v, c)| v.text(c.kind).into_owned()));
        }
        columns::text(&t)
    }

    fn json(&self) -> Json {
        let row = |row: &Vec<Value>| -> Json {
            let pairs = self.columns.iter().zip(row);
            let pairs = pairs.map(|(c, v)| {
                let json = match v {
                    Value::Unknown => Json::Null,
                    Value::Number(n) => (*n).into(),
                    Value::Text(t) => t.as_str().into(),
                };
                (c.key.to_owned(), json)
            });
            Json::Object(pairs.collect::<Map<_, _>>())
        };
        self.rows.iter().map(row).collect()
    }
}

/// All tables, and the facts above them.
pub(super) struct All {
    /// The server in one line.
    pub(super) head: String,
    /// Warnings of the server.
    pub(super) warnings: Vec<String>,
    /// Time between the two readings, seconds; `None` for one reading.
    pub(super) seconds: Option<f64>,
    /// One for each tab.
    pub(super) tables: Vec<Table>,
}

impl All {
    /// The plain form: all tables, sorted by their first column.
    pub(super) fn text(&self) -> String {
        let mut out = printable(&self.head).into_owned() + "\n";
        for w in &self.warnings {
            out += &format!("warning: {}\n", printable(w));
        }
        for table in &self.tables {
            out += "\n";
            out += &table.text();
        }
        out
    }
}

impl Serialize for All {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = Map::new();
        out.insert("seconds".into(), self.seconds.into());
        out.insert("warnings".into(), self.warnings.clone().into());
        for table in &self.tables {
            out.insert(table.title.to_lowercase(), table.json());
        }
        out.serialize(s)
    }
}
