//! Files and directories of our service.

use super::RUNS;
use backend::file::memory::{MemoryFiles, MemoryOptions};
use nfs::export::{ExportConfig, Hosts, Rule, Squash};
use nfs::service::{Service, ServiceConfig};
use nfs::wire::Status;
use nfs_initiator::{
    Config, Error, Kind, LinkState, LockOptions, LockOwner, OpenOptions, Session, Stable,
};
use std::net::SocketAddr;
use std::sync::Arc;
use testkit::{empty, listen, pattern};

/// A service with `/tank/home`.
pub(super) fn service() -> Service {
    let files = MemoryFiles::new(MemoryOptions::default());
    exported(ServiceConfig::default(), Arc::new(files))
}

/// A service with `/tank/home`, which has these files.
fn exported(config: ServiceConfig, files: Arc<MemoryFiles>) -> Service {
    let service = Service::new(ServiceConfig {
        handle_key: [7; 16],
        ..config
    });
    let export = ExportConfig {
        id: 1,
        path: "/tank/home".into(),
        files,
        rules: vec![Rule {
            squash: Squash::None,
            ..Rule::read_write(Hosts::Any)
        }],
    };
    service.add_export(export).expect("a new export");
    service
}

/// Serves `/tank/home` until the test ends.
fn serve() -> SocketAddr {
    serve_as(service())
}

fn serve_as(service: Service) -> SocketAddr {
    listen("127.0.0.1:0".parse().expect("an address"), move |stream| {
        let service = service.clone();
        async move { service.serve(stream).await }
    })
}

async fn connect(addr: SocketAddr) -> Session {
    let config = Config {
        connections: 2,
        slots: 8,
        ..Config::new(addr)
    };
    Session::connect(config).await.expect("it serves")
}

pub(super) const NEW: OpenOptions = OpenOptions {
    write: true,
    create: true,
};

#[test]
fn data_is_read_as_it_was_written_by_many_calls_at_once() {
    RUNS.both(async || {
        let session = connect(serve()).await;
        assert_eq!((session.slots(), session.connections()), (8, 2));
        let home = session.walk("/tank/home").await.expect("the export");
        let file = session.open(&home, "disk", NEW).await.expect("a new file");
        let file = std::rc::Rc::new(file);
        assert_eq!(file.attributes.kind, Kind::File);
        // Lengths that need padding, that fit a receive, and that do not; more calls than slots.
        let lens = [1, 4095, 4096, 20_000, 300_001, 1 << 20];
        let mut running = Vec::new();
        for (n, len) in (0_u64..).zip(lens.into_iter().cycle().take(24)) {
            let file = file.clone();
            running.push(io::spawn(async move {
                let (at, data) = (n << 20, pattern(len, n).await);
                let stable = [Stable::Unstable, Stable::Data, Stable::File][n as usize % 3];
                let written = file.write(at, data.clone(), stable).await;
                assert_eq!(written, Ok(len));
                let (read, buf) = file.read(at, empty(len).await).await;
                assert_eq!(read, Ok(len));
                assert!(buf[..] == data[..], "write {n}");
            }));
        }
        for one in running {
            one.await;
        }
        file.commit().await.expect("durable");
        assert_eq!(file.verifier_changes(), 0);
        let end = (23 << 20) + (1 << 20);
        let (read, _) = file.read(end - 10, empty(4096).await).await;
        assert_eq!(read, Ok(10), "the file ends");
        let (read, _) = file.read(end, empty(4096).await).await;
        assert_eq!(read, Ok(0));
        let of = session.attributes(file.handle()).await.expect("a file");
        assert_eq!((of.size, of.links, of.mode), (end, 1, 0o600));
        let file = std::rc::Rc::into_inner(file).expect("no other use");
        file.close().await.expect("open until now");
        session.close().await;
    });
}

