//! The expected verdicts: the tables of `conformance/posix.md`.
//!
//! **Owns** reading them. **Called by** a run. **Invariants**: a failed or skipped test without a reason is refused.

use super::{Findings, Names};
use anyhow::{Context, Result, bail, ensure};

const LIST: &str = include_str!("../../../conformance/posix.md");

/// The cells of the rows below a heading, without the table's own first row.
fn rows(list: &'static str, heading: &str) -> Result<Vec<Vec<&'static str>>> {
    let from = list.split_once(&format!("\n## {heading}\n"));
    let from = from.with_context(|| format!("no heading {heading}"))?.1;
    let section = from.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|l| l.starts_with("| ")).skip(1);
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect();
    Ok(lines.map(cells).collect())
}

fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|w| w == word)
}

fn names(list: &'static str, heading: &str, suite: &str, kind: &str) -> Result<Names> {
    let mut names = Names::new();
    for row in rows(list, heading)? {
        let [of, tests, kinds, why] = row[..] else {
            bail!("{heading}: a row has suite, tests, mounts and reason: {row:?}");
        };
        ensure!(!why.is_empty(), "{heading}: {row:?} gives no reason");
        if of == suite && has(kinds, kind) {
            names.extend(tests.split(' ').map(str::to_owned));
        }
    }
    Ok(names)
}

fn expected_in(list: &'static str, suite: &str, kind: &str) -> Result<Findings> {
    let mut passed = None;
    for row in rows(list, "Passed")? {
        let [of, kinds, count, ..] = row[..] else {
            bail!("Passed: a row has suite, mounts and number: {row:?}");
        };
        if of == suite && has(kinds, kind) {
            passed = Some(count.parse().with_context(|| format!("{row:?}"))?);
        }
    }
    Ok(Findings {
        passed: passed.with_context(|| format!("no number of passed tests: {suite} on {kind}"))?,
        failed: names(list, "Failed", suite, kind)?,
        skipped: names(list, "Skipped", suite, kind)?,
    })
}

/// The listed verdicts of a suite on a kind of mount.
pub(super) fn expected(suite: &str, kind: &str) -> Result<Findings> {
    expected_in(LIST, suite, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posix::SUITES;

    #[test]
    fn every_run_is_listed() {
        for suite in SUITES {
            for kind in suite.kinds {
                expected(suite.name, kind).unwrap();
            }
        }
    }

    #[test]
    fn a_list_has_numbers_and_reasons() {
        let list = "\n## Passed\n| suite | mounts | tests |\n|---|---|---|\n| a | x y | 7 |\n\n## Failed\n| suite | tests | \
                    mounts | why |\n|---|---|---|---|\n| a | one two | x | because |\n\n## Skipped\n| suite | tests | mounts \
                    | why |\n|---|---|---|---|\n| a | three | x | |\n";
        assert!(expected_in(list, "a", "x").is_err(), "no reason");
        let list: &'static str = Box::leak(list.replace("| |", "| so |").into_boxed_str());
        let found = expected_in(list, "a", "x").unwrap();
        assert_eq!(found.passed, 7);
        assert_eq!(found.failed, ["one", "two"].map(str::to_owned).into());
        assert_eq!(found.skipped, ["three".to_owned()].into());
        assert_eq!(expected_in(list, "a", "y").unwrap().failed, Names::new());
        assert!(expected_in(list, "b", "x").is_err());
    }
}
