//! Checkouts of foreign suites that no registry has.
//!
//! **Owns** the check that a directory has a suite, at one commit, unchanged and built. **Called by** `pynfs` and the guests.
//! **Invariants**: a variable of the environment names the directory; nothing in it is changed.

use crate::program::must;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::PathBuf;

/// A suite that is not part of this repository.
pub(crate) struct Checkout {
    /// Its name.
    pub(crate) name: &'static str,
    /// The variable that names the directory.
    pub(crate) variable: &'static str,
    /// The commit whose tests are listed in `conformance`.
    pub(crate) commit: &'static str,
    /// Files that the preparation of its README makes.
    pub(crate) made: &'static [&'static str],
}

impl Checkout {
    fn named(&self) -> Option<OsString> {
        std::env::var_os(self.variable).filter(|place| !place.is_empty())
    }

    /// Whether the variable names a directory.
    pub(crate) fn is_available(&self) -> bool {
        self.named().is_some()
    }

    /// The directory.
    ///
    /// # Errors
    /// The variable names none, or it has another commit or changed files, or it is not prepared.
    pub(crate) fn place(&self) -> Result<PathBuf> {
        let place = self.named().with_context(|| {
            let (name, variable, commit) = (self.name, self.variable, self.commit);
            format!("{variable} names no directory with {name} {commit}, ready to run; docs/testing.md explains it")
        })?;
        self.check(place.into())
    }

    /// This directory, if it has the suite.
    fn check(&self, place: PathBuf) -> Result<PathBuf> {
        let (name, commit) = (self.name, self.commit);
        let log = format!("{name}-git");
        let git = |words: &[&str]| must(&log, 60, &place, &[&["git"], words].concat());
        let head = git(&["rev-parse", "HEAD"])?;
        let (at, head) = (place.display(), head.trim());
        ensure!(head == commit, "{at}: commit {head}, and not {commit}");
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
        ensure!(changed.is_empty(), "{at}: {changed}");
        for file in self.made {
            let is_made = place.join(file).exists();
            ensure!(
                is_made,
                "{at}: {name} is not prepared as its README says: no {file}"
            );
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn git(place: &Path, words: &[&str]) -> String {
        let own = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"];
        must("checkout-test", 60, place, &[&own, words].concat()).unwrap()
    }

    fn checkout(commit: &'static str) -> Checkout {
        Checkout {
            name: "suite",
            variable: "NONE",
            commit,
            made: &["made"],
        }
    }

    #[test]
    fn only_the_listed_commit_unchanged_and_prepared_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        git(place, &["init", "-q"]);
        std::fs::write(place.join("test"), "1").unwrap();
        git(place, &["add", "test"]);
        git(place, &["commit", "-q", "-m", "t"]);
        let head: &'static str = git(place, &["rev-parse", "HEAD"]).trim().to_owned().leak();
        let reason = |of: &Checkout| of.check(place.into()).unwrap_err().to_string();
        let own = checkout(head);
        assert!(reason(&own).contains("no made"), "{}", reason(&own));
        std::fs::write(place.join("made"), "").unwrap();
        assert_eq!(own.check(place.into()).unwrap(), place);
        assert!(reason(&checkout("0")).contains("and not 0"));
        std::fs::write(place.join("test"), "2").unwrap();
        assert!(reason(&own).contains("M test"), "{}", reason(&own));
    }
}
