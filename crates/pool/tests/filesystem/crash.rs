//! Crashes between any two transactions: what is there is whole.

use backend::file::{
    Access, Ace, AceFlags, AceKind, AceMask, Acl, FileBackend, Handle, Hold, NewKind, RenameMode,
    Who,
};
use io::rng::Prng;

use pool::filesystem::Store;

use crate::bed::{Bed, CACHED, open, run};
use testkit::store::MemoryStore;
use testkit::store::check;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Random operations on a few names in a few directories.
pub(crate) struct Random {
    rng: Prng,
    directories: Vec<Handle>,
    files: Vec<Handle>,
    holds: Vec<Hold>,
}

impl Random {
    pub(crate) fn new(seed: u64, root: Handle) -> Self {
        Self {
            rng: Prng::new(seed),
            directories: vec![root],
            files: Vec::new(),
            holds: Vec::new(),
        }
    }

    fn place(&mut self) -> (Handle, &'static str) {
        let directory = self.rng.below(self.directories.len() as u64) as usize;
        let name = NAMES[self.rng.below(NAMES.len() as u64) as usize];
        (self.directories[directory], name)
    }

    fn any(&mut self) -> Handle {
        let all = [&self.files[..], &self.directories[..]].concat();
        all[self.rng.below(all.len() as u64) as usize]
    }

    async fn create(&mut self, bed: &Bed<impl Store>) {
        let (directory, at) = self.place();
        let kind = match self.rng.below(5) {
            0 | 1 => NewKind::Directory,
            2 => NewKind::Symlink(vec![b'x'; 1 + self.rng.below(3000) as usize]),
            _ => NewKind::File,
        };
        let is_directory = kind == NewKind::Directory;
        if let Ok(made) = bed.create(directory, at, kind).await {
            match is_directory {
                true => self.directories.push(made.handle),
                false => self.files.push(made.handle),
            }
        }
    }

    async fn change(&mut self, bed: &Bed<impl Store>) {
        let of = self.any();
        match self.rng.below(6) {
            0 => {
                let _ = bed.set_size(of, self.rng.below(40_000)).await;
            }
            1 => {
                let (len, name) = (self.rng.below(3000) as usize, self.rng.below(3));
                let _ = bed.set_xattr(of, &format!("user.{name}"), len).await;
            }
            2 => {
                let ace = Ace {
                    kind: AceKind::Allow,
                    flags: AceFlags::FILE_INHERIT,
                    mask: AceMask::ALL,
                    who: Who::Everyone,
                };
                let acl = self.rng.chance(0.7).then(|| Acl::new(vec![ace; 90]));
                let acl = acl.transpose().expect("a list");
                let _ = bed.files.set_acl(&bed.caller, of, acl, CACHED).await;
            }
            3 => {
                let held = bed.files.open(&bed.caller, of, Access::READ).await;
                self.holds.extend(held);
            }
            4 => drop(self.holds.pop()),
            _ => {
                let _ = bed.write(of, self.rng.below(30_000), &[3; 9000]).await;
            }
        }
    }

    pub(crate) async fn step(&mut self, bed: &Bed<impl Store>) {
        match self.rng.below(10) {
            0..3 => self.create(bed).await,
            3..5 => self.change(bed).await,
            5 => {
                let (to, at) = self.place();
                let _ = bed.link(self.any(), to, at).await;
            }
            6 | 7 => {
                let (from, at) = self.place();
                let _ = bed.remove(from, at).await;
            }
            8 if self.rng.chance(0.3) => {
                let _ = bed.files.free_orphan().await;
            }
            _ => {
                let modes = [
                    RenameMode::Replace,
                    RenameMode::Replace,
                    RenameMode::NoReplace,
                    RenameMode::Exchange,
                ];
                let mode = modes[self.rng.below(4) as usize];
                let (from, to) = (self.place(), self.place());
                let _ = bed.rename(from, to, mode).await;
            }
        }
    }
}

#[test]
fn every_state_between_two_transactions_is_whole() {
    run(|| async {
        for seed in 0..40 {
            let bed = Bed::new(seed).await;
            bed.store.remember();
            let mut random = Random::new(seed, bed.root);
            for _ in 0..120 {
                random.step(&bed).await;
            }
            let states = bed.store.history();
            for (n, state) in states.into_iter().enumerate() {
                check(&state);
                if n % 10 == 0 {
                    let store = MemoryStore::with(state, seed);
                    let again = Bed::of(store.clone(), open(&store).await);
                    again.free_orphans().await;
                    check(&store.now());
                    let orphans = store.now().inodes.values().any(|inode| inode.links == 0);
                    assert!(!orphans, "seed {seed}, state {n}");
                }
            }
        }
    });
}

/// Several tasks at once; each state is whole all the same.
#[test]
fn operations_at_the_same_time_leave_whole_states() {
    run(|| async {
        for seed in 0..40 {
            let store = MemoryStore::new(seed);
            let bed = Bed::new(seed).await;
            drop(store);
            bed.store.remember();
            // All tasks know the same directories.
            let mut first = Random::new(seed, bed.root);
            for at in NAMES {
                let directory = bed.directory(bed.root, at).await;
                let below = bed.directory(directory, at).await;
                first.directories.extend([directory, below]);
            }
            let (store, files) = (bed.store.clone(), bed.files.clone());
            drop(io::spawn(files.clone().free_orphans()));
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let bed = Bed::of(store.clone(), files.clone());
                    let mut random = Random::new(seed * 100 + task, bed.root);
                    random.directories.clone_from(&first.directories);
                    io::spawn(async move {
                        for _ in 0..60 {
                            random.step(&bed).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            store.history().iter().for_each(check);
        }
    });
}
