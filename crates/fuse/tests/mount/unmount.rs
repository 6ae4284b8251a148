//! Unmounting: under load, while it is in use, and by others.

use crate::server::{Process, Served, can_mount, run};
use fuse::{EndReason, Ended, Error, Mount, MountState, Unmount};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn ended(reason: EndReason) -> MountState {
    MountState::Ended(Ended {
        reason,
        not_durable: None,
    })
}

#[test]
fn a_busy_mount_stays_until_its_files_are_closed() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = File::create(served.path().join("file")).unwrap();
    let busy = served.mount.unmount(Unmount::IfIdle).unwrap_err();
    assert!(matches!(busy, Error::Busy(_)), "{busy}");
    assert_eq!(served.mount.state(), MountState::Mounted);
    file.write_all(b"works").unwrap();
    drop(file);
    served.mount.unmount(Unmount::IfIdle).unwrap();
    assert_eq!(served.mount.state(), ended(EndReason::Requested));
    let again = served.mount.unmount(Unmount::IfIdle).unwrap_err();
    assert!(matches!(again, Error::NotMounted(_)), "{again}");
}

#[test]
fn a_lazy_unmount_serves_open_files_until_they_are_closed() {
    let Some(mut served) = Served::start() else {
        return;
    };
    let path = served.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"before ").unwrap();
    served.mount.unmount(Unmount::Lazy).unwrap();
    assert!(!path.exists());
    assert_eq!(served.mount.state(), MountState::Detached);
    file.write_all(b"after").unwrap();
    drop(file);
    assert_eq!(served.mount.wait().reason, EndReason::Requested);
    served.mount_again();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
    served.end();
}

#[test]
fn an_unmount_by_another_program_is_noticed() {
    let Some(mut served) = Served::start() else {
        return;
    };
    fs::write(served.path().join("file"), "x").unwrap();
    let at = served.path().to_str().unwrap().to_owned();
    run("umount", &[&at], Path::new("/"));
    let by_others = served.mount.wait();
    assert_eq!(by_others.reason, EndReason::ByOthers);
    assert_eq!(by_others.not_durable, None);
    let refused = served.mount.unmount(Unmount::Lazy).unwrap_err();
    assert!(matches!(refused, Error::NotMounted(_)), "{refused}");
    served.mount_again();
    assert_eq!(fs::read_to_string(served.path().join("file")).unwrap(), "x");
    served.end();
}

#[test]
fn an_aborted_mount_answers_nobody_and_is_gone() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = File::create(served.path().join("file")).unwrap();
    served.mount.unmount(Unmount::Abort).unwrap();
    assert!(file.write_all(b"x").and_then(|()| file.sync_all()).is_err());
    assert_eq!(served.mount.wait().reason, EndReason::Requested);
    assert!(fs::read_dir(served.path()).unwrap().next().is_none());
}

#[test]
fn a_dropped_mount_is_detached() {
    let Some(served) = Served::start() else {
        return;
    };
    fs::write(served.path().join("file"), "x").unwrap();
    let Served { mount, .. } = &served;
    let (at, files) = (served.path().to_owned(), served.files.clone());
    let _ = mount;
    let shards = served.shards().to_vec();
    let other = tempfile::tempdir().unwrap();
    let second = Mount::start(
        Arc::new(files),
        other.path(),
        &fuse::MountOptions::default(),
        &shards,
    )
    .unwrap();
    assert!(other.path().join("file").exists());
    drop(second);
    assert!(!other.path().join("file").exists());
    assert!(at.join("file").exists());
    served.end();
}

/// Files that a writer has written whole, and closed.
fn write_files(dir: PathBuf, stop: &AtomicBool) -> Vec<(String, usize)> {
    let mut written = Vec::new();
    let mut count = 0usize;
    while !stop.load(Ordering::Relaxed) {
        let (name, len) = (format!("f{count}"), (count * 7919) % 100_000);
        let all = || -> std::io::Result<()> {
            let path = dir.join(&name);
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).open(path)?;
            file.write_all(&vec![count as u8; len])
        };
        if all().is_err() {
            break;
        }
        written.push((name, len));
        count += 1;
    }
    written
}

#[test]
fn an_unmount_under_load_loses_no_acknowledged_change() {
    let Some(mut served) = Served::start() else {
        return;
    };
    let stop = AtomicBool::new(false);
    let dirs: Vec<PathBuf> = (0..4)
        .map(|i| served.path().join(format!("d{i}")))
        .collect();
    dirs.iter().for_each(|d| fs::create_dir(d).unwrap());
    let mount = served.mount.clone();
    let written: Vec<Vec<(String, usize)>> = std::thread::scope(|scope| {
        let writers: Vec<_> = dirs
            .iter()
            .map(|dir| scope.spawn(|| write_files(dir.clone(), &stop)))
            .collect();
        // busy again and again, until it succeeds between two files of all writers, or the lazy one does
        let mut attempts = 0;
        while mount.totals().operations.bytes_written < 10 << 20 {
            std::thread::yield_now();
        }
        while mount.unmount(Unmount::IfIdle).is_err() {
            attempts += 1;
            if attempts == 20 {
                mount.unmount(Unmount::Lazy).unwrap();
                break;
            }
        }
        // the writers fail now: their directories are gone
        let written = writers.into_iter().map(|w| w.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        written
    });
    let end = served.mount.wait();
    assert_eq!(end.not_durable, None);
    served.mount_again();
    assert!(written.iter().any(|files| !files.is_empty()));
    for (dir, files) in dirs.iter().zip(&written) {
        for (i, (name, len)) in files.iter().enumerate() {
            let bytes = fs::read(dir.join(name)).unwrap();
            assert_eq!(bytes.len(), *len, "{name}");
            assert!(bytes.iter().all(|b| *b == i as u8), "{name}");
        }
    }
    served.end();
}

#[test]
fn a_server_that_ends_orderly_leaves_no_mount() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut server = Process::start(dir.path(), 0, &[]);
    assert_eq!(server.said, "mounted\n");
    fs::write(dir.path().join("file"), "x").unwrap();
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
    assert!(!dir.path().join("file").exists());
}
