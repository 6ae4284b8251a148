//! pjdfstest, in shell and C, and its port to Rust.
//!
//! **Owns** running both and reading their verdicts. **Called by** a run. **Invariants**: a file of the original that gives
//! up before its tests (`quick_exit`) is skipped, not passed; a file with more or fewer verdicts than it planned is an error.

use super::mount::Mounted;
use super::sources::PJDFSTEST;
use crate::program::{must, run};
use crate::verdicts::Findings;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Files that run at once. Most of their time is sleep.
const AT_ONCE: usize = 4;
/// Time limit of one file, seconds.
const FILE_LIMIT: u32 = 600;

/// The verdicts of one file, in the Test Anything Protocol.
fn verdicts(file: &str, said: &str) -> Result<Findings> {
    let mut found = Findings::default();
    let mut planned = None;
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ok", ..] => found.passed += 1,
            ["not", "ok", number, ..] => {
                found.failed.insert(format!("{file}:{number}"));
            }
            [plan, ..] if plan.starts_with("1..") => planned = plan[3..].parse().ok(),
            _ => {}
        }
    }
    let ran = found.passed + found.failed.len();
    ensure!(
        planned == Some(ran),
        "{file}: {ran} verdicts, and planned were {planned:?}\n{said}"
    );
    if ran == 1 && found.passed == 1 {
        // No file has one test; this is what `quick_exit` prints.
        found.passed = 0;
        found.skipped.insert(file.to_owned());
    }
    Ok(found)
}

/// The files of the original, as `directory/number`.
fn files(tests: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for directory in fs::read_dir(tests)? {
        let directory = directory?.path();
        if !directory.is_dir() {
            continue;
        }
        for file in fs::read_dir(&directory)? {
            let file = file?.path().with_extension("");
            let name = file.strip_prefix(tests)?.to_str().context("a name")?;
            all.push(name.to_owned());
        }
    }
    // The longest first.
    all.sort_by_key(|name| (name != "chown/00", name != "rename/09", name.clone()));
    Ok(all)
}

