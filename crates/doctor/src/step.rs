//! Steps that mend a finding, and their words for a shell.
//!
//! **Owns** the quoting. **Called by** the checks, which make steps, and by [`crate::report`] and [`crate::script`], which print
//! them. **Invariants**: every word that is not one of ours is quoted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The command that restarts the server.
pub(crate) const RESTART: &str = "systemctl restart wirepool";

/// A step that mends a finding. Nothing here is ever carried out by the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "do")]
pub enum Step {
    /// A command.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A value written to a file of the kernel; it lasts until the next boot.
    Set {
        /// The file.
        path: String,
        /// The value.
        value: String,
    },
    /// A new file, which keeps a setting across boots.
    File {
        /// The file.
        path: String,
        /// Its lines.
        lines: Vec<String>,
    },
    /// Work that needs a person.
    Advice {
        /// The work, as a sentence.
        text: String,
    },
}

impl Step {
    /// A command.
    #[must_use]
    pub fn run(argv: &[&str]) -> Step {
        Step::Run {
            argv: argv.iter().map(|a| (*a).to_owned()).collect(),
        }
    }

    /// A value for a file of the kernel.
    #[must_use]
    pub fn set(path: impl Into<String>, value: impl ToString) -> Step {
        Step::Set {
            path: path.into(),
            value: value.to_string(),
        }
    }

    /// A new file.
    #[must_use]
    pub fn file(path: impl Into<String>, lines: &[&str]) -> Step {
        Step::File {
            path: path.into(),
            lines: lines.iter().map(|l| (*l).to_owned()).collect(),
        }
    }

    /// Work for a person.
    #[must_use]
    pub fn advice(text: impl Into<String>) -> Step {
        Step::Advice { text: text.into() }
    }

    /// The last step of changes that only a new process of the server sees.
    #[must_use]
    pub fn restart_server() -> Step {
        Step::advice(format!("then restart the server: {RESTART}"))
    }

    /// A kernel setting, now and at each boot. `check` names the file.
    #[must_use]
    pub fn sysctl(check: &str, key: &str, value: &str) -> Vec<Step> {
        let assignment = format!("{key}={value}");
        vec![
            Step::run(&["sysctl", "-w", &assignment]),
            Step::file(
                format!("/etc/sysctl.d/90-wirepool-{check}.conf"),
                &[&format!("{key} = {value}")],
            ),
        ]
    }
}

/// One word for the shell: unchanged if it is harmless, else in single quotes.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A step as one line for people; a file's lines are joined.
#[must_use]
pub fn line(step: &Step) -> String {
    match step {
        Step::Run { argv } => words(argv),
        Step::Set { path, value } => format!("echo {} > {}", quoted(value), quoted(path)),
        Step::File { path, lines } => format!("in {path}: {}", lines.join(" | ")),
        Step::Advice { text } => text.clone(),
    }
}

fn words(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|a| quoted(a)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted("eth0"), "eth0");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a;rm -rf /"), "'a;rm -rf /'");
        assert_eq!(quoted("it's $(x)"), "'it'\\''s $(x)'");
    }
}