#[test]
fn directories_are_made_listed_and_removed() {
    RUNS.simulated(async || {
        let session = connect(serve()).await;
        let home = session.walk("/tank/home").await.expect("the export");
        let dir = session.create_directory(&home, "d").await.expect("new");
        for n in 0..3000 {
            let file = session.open(&dir, &format!("file {n}"), NEW).await;
            file.expect("new").close().await.expect("open");
        }
        let (mut names, mut page) = (Vec::new(), None);
        loop {
            let next = session.read_directory(&dir, page.as_ref()).await;
            let next = next.expect("a directory");
            names.extend(next.entries.iter().map(|entry| entry.name.clone()));
            let handles = next
                .entries
                .iter()
                .map(|entry| entry.attributes.handle.len());
            assert!(handles.min() > Some(0), "handles come with their entries");
            let is_end = next.is_end;
            page = Some(next);
            if is_end {
                break;
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3000);
        let (found, of) = session.lookup(&home, "d").await.expect("it exists");
        assert_eq!((found, of.kind), (dir.clone(), Kind::Directory));
        let removed = session.remove(&home, "d").await;
        assert_eq!(removed.unwrap_err().status(), Some(Status::Notempty));
        session.remove(&dir, "file 7").await.expect("a file");
        let gone = session.lookup(&dir, "file 7").await.unwrap_err();
        assert_eq!(gone.status(), Some(Status::Noent));
        assert!(gone.to_string().contains("lookup: no such file"), "{gone}");
    });
}

#[test]
fn a_file_has_the_size_that_was_set() {
    RUNS.simulated(async || {
        let session = connect(serve()).await;
        let home = session.walk("tank/home/").await.expect("the export");
        let mut file = session.open(&home, "disk", NEW).await.expect("new");
        file.set_size(1 << 30).await.expect("a large file");
        let of = session.attributes(file.handle()).await.expect("a file");
        assert_eq!((of.size, file.attributes.size), (1 << 30, 1 << 30));
        file.close().await.expect("open until now");
        let read_only = OpenOptions::default();
        let file = session.open(&home, "disk", read_only).await.expect("there");
        let data = pattern(4096, 1).await;
        let refused = file.write(0, data, Stable::File).await.unwrap_err();
        assert_eq!(refused.status(), Some(Status::Openmode));
        let missing = session.open(&home, "other", read_only).await;
        assert_eq!(missing.map(drop).unwrap_err().status(), Some(Status::Noent));
    });
}

#[test]
fn calls_of_a_closed_session_fail() {
    RUNS.simulated(async || {
        let session = connect(serve()).await;
        session.clone().close().await;
        assert_eq!(session.state(), LinkState::Closed);
        assert_eq!(session.walk("/").await, Err(Error::Closed));
    });
}

#[test]
fn a_silent_client_keeps_its_session() {
    RUNS.simulated(async || {
        let session = connect(serve()).await;
        // Four times the lease.
        io::time::sleep(std::time::Duration::from_secs(400)).await;
        session.walk("/tank/home").await.expect("still there");
    });
}

const EXCLUSIVE: LockOptions = LockOptions {
    exclusive: true,
    reclaim: false,
};

#[test]
fn a_locked_range_is_locked_until_its_owner_unlocks_it() {
    RUNS.both(async || {
        let session = connect(serve()).await;
        let home = session.walk("/tank/home").await.expect("the export");
        let file = session.open(&home, "disk", NEW).await.expect("new");
        let (a, b) = (LockOwner::new(b"a"), LockOwner::new(b"b"));
        let unlocked = file.unlock(&a, 0..10).await.unwrap_err();
        assert!(matches!(unlocked, Error::Invalid(_)), "{unlocked}");
        for _ in 0..2 {
            file.lock(&a, 0..10, EXCLUSIVE).await.expect("free");
            let denied = file.lock(&b, 9..20, EXCLUSIVE).await.unwrap_err();
            assert_eq!(denied.status(), Some(Status::Denied));
            file.lock(&b, 10..20, EXCLUSIVE).await.expect("free");
            file.unlock(&a, 0..10).await.expect("locked");
            file.lock(&b, 0..10, LockOptions::default())
                .await
                .expect("free");
            file.lock(&a, 0..10, LockOptions::default())
                .await
                .expect("shared");
            file.unlock(&b, 0..20).await.expect("locked");
            file.unlock(&a, 0..10).await.expect("locked");
        }
    });
}

#[test]
fn a_renamed_object_keeps_its_handle_and_replaces_another() {
    RUNS.simulated(async || {
        let session = connect(serve()).await;
        let home = session.walk("/tank/home").await.expect("the export");
        let dir = session.create_directory(&home, "d").await.expect("new");
        let file = session.open(&home, "f", NEW).await.expect("new");
        let other = session.open(&dir, "g", NEW).await.expect("new");
        session
            .rename((&home, "f"), (&dir, "g"))
            .await
            .expect("renamed");
        let (found, _) = session.lookup(&dir, "g").await.expect("there");
        assert_eq!(&found, file.handle());
        assert_ne!(&found, other.handle());
        let gone = session.lookup(&home, "f").await.unwrap_err();
        assert_eq!(gone.status(), Some(Status::Noent));
        let missing = session.rename((&home, "f"), (&dir, "h")).await.unwrap_err();
        assert_eq!(missing.status(), Some(Status::Noent));
    });
}

/// Opens and locks survive a restart of the server if their client reclaims them, and nobody gets them before.
#[test]
fn locks_are_reclaimed_after_a_restart() {
    RUNS.simulated(async || {
        let files: Arc<MemoryFiles> = Arc::new(MemoryFiles::new(MemoryOptions::default()));
        let before = serve_as(exported(ServiceConfig::default(), files.clone()));
        let mine = |addr, reclaims| Config {
            owner: b"mine".to_vec(),
            reclaims,
            ..Config::new(addr)
        };
        let session = Session::connect(mine(before, false)).await.expect("serves");
        let home = session.walk("/tank/home").await.expect("the export");
        let file = session.open(&home, "disk", NEW).await.expect("new");
        let owner = LockOwner::new(b"a");
        file.lock(&owner, 0..10, EXCLUSIVE).await.expect("free");
        let handle = file.handle().clone();
        drop((file, session));
        let restarted = ServiceConfig {
            reclaimers: vec![b"mine".to_vec()],
            ..ServiceConfig::default()
        };
        let after = serve_as(exported(restarted, files));
        let other = connect(after).await;
        let early = other.open(&home, "disk", NEW).await.map(drop);
        assert_eq!(early.unwrap_err().status(), Some(Status::Grace));
        let session = Session::connect(mine(after, true)).await.expect("serves");
        let early = session.open(&home, "disk", NEW).await.map(drop);
        assert_eq!(early.unwrap_err().status(), Some(Status::Grace));
        let file = session.reclaim(&handle).await.expect("it was open");
        let owner = LockOwner::new(b"a");
        let how = LockOptions {
            reclaim: true,
            ..EXCLUSIVE
        };
        file.lock(&owner, 0..10, how).await.expect("it was locked");
        session.reclaimed().await.expect("the first time");
        let late = session.reclaim(&handle).await.map(drop).unwrap_err();
        assert_eq!(late.status(), Some(Status::NoGrace));
        let theirs = other.open(&home, "disk", NEW).await.expect("no grace");
        let b = LockOwner::new(b"b");
        let denied = theirs.lock(&b, 0..10, EXCLUSIVE).await.unwrap_err();
        assert_eq!(denied.status(), Some(Status::Denied));
        file.unlock(&owner, 0..10).await.expect("locked");
        theirs.lock(&b, 0..10, EXCLUSIVE).await.expect("free");
    });
}
