//! Manual pages, shell completions and changelogs of a package.
//!
//! **Called by** `cargo xtask pages`, which `make deb` runs. **Invariants**: the program writes them from the definitions that parse its
//! command line; pages of an earlier version do not stay; nothing outside the directory of the program is written.

use crate::repo;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the files to `package` beside the program; returns that directory. Errors: the program is not built, or fails; gzip fails.
pub fn write(program: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(program)?;
    let dir = program.with_file_name("package");
    match fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let status = Command::new(&program).arg("generate").arg(&dir).status();
    let status = status
        .with_context(|| format!("{}: build it with --release -p wirepool", program.display()))?;
    ensure!(status.success(), "{}: {status}", program.display());
    let root = repo::root();
    for (from, name) in [
        ("CHANGELOG.md", "changelog"),
        ("crates/wirepool/package/changelog", "changelog.Debian"),
    ] {
        fs::copy(root.join(from), dir.join(name)).context(from)?;
    }
    compress(&dir)?;
    Ok(dir)
}

/// Compresses pages and changelogs, as Debian's policy demands (12.1, 12.7); without names and times, so that equal files stay equal.
fn compress(dir: &Path) -> Result<()> {
    let pages = fs::read_dir(dir.join("man"))?.map(|entry| Ok(entry?.path()));
    let pages = pages.collect::<Result<Vec<PathBuf>>>()?;
    let changelogs = ["changelog", "changelog.Debian"].map(|name| dir.join(name));
    let mut command = Command::new("gzip");
    command.arg("-9n").args(pages).args(changelogs);
    let status = command.status().context("gzip")?;
    ensure!(status.success(), "gzip: {status}");
    Ok(())
}
