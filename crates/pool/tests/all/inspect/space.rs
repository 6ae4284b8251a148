//! Used space of files, against a slow model and the offline reader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backend::file::{FileBackend, Handle, NewKind};
use io::rng::Prng;
use pool::format::filesystem::{Inode, InodeFlags};
use pool::inspect::FindingKind;
use pool::{FileStore, Pool};

use crate::inspect::files::{Files, create};
use crate::inspect::world::{import, inspect, machine, make, run};

const RECORD: u64 = 16 << 10;
const UNIT: u64 = 4096;
const FILES: u64 = 4;
/// Far more records than any count of all of them would look at.
const FAR: u64 = 1 << 40;

/// A file as the model has it: its size, its units that are not zero, and the records that may be stored.
#[derive(Default, Clone)]
struct Model {
    size: u64,
    units: BTreeSet<u64>,
    records: BTreeSet<u64>,
}

impl Model {
    fn write(&mut self, offset: u64, len: u64) {
        self.units
            .extend(offset / UNIT..(offset + len).div_ceil(UNIT));
        self.records
            .extend(offset / RECORD..(offset + len).div_ceil(RECORD));
        self.size = self.size.max(offset + len);
    }

    fn zero(&mut self, from: u64, end: u64) {
        let whole = from.div_ceil(UNIT)..end / UNIT;
        self.units.retain(|unit| !whole.contains(unit));
        let whole = from.div_ceil(RECORD)..end / RECORD;
        self.records.retain(|record| !whole.contains(record));
    }

    fn set_size(&mut self, size: u64) {
        self.units.retain(|unit| unit * UNIT < size);
        self.records.retain(|record| record * RECORD < size);
        self.size = size;
    }

    /// The least and the most space that the file may take.
    fn bounds(&self) -> (u64, u64) {
        let most = self.records.len() as u64 * RECORD;
        let most = most.min(self.size.next_multiple_of(UNIT));
        // a small file takes its bytes only
        let least = self.units.len() as u64 * UNIT;
        (least.min(self.size), most)
    }
}

async fn used(files: &Files, of: Handle) -> u64 {
    let attributes = files.files.attributes(of).await;
    attributes.expect("read").used
}

/// One random change of a file, and of its model. `noise` never writes zeroes.
async fn step(files: &Files, of: Handle, model: &mut Model, rng: &mut Prng) {
    let at = match rng.below(4) {
        0 => rng.below(FAR),
        _ => rng.below(40 * UNIT),
    };
    match rng.below(8) {
        0..=2 => {
            let len = 1 + rng.below(12 * UNIT);
            files.write(of, at, len as usize, 7).await;
            model.write(at, len);
        }
        3 => {
            // a small part of a record that may be stored
            let at = rng.below(40) * UNIT;
            files.write(of, at, UNIT as usize, 9).await;
            model.write(at, UNIT);
        }
        4 => {
            let size = rng.below(model.size + 1);
            files.set_size(of, size).await;
            model.set_size(size);
        }
        5 => {
            let size = (model.size + rng.below(FAR / 8)).min(2 * FAR);
            files.set_size(of, size).await;
            model.set_size(size);
        }
        _ => {
            let len = 1 + match rng.below(3) {
                0 => rng.below(FAR),
                _ => rng.below(12 * UNIT),
            };
            files.punch(of, at..at + len).await;
            model.zero(at, (at + len).min(model.size));
        }
    }
}

fn check(of: &str, used: u64, model: &Model) {
    let (least, most) = model.bounds();
    // what a write leaves zero inside a unit is not known to the model
    let least = least.saturating_sub(UNIT);
    assert!(
        (least..=most).contains(&used),
        "{of}: {used} bytes used, the model has {least} to {most}"
    );
}

