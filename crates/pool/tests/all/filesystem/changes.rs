//! `change` of a file never names two contents: not after a crash, not after a rollback (`docs/decisions/0324`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backend::file::{FileBackend, Timestamp};
use io::sim::{Node, Sim, SimConfig};
use pool::filesystem::Store;
use pool::{FileStore, Pool};

use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::{again, create_pool, disk_config, new_files, on_disk, open};

/// What readers saw of one file: contents by `change`, and the newest `change` and time.
#[derive(Default)]
struct Seen {
    contents: BTreeMap<u64, Vec<u8>>,
    newest: (u64, Timestamp),
}

impl Seen {
    /// A reader looks at the file. After a change, `change` and the time must be larger than everything before.
    async fn look<S: Store>(&mut self, bed: &Bed<S>, is_changed: bool) {
        let of = bed.lookup(bed.root, "file").await.expect("found");
        let bytes = bed.read(of.handle, 0, 100_000).await.expect("read");
        let before = self.contents.insert(of.change, bytes.clone());
        assert!(
            before.is_none_or(|before| before == bytes),
            "change {:#x} names two contents",
            of.change
        );
        assert!(of.change >= self.newest.0, "{:x?} {of:x?}", self.newest);
        if is_changed {
            assert!(of.change > self.newest.0, "{:x?} {of:x?}", self.newest);
            assert!(of.changed > self.newest.1, "{:?} {of:?}", self.newest);
        }
        self.newest = (of.change, of.changed.max(self.newest.1));
    }
}

async fn opened(pool: &Pool) -> Bed<FileStore> {
    open(pool.filesystem("files").expect("it is there")).await
}

/// A crash lost unstable writes that a client had read. `change` was a counter of the file: the next writes got the same values,
/// and the client kept showing the lost data. Crashes follow each other here without a durable write of a client between them, at
/// different distances from the change, so that data is partly there.
#[test]
fn change_never_repeats_after_a_crash() {
    for wait_ms in [0, 400, 1100] {
        let seen = Arc::new(Mutex::new(Seen::default()));
        Sim::new(1 + wait_ms, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", disk_config());
            node.spawn(async {
                let pool = create_pool().await;
                let made = pool.create_filesystem(new_files()).await;
                let bed = open(made.expect("a filesystem")).await;
                let file = bed.file("file").await;
                bed.write(file, 0, b"first").await.expect("written");
                let _durable = bed.files.commit(file).await.expect("durable");
                drop(bed);
                pool.close().await.expect("closed");
            })
            .await
            .expect("it has power");
            for round in 0..4u8 {
                let told = seen.clone();
                let work = async move {
                    let pool = again().await;
                    let bed = opened(&pool).await;
                    let mut seen = std::mem::take(&mut *told.lock().unwrap());
                    seen.look(&bed, false).await;
                    let file = bed.lookup(bed.root, "file").await.expect("found").handle;
                    for n in 0..3u8 {
                        // parts of the file in different records
                        let at = u64::from(n) * 20_000;
                        let bytes = vec![round * 16 + n + 1; 3000];
                        bed.write(file, at, &bytes).await.expect("written");
                        seen.look(&bed, true).await;
                    }
                    *told.lock().unwrap() = seen;
                    io::time::sleep(Duration::from_millis(wait_ms)).await;
                    // nothing is closed
                    std::mem::forget((pool, bed));
                };
                node.spawn(work).await.expect("it has power");
                node.power_cut();
                node.power_on();
            }
        });
    }
}

/// After a rollback, the next writes got values of `change` that had named the contents that were rolled back.
#[test]
fn change_never_repeats_after_a_rollback() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let made = pool.create_filesystem(new_files()).await;
        let bed = open(made.expect("a filesystem")).await;
        let file = bed.file("file").await;
        let mut seen = Seen::default();
        bed.write(file, 0, b"before").await.expect("written");
        seen.look(&bed, true).await;
        pool.create_snapshot("files", "s").await.expect("taken");
        for round in 0..3u8 {
            for n in 0..3u8 {
                let bytes = [round * 16 + n + 1; 6];
                bed.write(file, 0, &bytes).await.expect("written");
                seen.look(&bed, true).await;
            }
            pool.roll_back("files", "s").await.expect("rolled back");
            // the time of a change follows the clock, which has a resolution of 1 ms
            io::time::sleep(Duration::from_millis(5)).await;
            seen.look(&bed, false).await;
        }
        drop(bed);
        pool.close().await.expect("closed");
        let pool = again().await;
        let bed = opened(&pool).await;
        seen.look(&bed, false).await;
        bed.write(file, 0, b"later.").await.expect("written");
        seen.look(&bed, true).await;
        pool.close().await.expect("closed");
    });
}
