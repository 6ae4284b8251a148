//! House rules that a program can check.
//!
//! **Owns** the rules and their report. **Called by** `cargo xtask tidy`, which `make check` runs, and by this
//! crate's tests. **Invariants**: a rule is a pure function of names and texts, and has a test in which a bad snippet
//! fails; only files that git tracks, or would track, are read.

mod circles;
mod code;
mod docs;
mod layers;
mod names;
mod phrases;
mod source;

use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A violation of a house rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    file: String,
    line: usize,
    rule: &'static str,
    message: String,
    failure: bool,
}

impl Finding {
    fn failure(file: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            rule,
            message: message.into(),
            failure: true,
        }
    }

    fn warning(file: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            failure: false,
            ..Self::failure(file, line, rule, message)
        }
    }

    /// Whether it fails the run; a warning is only printed.
    pub fn is_failure(&self) -> bool {
        self.failure
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.failure { "error" } else { "warning" };
        write!(
            f,
            "{}:{}: {word}: {} [{}]",
            self.file, self.line, self.message, self.rule
        )
    }
}

/// One text file: its path from the root, with `/`, and its contents.
struct Text {
    path: String,
    text: String,
}

/// A file of this path and contents.
#[cfg(test)]
fn text(path: &str, text: &str) -> Text {
    Text {
        path: path.into(),
        text: text.into(),
    }
}

/// Check the tree below `root`.
pub fn run(root: &Path) -> Result<Vec<Finding>> {
    let files = tracked_texts(root)?;
    let mut findings: Vec<Finding> = files.iter().flat_map(check_text).collect();
    findings.extend(layers::check(&files)?);
    findings.extend(phrases::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(names::check(&files));
    findings.extend(docs::check(&files, &|path| root.join(path).exists()));
    findings.sort_by(|a, b| (a.failure, &a.file, a.line).cmp(&(b.failure, &b.file, b.line)));
    Ok(findings)
}

fn check_text(file: &Text) -> Vec<Finding> {
    let mut findings = source::check_any(&file.path, &file.text);
    if file.path.ends_with(".rs") {
        findings.extend(source::check_rust(&file.path, &file.text));
    }
    findings
}

fn tracked_texts(root: &Path) -> Result<Vec<Text>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()?;
    let names = String::from_utf8(output.stdout).context("file names are UTF-8")?;
    let mut files = Vec::new();
    for path in names.split('\0').filter(|p| !p.is_empty()) {
        let full: PathBuf = root.join(path);
        // skip files that are deleted but still in the index, links to folders, and files that are not text
        if let Some(text) = std::fs::read(&full)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
        {
            files.push(Text {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let failures: Vec<String> = run(&crate::repo::root())
            .unwrap()
            .iter()
            .filter(|f| f.is_failure())
            .map(Finding::to_string)
            .collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
