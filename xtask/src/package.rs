//! The Debian package of the program.
//!
//! **Owns** the run of cargo-deb. **Called by** `cargo xtask deb`, which `make deb` runs. **Invariants**: the program is built before; pages and completions are those of the same program; one package is
//! built at a time, because all share these files; nothing outside the target directory and `to` is written.

use crate::{pages, repo};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The build of the program that is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// The optimized one, for people; compressed well.
    Release,
    /// The one of the tests; compressed fast.
    Dev,
}

impl Profile {
    /// Its directory below the target directory.
    fn dir(self) -> PathBuf {
        repo::target().join(match self {
            Profile::Release => "release",
            Profile::Dev => "debug",
        })
    }
}

/// Builds a package, by default with the version of the workspace, as the file `to`. Errors: the program is not built, cargo-deb is not
/// installed, or it fails.
pub fn build(profile: Profile, version: Option<&str>, to: &Path) -> Result<()> {
    let dir = profile.dir();
    fs::create_dir_all(&dir)?;
    let lock = File::create(dir.join("package.lock"))?;
    lock.lock()?;
    pages::write(&dir.join("wirepool"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["deb", "--locked", "--no-build", "--quiet", "--strip"])
        .args(["-p", "wirepool", "--output"])
        .arg(std::path::absolute(to)?)
        .current_dir(repo::root());
    if let Profile::Dev = profile {
        // The tool's own gzip searches for the smallest file, for minutes.
        command.args([
            "--profile",
            "dev",
            "--fast",
            "--compress-type",
            "gz",
            "--compress-system",
        ]);
    }
    if let Some(version) = version {
        command.args(["--deb-version", version]);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.context("cargo deb")?;
    ensure!(
        status.success(),
        "cargo deb: {status}; `xtask/install.sh deb` installs it"
    );
    Ok(())
}

/// The default place of a package of this workspace's version.
pub fn path(profile: Profile) -> PathBuf {
    let name = concat!("wirepool_", env!("CARGO_PKG_VERSION"), "-1.deb");
    let dir = match profile {
        Profile::Release => repo::target().join("debian"),
        Profile::Dev => repo::target().join("debug/debian"),
    };
    dir.join(name)
}
