//! Programs of others in the mount: git, tar, programs that are executed and mapped.

use crate::server::{Served, has, run};
use fuse::MountOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Commits some files in a new repository.
fn make_repository(at: &Path) {
    fs::create_dir_all(at.join("src/deep/er")).unwrap();
    for i in 0..200 {
        let text = format!("line {i}\n").repeat(i);
        fs::write(at.join(format!("src/deep/file{i}.txt")), text).unwrap();
    }
    fs::write(at.join("src/deep/er/large"), vec![b'x'; 2_000_000]).unwrap();
    let git = |words: &[&str]| run("git", words, at);
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    let who = ["-c", "user.name=Test", "-c", "user.email=test@localhost"];
    git(&[&who[..], &["commit", "-qm", "all"]].concat());
}

#[test]
fn git_clones_works_and_checks_inside() {
    for options in [
        MountOptions::default(),
        MountOptions {
            is_shared: true,
            ..MountOptions::default()
        },
    ] {
        let Some(served) = Served::with(&options) else {
            return;
        };
        if !has("git") {
            return;
        }
        let source = tempfile::tempdir().unwrap();
        make_repository(source.path());
        let from = source.path().to_str().unwrap();
        run(
            "git",
            &["clone", "-q", "--no-local", from, "clone"],
            served.path(),
        );
        let clone = served.path().join("clone");
        run("git", &["fsck", "--strict"], &clone);
        assert_eq!(run("git", &["status", "--porcelain"], &clone), "");
        make_repository(&served.path().join("own"));
        run("git", &["gc", "-q"], &served.path().join("own"));
        run("git", &["fsck", "--strict"], &served.path().join("own"));
        served.end();
    }
}

#[test]
fn tar_in_and_out_keeps_everything() {
    let Some(served) = Served::start() else {
        return;
    };
    if !has("tar") {
        return;
    }
    let source = tempfile::tempdir().unwrap();
    let script = "mkdir -p a/b; echo text > a/file; ln a/file a/b/link; ln -s ../file a/b/sym; mkfifo a/fifo;
        truncate -s 3M a/sparse; echo x | dd of=a/sparse bs=1 seek=1048576 conv=notrunc status=none;
        chmod 4711 a/file; touch -d '1999-12-31 23:59:59.5' a/sparse; printf '' > \"a/odd \\\\ name\"";
    run("sh", &["-c", script], source.path());
    let xattr = rustix::fs::setxattr(
        source.path().join("a/file"),
        "user.note",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    );
    if let Err(e) = xattr {
        eprintln!("SKIPPED: extended attributes of the temporary directory: {e}");
    }
    let from = source.path().to_str().unwrap();
    let inside = served.path().to_str().unwrap();
    let out = tempfile::tempdir().unwrap();
    let back = out.path().to_str().unwrap();
    let copy = |from: &str, to: &str| {
        let script = format!(
            "tar -C {from} --xattrs --xattrs-include='*' -S -cf - a | tar -C {to} --xattrs --xattrs-include='*' -xpf -"
        );
        run("sh", &["-c", &script], Path::new("/"));
    };
    copy(from, inside);
    copy(inside, back);
    let list = "find a | LC_ALL=C sort | while read -r f; do stat -c '%n %F %a %h %s %y' \"$f\"; done; \
        find a -type f | LC_ALL=C sort | tr '\\n' '\\0' | xargs -0 sha256sum; readlink a/b/sym";
    let listed = |at: &Path| -> Vec<String> {
        let text = run("sh", &["-c", list], at);
        // sizes of directories differ between file systems
        let lines = text.lines().filter(|l| !l.contains(" directory "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(listed(served.path()), listed(source.path()));
    assert_eq!(listed(out.path()), listed(source.path()));
    if xattr.is_ok() {
        let mut value = [0; 10];
        let file = served.path().join("a/file");
        let len = rustix::fs::getxattr(&file, "user.note", &mut value[..]);
        assert_eq!((len, &value[..4]), (Ok(4), &b"kept"[..]));
    }
    served.end();
}

/// A program is mapped when it runs; a running one cannot be written.
#[test]
fn programs_run_from_the_mount() {
    let Some(served) = Served::start() else {
        return;
    };
    let program = served.path().join("program");
    fs::copy("/bin/ls", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let name = program.to_str().unwrap();
    let listed = run(name, &["."], served.path());
    assert_eq!(listed, "program\n");
    served.end();
}

/// Mapped memory that is shared: written through the mapping, read through the file, and the other way round.
#[test]
fn shared_mappings_and_files_agree() {
    let Some(served) = Served::start() else {
        return;
    };
    if !has("python3") {
        return;
    }
    let script = "
import mmap, os
fd = os.open('mapped', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
m[5000:5004] = b'map!'
assert os.pread(fd, 4, 5000) == b'map!'
os.pwrite(fd, b'file', 9000)
assert m[9000:9004] == b'file'
m.flush()
m.close()
os.close(fd)
";
    run("python3", &["-c", script], served.path());
    let bytes = fs::read(served.path().join("mapped")).unwrap();
    assert_eq!(
        (&bytes[5000..5004], &bytes[9000..9004]),
        (&b"map!"[..], &b"file"[..])
    );
    served.end();
}
