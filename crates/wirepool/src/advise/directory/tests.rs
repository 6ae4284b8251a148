//! A directory is measured, copied into a filesystem of a pool, and compared with the blocks that the pool has then.

use super::*;
use backend::file::{
    Caller, FileBackend, Handle, IfExists, Name, NewFile, NewKind, Stability, WriteAt,
};
use io::disk::{Disk, OpenOptions};
use io::{Runtime, RuntimeConfig};
use pool::filesystem::FileSystem;
use pool::format::{BlockSizes, Host};
use pool::vdev::{PoolSpec, create};
use pool::{FileStore, NewFilesystem, Options, Pool};
use std::path::PathBuf;

/// A part of the error that is allowed, as a divisor.
const TOLERANCE: u64 = 10;
/// Bytes of a node, which are allowed in addition: a small tree has few.
const NODE: u64 = 16 << 10;

struct Copy {
    files: FileSystem<FileStore>,
    caller: Caller,
}

impl Copy {
    async fn create(&self, directory: Handle, path: &Path, kind: NewKind) -> Handle {
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let name = path.file_name().expect("a name").as_encoded_bytes();
        let name = Name::new(name).expect("a name of a file");
        let (caller, stability) = (&self.caller, Stability::Cached);
        let created = self
            .files
            .create(caller, directory, &name, new, IfExists::Fail, stability);
        created.await.expect("created").value.object.handle
    }

    async fn tree(&self, from: PathBuf) {
        let mut waiting = vec![(from, self.files.root())];
        while let Some((from, to)) = waiting.pop() {
            for entry in std::fs::read_dir(from).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    let below = self.create(to, &path, NewKind::Directory).await;
                    waiting.push((path, below));
                    continue;
                }
                let file = self.create(to, &path, NewKind::File).await;
                let contents = std::fs::read(&path).expect("a file");
                for (n, part) in contents.chunks(RECORD as usize).enumerate() {
                    let mut data = io::pool().alloc(part.len()).await;
                    data.copy_from_slice(part);
                    let at = WriteAt::Offset(n as u64 * RECORD);
                    let stability = Stability::Cached;
                    let written = self
                        .files
                        .write(&self.caller, file, at, data.into(), stability);
                    written.await.expect("written");
                }
            }
        }
    }
}

/// The blocks of a filesystem with a copy of the tree, and the sector size of its pool.
async fn copied(tree: PathBuf) -> (BlockSizes, u32) {
    let place = tempfile::tempdir().expect("a directory");
    let options = OpenOptions {
        create_size: Some(1 << 30),
        ..OpenOptions::default()
    };
    let disk = Disk::open(place.path().join("disk.img"), options).await;
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![vec![disk.expect("the disk")]], host);
    let opened = create(spec).await.expect("a pool");
    let pool = Pool::open(opened, Options::default()).await;
    let pool = pool.expect("a pool");
    let store = pool.create_filesystem(NewFilesystem::new("files")).await;
    let files = FileSystem::open(store.expect("a filesystem"), 7).await;
    let copy = Copy {
        files: files.expect("opened"),
        caller: Caller::root(),
    };
    copy.tree(tree).await;
    let _durable = copy.files.commit_all().await.expect("durable");
    pool.checkpoint().await.expect("a checkpoint");
    let sizes = pool.volume_spaces()["files"].sizes;
    let sector = pool.vdevs().sector();
    drop(copy);
    pool.close().await.expect("closed");
    (sizes.expect("it counts"), sector)
}

fn is_close(estimate: u64, held: u64, what: &str) {
    let difference = estimate.abs_diff(held);
    assert!(
        difference <= held / TOLERANCE + NODE,
        "{what}: {estimate}, and {held} in the pool"
    );
}

#[test]
fn real_trees_take_what_was_estimated() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["crates", "crates/pool", "docs"] {
        let tree = project.join(name);
        let from = tree.clone();
        let runtime = Runtime::new(RuntimeConfig::default()).expect("a runtime");
        let (held, sector) = runtime.block_on(copied(from));
        let estimate = blocks(&tree, sector).expect("the tree is read");
        is_close(estimate.nodes.bytes, held.nodes().bytes, name);
        for class in [4096, 16_384, 65_536, 131_072] {
            let small = estimate.records.iter().filter(|c| c.up_to <= class);
            let bytes = small.map(|c| c.bytes).sum();
            is_close(
                bytes,
                held.up_to(class).bytes,
                &format!("{name}, up to {class}"),
            );
        }
    }
}
