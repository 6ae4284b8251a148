//! Verdicts of foreign suites: the ones of a run, and the expected ones in the tables of `conformance/*.md`.
//!
//! **Owns** reading the tables, and the comparison. **Called by** `posix` and `pynfs`. **Invariants**: passed, failed and
//! skipped tests are exactly the listed ones; a failed or skipped test without a reason is refused.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt;

/// Names of tests.
pub type Names = BTreeSet<String>;

/// The verdicts of a suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of passed tests.
    pub passed: usize,
    /// Failed tests.
    pub failed: Names,
    /// Tests that the suite did not run.
    pub skipped: Names,
}

/// The result of a suite on one subject: a kind of mount, or a server.
pub struct Outcome {
    /// Name of the suite.
    pub suite: &'static str,
    /// Name of the subject.
    pub kind: &'static str,
    /// Duration of the run.
    pub seconds: u64,
    /// The verdicts.
    pub found: Findings,
    /// The listed verdicts.
    pub expected: Findings,
    /// The file with the listed verdicts.
    pub list: &'static str,
}

impl Outcome {
    /// Whether the verdicts are the listed ones.
    pub fn passed(&self) -> bool {
        self.found == self.expected
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.passed() {
            true => "as listed".to_owned(),
            false => format!("NOT as listed in {}", self.list),
        };
        let Findings {
            passed,
            failed,
            skipped,
        } = &self.found;
        let (suite, kind, seconds) = (self.suite, self.kind, self.seconds);
        let (failures, skips) = (failed.len(), skipped.len());
        write!(
            f,
            "{suite:15} {kind:12} {passed:5} passed, {failures:2} failed, {skips:2} skipped, {seconds:4} s: {verdict}"
        )?;
        if passed != &self.expected.passed {
            write!(f, "\n    {} must pass", self.expected.passed)?;
        }
        for (word, now, listed) in [
            ("failed", failed, &self.expected.failed),
            ("skipped", skipped, &self.expected.skipped),
        ] {
            for name in now.difference(listed) {
                write!(f, "\n    {word}, and not listed: {name}")?;
            }
            for name in listed.difference(now) {
                write!(f, "\n    listed, and not {word}: {name}")?;
            }
        }
        Ok(())
    }
}

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

/// The listed verdicts of a suite on a subject. `list` is a text with the tables "Passed", "Failed" and "Skipped".
///
/// # Errors
/// A table or the row of the suite is missing, or a failed or skipped test has no reason.
pub fn expected(list: &'static str, suite: &str, kind: &str) -> Result<Findings> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_numbers_and_reasons() {
        let list = "\n## Passed\n| suite | mounts | tests |\n|---|---|---|\n| a | x y | 7 |\n\n## Failed\n| suite | tests | \
                    mounts | why |\n|---|---|---|---|\n| a | one two | x | because |\n\n## Skipped\n| suite | tests | mounts \
                    | why |\n|---|---|---|---|\n| a | three | x | |\n";
        assert!(expected(list, "a", "x").is_err(), "no reason");
        let list: &'static str = Box::leak(list.replace("| |", "| so |").into_boxed_str());
        let found = expected(list, "a", "x").unwrap();
        assert_eq!(found.passed, 7);
        assert_eq!(found.failed, ["one", "two"].map(str::to_owned).into());
        assert_eq!(found.skipped, ["three".to_owned()].into());
        assert_eq!(expected(list, "a", "y").unwrap().failed, Names::new());
        assert!(expected(list, "b", "x").is_err());
    }
}
