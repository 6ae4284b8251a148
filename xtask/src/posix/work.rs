//! Ordinary work in a mount: archives, a clone of a repository, a build.
//!
//! **Owns** their scripts. **Called by** a run. **Invariants**: a suite is one test, which passes if its script succeeds;
//! results are compared with the same work outside of the mount.

use super::mount::Mounted;
use super::sources::{XFSTESTS, XFSTESTS_BUILD};
use crate::program::must;
use crate::verdicts::{Findings, Names};

use anyhow::Result;

const ONE: Findings = Findings {
    passed: 1,
    failed: Names::new(),
    skipped: Names::new(),
};

/// Makes a tree outside ($1), and takes it through tar into the mount ($2), out of it, and back. Names, modes, owners, times,
/// links, devices, holes and extended attributes must stay the same.
const TAR: &str = r#"
set -eu
out=$1 in=$2
mkdir "$out/tree" "$in/tree" "$out/back"
cd "$out/tree"
mkdir -p a/b/c "with a space" sticky
chmod 1777 sticky
chmod 2750 a/b
i=0
while [ $i -lt 300 ]; do
  head -c $((i * 37)) /dev/urandom >"a/file$i"
  touch -d "2001-02-03 04:05:06.$(printf %09d $((i * 3333331)))" "a/file$i"
  i=$((i + 1))
done
head -c 3000000 /dev/urandom >a/b/large
truncate -s 64M a/b/hole
printf end | dd of=a/b/hole bs=1 seek=50000000 conv=notrunc status=none
ln a/file7 a/b/second
ln -s ../a/file7 "with a space/symbolic"
ln -s /nowhere dangling
mkfifo a/fifo
mknod a/device c 1 3
long=$(printf %0255d 0)
: >"a/$long"
chmod 4711 a/file8
chmod 0 a/file9
chown 1234:4321 a/file10
chown -h 99:98 dangling
setfattr -n user.text -v "a value" a/file11
setfattr -n user.binary -v 0x00ff00fe a/file11
setfattr -n user.empty a/file12
setfattr -n user.large -v "$(head -c 2000 /dev/zero | tr '\0' x)" a/b
setfattr -n trusted.secret -v 1 a/file13
setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 a/file14

all="--xattrs --xattrs-include=* --numeric-owner --format=posix --sparse"
describe() {
  (cd "$1"
   find . -mindepth 1 \( -type f -o -type l -o -type p -o -type c \) -printf '%p %y %m %U %G %s %n %T@ %l\n' | sort
   find . -mindepth 1 -type d -printf '%p %y %m %U %G %T@\n' | sort
   find . -type f -exec sha256sum {} + | sort
   find . -mindepth 1 -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex)
}
tar -C "$out/tree" $all -cf "$out/first.tar" .
tar -C "$in/tree" $all -xpf "$out/first.tar"
describe "$out/tree" >"$out/first"
describe "$in/tree" >"$out/second"
diff "$out/first" "$out/second"
tar -C "$in/tree" $all -cf "$in/second.tar" .
tar -C "$out/back" $all -xpf "$in/second.tar"
describe "$out/back" >"$out/third"
diff "$out/first" "$out/third"
[ "$(stat -c %b "$in/tree/a/b/hole")" -lt 1024 ] || { echo "the hole is stored"; exit 1; }
grep -q user.binary=0x00ff00fe "$out/second"
grep -q trusted.secret "$out/second"
rm -r "$in/tree" "$in/second.tar"
[ -z "$(ls -A "$in")" ]
"#;

/// A tree through tar.
pub(super) fn tar(on: &Mounted) -> Result<Findings> {
    let (outside, at) = (
        on.outside().display().to_string(),
        on.at().display().to_string(),
    );
    must(
        "tar",
        600,
        on.outside(),
        &["sh", "-c", TAR, "sh", &outside, &at],
    )?;
    Ok(ONE)
}

/// Clones the repository $1 into the mount ($2), checks the clone and builds it there; a second checkout must be clean.
const BUILD: &str = r#"
set -eu
cd "$2"
git -c protocol.file.allow=always clone -q --no-local --no-hardlinks "file://$1" clone
cd clone
git fsck --full --strict
[ -z "$(git status --porcelain)" ]
git diff --quiet
(eval "$3")
ltp/fsx -N 2000 -S 3 -q -P "$2" "$2/file"
git clean -qfdx
[ -z "$(git status --porcelain)" ]
git gc -q --prune=now
git fsck --full --strict
cd ..
cp -a clone copy
diff -r clone copy
rm -r clone
"#;

/// A clone and a build.
pub(super) fn build(on: &Mounted) -> Result<Findings> {
    let (source, at) = (XFSTESTS.built()?, on.at().display().to_string());
    let source = source.display().to_string();
    let words = ["sh", "-c", BUILD, "sh", &source, &at, XFSTESTS_BUILD];
    must("build", 1800, on.outside(), &words)?;
    Ok(ONE)
}