async fn work(seed: u64, pool: Pool) {
    let files = Files::open(pool.filesystem("home").expect("it is there")).await;
    let mut rng = Prng::new(seed);
    let mut models: BTreeMap<u64, Model> = BTreeMap::new();
    let mut handles = Vec::new();
    for n in 0..FILES {
        let root = files.files.root();
        let name = format!("{seed}-{n}");
        handles.push(files.make(root, &name, NewKind::File).await);
    }
    for round in 0..60 {
        let n = rng.below(FILES);
        let (of, model) = (handles[n as usize], models.entry(n).or_default());
        step(&files, of, model, &mut rng).await;
        check(
            &format!("seed {seed} round {round} file {n}"),
            used(&files, of).await,
            model,
        );
        match rng.below(10) {
            0 => drop(files.files.commit_all().await.expect("durable")),
            1 => pool.checkpoint().await.expect("a checkpoint"),
            2 => drop(
                pool.create_snapshot("home", &format!("{seed}-{round}"))
                    .await,
            ),
            3 => io::time::sleep(Duration::from_millis(rng.below(1500))).await,
            _ => {}
        }
    }
    pool.close().await.expect("closed");
}

/// Clearing more than 4096 records took the full size of all of them from a file's used space, so that users wrote 360 MiB
/// under a quota of 100 MiB and `tar -S` archived zeroes; cutting a sparse file freed nothing. Blocks behind the stored end of
/// a record were not counted at all.
#[test]
fn used_space_follows_every_change() {
    for seed in 0..12 {
        run(async move {
            let node = machine();
            let done = node.spawn(async move {
                let pool = make().await;
                create(&pool, "home").await;
                work(seed, pool).await;
            });
            done.await.expect("it ran");
            node.kill();
            let view = node.spawn(inspect()).await.expect("it ran");
            view.assert_sound();
        });
    }
}

async fn inodes(store: &FileStore) -> Vec<Inode> {
    use pool::filesystem::Store as _;
    let mut all = Vec::new();
    for number in 16..400 {
        all.extend(
            store
                .inode(pool::format::ObjectId(number))
                .await
                .expect("read"),
        );
    }
    all
}

/// A crash loses data that was not durable, and with it the agreement of a file's used space with its records. Its inode lacks the
/// flag of counted files, and the next change counts it.
#[test]
fn used_space_is_exact_again_after_a_power_cut() {
    for seed in 0..12 {
        run(async move {
            let node = machine();
            let done = node.spawn(async move {
                let pool = make().await;
                create(&pool, "home").await;
                pool.close().await.expect("closed");
            });
            done.await.expect("it ran");
            let working = node.spawn(async move { work(seed, import().await).await });
            let time = Duration::from_millis(20 + Prng::new(seed).below(4000));
            let _ended = io::timeout(time, working).await;
            node.power_cut();
            node.power_on();
            node.spawn(async move {
                io::time::sleep(Duration::from_secs(1)).await;
                // the checkpoint after the replay is what the offline reader judges
                import().await.close().await.expect("closed");
            })
            .await
            .expect("it ran");
            let view = node.spawn(inspect()).await.expect("it ran");
            let wrong: Vec<String> = view
                .of(FindingKind::File)
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
            drop(view);
            let done = node.spawn(async move {
                let pool = import().await;
                let store = pool.filesystem("home").expect("it is there");
                let files = Files::open(store.clone()).await;
                // a change counts one file, a scrub all others
                let found = files.find(files.files.root(), &format!("{seed}-0")).await;
                if let Some(of) = found {
                    files.punch(of, 0..UNIT).await;
                }
                files.files.count_space().await.expect("counted");
                let _durable = files.files.commit_all().await.expect("durable");
                pool.checkpoint().await.expect("a checkpoint");
                let is_counted = |inode: &Inode| {
                    inode.kind != backend::file::FileKind::File
                        || inode.flags.has(InodeFlags::COUNTED)
                };
                assert!(inodes(&store).await.iter().all(is_counted), "seed {seed}");
                drop((files, store));
                pool.close().await.expect("closed");
            });
            done.await.expect("it ran");
            node.kill();
            let view = node.spawn(inspect()).await.expect("it ran");
            view.assert_sound();
        });
    }
}
