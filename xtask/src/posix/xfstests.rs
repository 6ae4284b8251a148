//! xfstests: its script `check`, on two filesystems of a server.
//!
//! **Owns** the two mounts' names, the replacements of mount(8) and umount(8) that the script needs, and the reading of its
//! verdicts. **Called by** a run. **Invariants**: a test is passed only if the script ran it and names it neither as failed nor as
//! not run; nothing outside of the run's directory is replaced. The users `fsgqa`, `fsgqa2` and `123456-fsgqa` must exist.

use super::Findings;
use super::mount::Mounted;
use super::sources::XFSTESTS_WHOLE;
use crate::program::{must, run};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Seconds for all tests.
const LIMIT: u32 = 3600;

/// Makes `-t fuse.wirepool` a request to the server. A remount goes to the kernel.
const MOUNT: &str = r#"#!/bin/bash
all=("$@") kind= options= rest=()
while [ $# -gt 0 ]; do
  case $1 in
    -t) kind=$2; shift 2;;
    -o) options=$options,$2; shift 2;;
    -o*) options=$options,${1#-o}; shift;;
    *) rest+=("$1"); shift;;
  esac
done
case $options, in *,remount,*) exec /bin/mount -i "${all[@]}";; esac
[ "$kind" = fuse.wirepool ] || exec /bin/mount "${all[@]}"
words=
for option in ${options//,/ }; do
  case $option in
    *atime|*diratime|defaults|context=*) ;;
    *) words=$words,$option;;
  esac
done
said=$("$WIREPOOL" fs mount "${rest[-2]}" "${rest[-1]}" -o "$words" 2>&1) || { echo "mount: $said" >&2; exit 32; }
"#;

/// Makes the unmount of one of the two mounts a request to the server.
const UMOUNT: &str = r#"#!/bin/bash
for last; do :; done
name=
case $last in
  tank/*) name=$last;;
  /*)
    for m in test scratch; do
      at=$WIREPOOL_MOUNTS/$m
      [ "$(realpath -s "$last")" != "$at" ] || ! findmnt -n "$at" >/dev/null || name=tank/$m
    done;;
esac
[ -n "$name" ] || exec /bin/umount "$@"
lazy=
case " $* " in *" -l "*) lazy=--lazy;; esac
said=$("$WIREPOOL" fs unmount $lazy "$name" 2>&1) || { echo "umount: $said" >&2; exit 32; }
"#;

fn executable(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The tests behind a word at the beginning of a line of the summary.
fn listed(said: &str, word: &str) -> BTreeSet<String> {
    let lines = said.lines().filter_map(|l| l.strip_prefix(word));
    let tests = lines.flat_map(str::split_whitespace);
    tests.map(str::to_owned).collect()
}

fn verdicts(said: &str) -> Result<Findings> {
    let ran = listed(said, "Ran:");
    ensure!(!ran.is_empty(), "check has no summary: {said}");
    let (failed, skipped) = (listed(said, "Failures:"), listed(said, "Not run:"));
    let passed = ran
        .iter()
        .filter(|t| !failed.contains(*t) && !skipped.contains(*t));
    Ok(Findings {
        passed: passed.count(),
        failed,
        skipped,
    })
}

/// The group `quick`.
pub(super) fn quick(on: &Mounted) -> Result<Findings> {
    for user in ["fsgqa", "fsgqa2", "123456-fsgqa"] {
        let known = must("xfstests-user", 60, on.outside(), &["id", user]);
        known.with_context(|| format!("useradd --badname {user}"))?;
    }
    let source = XFSTESTS_WHOLE.built()?;
    let (binary, server) = on.server()?;
    let text = |path: &Path| path.display().to_string();
    let mounts = on.outside().join("xfstests");
    let bin = mounts.join("bin");
    fs::create_dir_all(&bin)?;
    executable(&bin.join("mount"), MOUNT)?;
    executable(&bin.join("umount"), UMOUNT)?;
    let control = format!("WIREPOOL_CONTROL={}", text(&server.join("c.sock")));
    let program = text(&binary);
    let mut config =
        "export FSTYP=fuse FUSE_SUBTYP=.wirepool\nexport MOUNT_OPTIONS=-osuid,dev\nexport \
                      TEST_FS_MOUNT_OPTS=-osuid,dev\n"
            .to_owned();
    for (name, device, at) in [
        ("test", "TEST_DEV", "TEST_DIR"),
        ("scratch", "SCRATCH_DEV", "SCRATCH_MNT"),
    ] {
        let place = mounts.join(name);
        fs::create_dir(&place)?;
        let filesystem = format!("tank/{name}");
        let words = ["env", &control, &program, "fs", "create", &filesystem];
        must("xfstests-create", 60, on.outside(), &words)?;
        config += &format!("export {device}={filesystem} {at}={}\n", text(&place));
    }
    fs::write(mounts.join("local.config"), config)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let settings = [
        format!("PATH={}:{path}:/usr/sbin:/sbin", text(&bin)),
        format!("HOST_OPTIONS={}", text(&mounts.join("local.config"))),
        format!("WIREPOOL={program}"),
        format!("WIREPOOL_MOUNTS={}", text(&mounts)),
        format!("RESULT_BASE={}", text(&mounts.join("results"))),
        control.clone(),
    ];
    let mut words = vec!["env"];
    words.extend(settings.iter().map(String::as_str));
    words.extend(["./check", "-g", "quick"]);
    let said = run("xfstests-quick", LIMIT, &source, &words)?;
    for name in ["tank/test", "tank/scratch"] {
        let words = ["env", &control, &program, "fs", "unmount", name];
        // the last test may have unmounted it
        let _unmounted = run("xfstests-unmount", 60, on.outside(), &words)?;
    }
    verdicts(&said.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_the_script() {
        let said = "generic/001 4s\nRan: generic/001 generic/002 generic/003\nNot run: generic/002\nFailures: \
                    generic/003\nFailed 1 of 3 tests\n";
        let found = verdicts(said).unwrap();
        assert_eq!(found.passed, 1);
        assert_eq!(found.failed, ["generic/003".to_owned()].into());
        assert_eq!(found.skipped, ["generic/002".to_owned()].into());
        assert!(verdicts("no tests\n").is_err());
    }
}
