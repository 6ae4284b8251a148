//! Published results, printed on request for comparison, each with its flaw.

use super::table::blank;
use crate::size::count;
use std::fmt::Write;
use toml::{Table, Value};

const RESULTS: &str = include_str!("../../data/field-results.toml");

/// Keys that are not numbers of a result.
const WORDS: [&str; 5] = ["id", "setup", "workload", "flaw", "note"];

/// A published result, in words.
pub(super) struct Published {
    /// Its name.
    pub(super) id: String,
    /// The hardware and the software.
    pub(super) setup: String,
    /// The workload, `4K randread Q1T1`; empty if it is not known.
    pub(super) workload: String,
    /// The numbers with their units.
    pub(super) numbers: String,
    /// Flaw and note.
    pub(super) remark: String,
}

/// All published results: others measured them, on their hardware.
pub(super) fn entries() -> Vec<Published> {
    results().iter().map(entry).collect()
}

fn entry(r: &Table) -> Published {
    let text = |key: &str| {
        r.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let numbers: Vec<String> = r
        .iter()
        .filter(|(k, _)| !WORDS.contains(&k.as_str()))
        .map(|(k, v)| format!("{k} {}", number(v)))
        .collect();
    let remark = [text("flaw"), text("note")]
        .into_iter()
        .filter(|s| !s.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    Published {
        id: text("id"),
        setup: text("setup"),
        workload: r
            .get("workload")
            .and_then(Value::as_table)
            .map_or(String::new(), workload),
        numbers: numbers.join(", "),
        remark,
    }
}

/// All published results as a table: others measured them, on their hardware.
#[must_use]
pub fn render() -> String {
    let mut t = blank(&["result", "workload", "published", "flaw or note"], 4);
    let mut setups = String::new();
    for e in entries() {
        let _ = writeln!(setups, "  {}: {}", e.id, e.setup);
        t.add_row([e.id, e.workload, e.numbers, e.remark]);
    }
    format!("Published by others, on their hardware (with known flaws)\n{t}\n{setups}")
}

fn results() -> Vec<Table> {
    let all: Table = RESULTS.parse().unwrap_or_default();
    let list = all
        .get("result")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    list.into_iter()
        .filter_map(|v| v.as_table().cloned())
        .collect()
}

fn workload(t: &Table) -> String {
    let get = |k: &str| t.get(k).map_or(String::new(), number);
    let rw = t.get("rw").and_then(Value::as_str).unwrap_or_default();
    let bs = t
        .get("bs")
        .and_then(Value::as_integer)
        .unwrap_or(0)
        .unsigned_abs();
    format!(
        "{} {rw} Q{}T{}",
        crate::size::size(bs),
        get("iodepth"),
        get("threads")
    )
}

fn number(v: &Value) -> String {
    match v {
        Value::Integer(i) => count(*i as f64),
        Value::Float(f) => f.to_string(),
        Value::Array(a) => a.iter().map(number).collect::<Vec<_>>().join("–"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_is_printed_with_its_flaw() {
        let text = render();
        assert!(results().len() > 15);
        for r in results() {
            for key in ["id", "flaw"] {
                if let Some(word) = r.get(key).and_then(Value::as_str) {
                    assert!(text.contains(word), "{word}");
                }
            }
        }
    }
}
