//! fsx and fsstress: random operations on one file, compared with a copy in memory, and on many files.
//!
//! **Owns** their settings. **Called by** a run. **Invariants**: a suite is one test, which passes if its program succeeds;
//! seeds are fixed.

use super::mount::Mounted;
use super::sources::XFSTESTS;
use crate::program::must;
use crate::verdicts::{Findings, Names};

use anyhow::{Result, ensure};
use std::fs;

const ONE: Findings = Findings {
    passed: 1,
    failed: Names::new(),
    skipped: Names::new(),
};

/// All operations of the port that Linux has.
const FSX_PORT: &str = "flen = 262144
[opsize]
max = 65536
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 5
sendfile = 2
posix_fadvise = 1
copy_file_range = 5
";

/// fsx's port, from the registry of crates.
pub(super) fn fsx_port(on: &Mounted) -> Result<Findings> {
    let config = on.outside().join("fsx.toml");
    fs::write(&config, FSX_PORT)?;
    let (config, file) = (config.display().to_string(), on.at().join("file"));
    let (file, artefacts) = (
        file.display().to_string(),
        on.outside().display().to_string(),
    );
    let words = [
        "fsx", "-f", &config, "-N", "20000", "-S", "5", "-P", &artefacts, &file,
    ];
    let said = must("fsx-port", 600, on.outside(), &words)?;
    ensure!(said.contains("All operations completed"), "{said}");
    Ok(ONE)
}

/// Operations that fsx switches off because the file system does not have them; any other one must stay on.
const ABSENT: &[&str] = &[
    "FALLOC_FL_UNSHARE_RANGE",
    "FALLOC_FL_COLLAPSE_RANGE",
    "FALLOC_FL_INSERT_RANGE",
    "clone range",
    "dedupe range",
    "exchange range",
    "dontcache IO",
    "atomic writes",
];

fn fsx_with(on: &Mounted, operations: u32, options: &[&str]) -> Result<Findings> {
    let program = XFSTESTS.built()?.join("ltp/fsx").display().to_string();
    let file = on.at().join("file").display().to_string();
    let artefacts = on.outside().display().to_string();
    let count = operations.to_string();
    let words = [&program, "-N", &count, "-S", "7", "-P", &artefacts];
    let words = [&words[..], options, &[&file]].concat();
    let said = must("fsx", 1800, on.outside(), &words)?;
    let done = format!("All {operations} operations completed A-OK!");
    ensure!(said.contains(&done), "{said}");
    for off in said.lines().filter(|l| l.contains("disabling!")) {
        let is_known = ABSENT.iter().any(|known| off.contains(known));
        ensure!(is_known, "fsx did not try everything: {off}");
    }
    Ok(ONE)
}

/// fsx of xfstests.
pub(super) fn fsx(on: &Mounted) -> Result<Findings> {
    fsx_with(on, 1_000_000, &[])
}

/// fsx of xfstests, with direct I/O.
pub(super) fn fsx_direct(on: &Mounted) -> Result<Findings> {
    fsx_with(on, 200_000, &["-Z", "-r", "512", "-w", "512"])
}

/// fsstress of xfstests; afterwards the tree can be listed and removed.
pub(super) fn fsstress(on: &Mounted) -> Result<Findings> {
    let program = XFSTESTS.built()?.join("ltp/fsstress").display().to_string();
    let tree = on.at().join("tree");
    fs::create_dir(&tree)?;
    let path = tree.display().to_string();
    let words = [&program, "-d", &path, "-n", "20000", "-p", "4", "-s", "5"];
    must("fsstress", 1800, on.outside(), &words)?;
    must("fsstress-find", 600, &tree, &["find", ".", "-ls"])?;
    fs::remove_dir_all(&tree)?;
    Ok(ONE)
}