/// Every file of the original.
pub(super) fn original(on: &Mounted) -> Result<Findings> {
    let tests = PJDFSTEST.built()?.join("tests");
    let queue = Mutex::new(files(&tests)?.into_iter());
    let found = Mutex::new(Findings::default());
    let take = || queue.lock().ok()?.next();
    let work = &|place: PathBuf| -> Result<()> {
        fs::create_dir(&place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
        while let Some(file) = take() {
            let script = tests.join(&file).with_extension("t").display().to_string();
            let log = format!("pjdfstest-{}", file.replace('/', "-"));
            let said = run(&log, FILE_LIMIT, &place, &["sh", &script])?;
            let new = verdicts(&file, &said.text)?;
            if let Ok(mut found) = found.lock() {
                found.passed += new.passed;
                found.failed.extend(new.failed);
                found.skipped.extend(new.skipped);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let place = on.at().join(format!("work{n}"));
                scope.spawn(move || work(place))
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    found.into_inner().map_err(|_| anyhow::anyhow!("a panic"))
}

/// Features of the file system, and the two users that Debian has.
const PORT: &str = "[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = REMOUNT
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// mount(8) without the helper for FUSE, which takes a remount for a new mount.
const MOUNT: &str = "#!/bin/sh\nexec /bin/mount -i \"$@\"\n";

/// Tests of a read-only file system, which remount it. They must run alone: another test leaves a file open for writing.
const READ_ONLY: &str = "erofs";

/// One run of the port, of the tests whose names contain `pattern`.
fn port_run(on: &Mounted, remounts: bool, pattern: Option<&str>) -> Result<Findings> {
    let config = on.outside().join("pjdfstest.toml");
    fs::write(&config, PORT.replace("REMOUNT", &remounts.to_string()))?;
    let programs = on.outside().join("bin");
    fs::create_dir_all(&programs)?;
    fs::write(programs.join("mount"), MOUNT)?;
    fs::set_permissions(programs.join("mount"), fs::Permissions::from_mode(0o755))?;
    let text = |path: &Path| path.display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}", text(&programs));
    let (config, at, other) = (text(&config), text(&port_place(on)?), text(on.outside()));
    let mut words = vec!["env", &path, "NO_COLOR=1", "pjdfstest", "-c", &config];
    words.extend(["-p", &at, "-s", &other]);
    words.extend(pattern);
    port_verdicts(&run("pjdfstest-port", FILE_LIMIT, on.outside(), &words)?.text)
}

/// A directory whose name has a length that the port can work with: it panics if the longest path that it builds below is
/// made of whole names of 127 bytes, since it subtracts 1 from 0 then (`create_path_max`).
fn port_place(on: &Mounted) -> Result<PathBuf> {
    const PATH_MAX: usize = 4095;
    const NAME: usize = 127;
    // Two directories `.tmpXXXXXX` with their slashes.
    const BELOW: usize = 22;
    let works = |path: &Path| (PATH_MAX - path.as_os_str().len() - BELOW) % NAME > 1;
    let place = ["w", "wide"].map(|name| on.at().join(name));
    let place = place.into_iter().find(|path| works(path));
    let place = place.context("a place for the tests")?;
    fs::create_dir_all(&place)?;
    Ok(place)
}

/// Lines are `name   verdict`, and the reason below; the last one is the sum.
fn port_verdicts(said: &str) -> Result<Findings> {
    let mut found = Findings::default();
    let is_verdict = |line: &&str| !line.starts_with(char::is_whitespace);
    for line in said.lines().filter(is_verdict) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "ok"] => found.passed += 1,
            [name, "FAILED"] => {
                found.failed.insert(name.to_owned());
            }
            [name, "skipped"] => {
                found.skipped.insert(name.to_owned());
            }
            _ => {}
        }
    }
    let (failed, skipped) = (found.failed.len(), found.skipped.len());
    let sum = format!(
        "Summary: {failed} failed, {skipped} skipped, {} passed",
        found.passed
    );
    if !said.contains(&sum) {
        bail!("{sum} is not what it says: {said}");
    }
    Ok(found)
}

/// The port, all tests.
pub(super) fn port(on: &Mounted) -> Result<Findings> {
    must(
        "pjdfstest-port-version",
        60,
        on.outside(),
        &["pjdfstest", "-V"],
    )?;
    let mut all = port_run(on, false, None)?;
    let read_only = port_run(on, true, Some(READ_ONLY))?;
    all.skipped.retain(|name| !name.contains(READ_ONLY));
    all.passed += read_only.passed;
    all.failed.extend(read_only.failed);
    all.skipped.extend(read_only.skipped);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_a_file() {
        let found = verdicts("a/00", "1..3\nok 1\nnot ok 2 - tried\nok 3 # SKIP x\n").unwrap();
        assert_eq!(found.passed, 2);
        assert_eq!(found.failed, ["a/00:2".to_owned()].into());
        assert!(verdicts("a/00", "1..3\nok 1\n").is_err());
        assert!(verdicts("a/00", "").is_err());
        let gave_up = verdicts("a/00", "1..1\nok 1\n").unwrap();
        assert_eq!(gave_up.passed, 0);
        assert_eq!(gave_up.skipped, ["a/00".to_owned()].into());
    }

    #[test]
    fn verdicts_of_the_port() {
        let said = "a::b      ok\na::c   FAILED\n\twhy\na::d  skipped\n\tnot ok\n\nSummary: 1 failed, 1 skipped, 1 passed, \
                    0 expected failures, 3 total\n";
        let found = port_verdicts(said).unwrap();
        assert_eq!(found.passed, 1);
        assert_eq!(found.failed, ["a::c".to_owned()].into());
        assert_eq!(found.skipped, ["a::d".to_owned()].into());
        assert!(port_verdicts("a::b ok\n").is_err());
    }
}
