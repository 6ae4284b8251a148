//! Sources of suites that no registry has.
//!
//! **Owns** their places and versions, and building them under `target/posix`. **Called by** the suites. **Invariants**: a
//! source is the commit that is named here, and no other; none is part of this repository.

use crate::program::must;
use crate::repo;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// A repository at one commit.
pub(super) struct Source {
    name: &'static str,
    url: &'static str,
    commit: &'static str,
    /// Shell commands that build it.
    build: &'static str,
}

pub(super) const PJDFSTEST: Source = Source {
    name: "pjdfstest",
    url: "https://github.com/pjd/pjdfstest.git",
    commit: "85a8aea9e685999ef0540392fd80535f873d7ff7",
    build: "autoreconf -ifs && ./configure && make pjdfstest",
};

/// Its `fsx` and `fsstress`.
pub(super) const XFSTESTS: Source = Source {
    name: "xfstests",
    url: "https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git",
    commit: "63a29724a85f1999e49bf0a9bf0d22643b6116e5",
    build: XFSTESTS_BUILD,
};

/// The build of the part of xfstests that has `fsx` and `fsstress`.
pub(super) const XFSTESTS_BUILD: &str =
    "make configure && ./configure && make -C include && make -C lib && make -C ltp";

/// Seconds for fetching, and for building.
const LIMIT: u32 = 900;
/// The variable that names a directory with a repository NAME for each source, where their addresses are out of reach.
const ELSEWHERE: &str = "WIREPOOL_POSIX_SOURCES";

impl Source {
    /// A directory with the source at its commit, built. It is fetched and built once.
    pub(super) fn built(&self) -> Result<PathBuf> {
        let dir = repo::target().join(format!("posix/{}-{}", self.name, &self.commit[..12]));
        let mark = dir.join(".built");
        if mark.exists() {
            return Ok(dir);
        }
        let fetched = self.fetch(&dir);
        fetched.with_context(|| {
            format!(
                "{} {} cannot be fetched; {ELSEWHERE} names a directory of repositories to take it from",
                self.name, self.commit
            )
        })?;
        must(self.name, LIMIT, &dir, &["sh", "-c", self.build])?;
        fs::write(&mark, self.commit)?;
        Ok(dir)
    }

    fn fetch(&self, dir: &Path) -> Result<()> {
        let from = match std::env::var_os(ELSEWHERE) {
            Some(all) => Path::new(&all).join(self.name).display().to_string(),
            None => self.url.to_owned(),
        };
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir)?;
        let git = |words: &[&str]| must(self.name, LIMIT, dir, &[&["git"], words].concat());
        git(&["init", "-q"])?;
        git(&["fetch", "-q", "--depth=1", &from, self.commit])?;
        git(&["checkout", "-q", "FETCH_HEAD"])?;
        let head = git(&["rev-parse", "HEAD"])?;
        ensure!(head.trim() == self.commit, "{from} gave {head}");
        Ok(())
    }
}
