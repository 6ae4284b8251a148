//! Check of expressions of PromQL against the table of metrics.
//!
//! **Called by** tests of alert rules and dashboard. **Invariants**: each name that begins with `wirepool_` is a series of the
//! table; each label in braces, or after `by`, `without`, `on`, `ignoring` and the groupings, is a label of one of the
//! expression's metrics, or one that Prometheus adds.

use super::sections;
use super::table::{Kind, Metric, PREFIX};
use std::collections::BTreeSet;

/// Labels that Prometheus adds, and that of a histogram's buckets.
const OWN: [&str; 3] = ["instance", "job", "le"];
/// Words before a list of labels.
const LISTS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// The names of a metric's series.
fn series(metric: &Metric) -> Vec<String> {
    let name = metric.full_name();
    match metric.kind {
        Kind::Counter | Kind::Gauge => vec![name],
        Kind::Histogram => ["_bucket", "_sum", "_count"]
            .map(|s| name.clone() + s)
            .into(),
    }
}

/// The expression without its strings, as words and single characters.
fn tokens(expr: &str) -> Vec<String> {
    let (mut out, mut word, mut in_string) = (Vec::new(), String::new(), false);
    for c in expr.chars() {
        if c == '"' {
            in_string = !in_string;
        }
        if c.is_ascii_alphanumeric() || c == '_' {
            if !in_string {
                word.push(c);
            }
            continue;
        }
        if !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if !in_string && !c.is_whitespace() {
            out.push(c.to_string());
        }
    }
    out.extend((!word.is_empty()).then_some(word));
    out
}

/// Errors: the first name that is not in the table.
pub(super) fn check(expr: &str) -> Result<(), String> {
    let tokens = tokens(expr);
    let mut labels: BTreeSet<&str> = OWN.into();
    let mut is_known = false;
    for name in tokens
        .iter()
        .filter(|t| t.starts_with(&format!("{PREFIX}_")))
    {
        let metric = sections::all().find(|m| series(m).contains(name));
        let metric = metric.ok_or_else(|| format!("{name} is no series of the table"))?;
        labels.extend(metric.labels());
        is_known = true;
    }
    if !is_known && !tokens.contains(&"up".to_owned()) {
        return Err(format!("{expr}: no metric"));
    }
    for label in used(&tokens) {
        if !labels.contains(label) {
            return Err(format!("{label} is no label of the metrics of {expr}"));
        }
    }
    Ok(())
}

/// The labels in selectors and lists.
fn used(tokens: &[String]) -> Vec<&str> {
    let (mut out, mut end) = (Vec::new(), None);
    for (n, token) in tokens.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| tokens[n].as_str());
        match token.as_str() {
            "{" => end = Some("}"),
            "(" if before.is_some_and(|b| LISTS.contains(&b)) => end = Some(")"),
            t if Some(t) == end => end = None,
            t if end.is_some() && t.starts_with(|c: char| c.is_ascii_alphabetic()) => out.push(t),
            _ => {}
        }
    }
    out
}

#[test]
fn unknown_metrics_and_labels_are_found() {
    let good =
        r#"sum by (pool, job) (rate(wirepool_pool_written_bytes_total{class=~"data|nodes"}[5m]))"#;
    assert_eq!(check(good), Ok(()));
    for (bad, word) in [
        ("wirepool_pool_written_bytes", "no series"),
        ("wirepool_nothing > 0", "no series"),
        (r#"wirepool_pool_online{disk="a"}"#, "disk is no label"),
        (
            "sum without (shard) (wirepool_pool_online)",
            "shard is no label",
        ),
        ("time() > 0", "no metric"),
    ] {
        let error = check(bad).expect_err(bad);
        assert!(error.contains(word), "{error}");
    }
}
