//! Space by owner, and quotas of users and groups.

use std::time::Duration;

use backend::file::{FileBackend, FileError, FileResult, Handle, SetAttributes};
use io::rng::Prng;
use pool::filesystem::{Purpose, Store, Transaction};
use pool::format::filesystem::{FileOwner, charge_keys, counted_key};
use pool::{FileStore, NewFilesystem};
use testkit::files::random::Random;
use testkit::store::{check, check_charges};

use crate::filesystem::bed::{Bed, CACHED};
use crate::filesystem::pooled::{
    Cuts, again, create_pool, durables, new_files, on_disk, open, verified,
};

const KIB: usize = 1024;
const ANN: u32 = 1001;
const BOB: u32 = 1002;
const STAFF: u32 = 50;

async fn chown(
    bed: &Bed<FileStore>,
    of: Handle,
    uid: Option<u32>,
    gid: Option<u32>,
) -> FileResult<()> {
    let set = SetAttributes {
        uid,
        gid,
        ..SetAttributes::default()
    };
    let set = bed.files.set_attributes(&bed.caller, of, set, CACHED);
    set.await.map(drop)
}

/// A new file of a user in group [`STAFF`].
async fn file_of(bed: &Bed<FileStore>, at: &str, uid: u32) -> Handle {
    let file = bed.file(at).await;
    let chowned = chown(bed, file, Some(uid), Some(STAFF)).await;
    chowned.expect("chowned");
    file
}

/// Bytes and quota of a user or group.
async fn space(store: &FileStore, owner: FileOwner) -> (u64, u64) {
    let all = store.owner_spaces().await.expect("read").expect("counted");
    let found = all.iter().find(|space| space.owner == owner);
    found.map_or((0, 0), |space| (space.used, space.quota))
}

async fn used(store: &FileStore, owner: FileOwner) -> u64 {
    space(store, owner).await.0
}

#[test]
fn space_follows_files_and_their_owners() {
    on_disk(|_| async move {
        let (ann, bob) = (FileOwner::User(ANN), FileOwner::User(BOB));
        let staff = FileOwner::Group(STAFF);
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store.clone()).await;
        let file = file_of(&bed, "file", ANN).await;
        let small = file_of(&bed, "small", ANN).await;
        bed.write(file, 0, &[1; 64 * KIB]).await.expect("written");
        bed.write(small, 0, b"a few bytes").await.expect("written");
        // data in memory counts at once
        let all = (64 * KIB + 11) as u64;
        assert_eq!(used(&store, ann).await, all);
        assert_eq!(used(&store, staff).await, all);
        bed.write(file, 0, &[2; 64 * KIB]).await.expect("written");
        assert_eq!(used(&store, ann).await, all, "not for the same bytes again");
        chown(&bed, file, Some(BOB), None).await.expect("chowned");
        assert_eq!(used(&store, ann).await, 11);
        assert_eq!(used(&store, bob).await, 64 * KIB as u64);
        assert_eq!(used(&store, staff).await, all);
        let _proof = store.durable(None).await.expect("durable");
        check_charges(&durables(&store).await);
        pool.create_snapshot("files", "then").await.expect("taken");

        bed.set_size(file, 20 * KIB as u64).await.expect("cut");
        assert_eq!(used(&store, bob).await, 20 * KIB as u64);
        bed.remove(bed.root, "small").await.expect("removed");
        bed.free_orphans().await;
        assert_eq!(used(&store, ann).await, 0);
        let then = pool.filesystem_snapshot("files", "then").expect("there");
        assert_eq!(used(&then, bob).await, 64 * KIB as u64);
        check_charges(&durables(&then).await);
        drop((bed, store, then));
        pool.close().await.expect("closed");

        let pool = again().await;
        let store = pool.filesystem("files").expect("it is there");
        check_charges(&durables(&store).await);
        assert_eq!(used(&store, bob).await, 20 * KIB as u64);
        drop(store);
        pool.roll_back("files", "then").await.expect("rolled back");
        let store = pool.filesystem("files").expect("it is there");
        assert_eq!(used(&store, bob).await, 64 * KIB as u64);
        let cloned = pool.clone_snapshot("files", "then", "clone").await;
        drop(cloned.expect("cloned"));
        let clone = pool.filesystem("clone").expect("it is there");
        let bed = open(clone).await;
        let file = bed.lookup(bed.root, "file").await.expect("found").handle;
        bed.set_size(file, 0).await.expect("cut");
        assert_eq!(used(&bed.store, bob).await, 0);
        assert_eq!(used(&store, bob).await, 64 * KIB as u64);
        verified(&pool).await;
    });
}

/// Nobody but the owner of the file notices a quota that is used up.
#[test]
fn a_quota_stops_its_owner_alone() {
    on_disk(|_| async move {
        let (ann, staff) = (FileOwner::User(ANN), FileOwner::Group(STAFF));
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store.clone()).await;
        let file = file_of(&bed, "ann", ANN).await;
        let other = file_of(&bed, "bob", BOB).await;
        let quota = store.set_owner_quota(ann, 64 * KIB as u64);
        quota.await.expect("set");
        bed.write(file, 0, &[1; 48 * KIB]).await.expect("written");
        let refused = bed.write(file, 48 * KIB as u64, &[1; 32 * KIB]).await;
        assert_eq!(refused, Err(FileError::Quota), "even for the superuser");
        assert_eq!(used(&store, ann).await, 48 * KIB as u64, "nothing was done");
        let wide = bed.write(other, 0, &[1; 200 * KIB]).await;
        wide.expect("it is another user's");
        let small = file_of(&bed, "small", ANN).await;
        bed.write(small, 0, &[1; 900])
            .await
            .expect("there is space");
        let refused = chown(&bed, other, Some(ANN), None).await;
        assert_eq!(refused, Err(FileError::Quota));
        bed.write(file, 48 * KIB as u64, &[1; 15 * KIB + 124])
            .await
            .expect_err("no space for a whole unit");

        // data that exists can be overwritten, cut and removed
        bed.write(file, 0, &[2; 48 * KIB]).await.expect("written");
        let tight = store.set_owner_quota(ann, 10 * KIB as u64).await;
        tight.expect("a quota below the used space");
        assert_eq!(
            space(&store, ann).await,
            (48 * KIB as u64 + 900, 10 * KIB as u64)
        );
        bed.write(file, 100, &[3; 5 * KIB]).await.expect("written");
        let refused = bed.write(small, 900, &[1; 50]).await;
        assert_eq!(refused, Err(FileError::Quota));
        let mut caller = bed.caller.clone();
        caller.uid = ANN;
        let open_to_all = SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        };
        let set = bed
            .files
            .set_attributes(&bed.caller, bed.root, open_to_all, CACHED);
        set.await.expect("set");
        let ann_bed = Bed {
            caller,
            store: store.clone(),
            files: bed.files.clone(),
            root: bed.root,
        };
        let refused = ann_bed.create(bed.root, "more", backend::file::NewKind::File);
        assert_eq!(refused.await.expect_err("used up"), FileError::Quota);
        bed.set_size(file, 0).await.expect("cut");
        let made = ann_bed.create(bed.root, "more", backend::file::NewKind::File);
        made.await.expect("there is space");

        let group = store.set_owner_quota(staff, 200 * KIB as u64);
        group.await.expect("set");
        let refused = bed.write(other, 200 * KIB as u64, &[1; 8 * KIB]).await;
        assert_eq!(refused, Err(FileError::Quota), "of the group");
        chown(&bed, other, None, Some(0)).await.expect("chowned");
        let written = bed.write(other, 200 * KIB as u64, &[1; 8 * KIB]).await;
        written.expect("in another group");
        drop((bed, ann_bed, store));
        pool.close().await.expect("closed");

        let pool = again().await;
        let store = pool.filesystem("files").expect("it is there");
        assert_eq!(space(&store, ann).await, (900, 10 * KIB as u64));
        let bed = open(store.clone()).await;
        let file = bed.lookup(bed.root, "ann").await.expect("found").handle;
        let refused = bed.write(file, 0, &[1; 16 * KIB]).await;
        assert_eq!(refused, Err(FileError::Quota), "after a restart");
        store.set_owner_quota(ann, 0).await.expect("no quota");
        bed.write(file, 0, &[1; 16 * KIB]).await.expect("written");
        check(&durables(&store).await);
        verified(&pool).await;
    });
}

/// Seed `files 15974961981650`: a punched hole, or a cut, made a record whole that had single blocks, so that a file grew beyond its
/// owner's quota (by up to 32 times).
#[test]
fn clearing_takes_no_space() {
    on_disk(|_| async move {
        let (ann, kib) = (FileOwner::User(ANN), |n: usize| (n * KIB) as u64);
        let pool = create_pool().await;
        let new = NewFilesystem {
            record_size: 128 << 10,
            ..new_files()
        };
        let store = pool.create_filesystem(new).await.expect("made");
        let bed = open(store.clone()).await;
        let file = file_of(&bed, "ann", ANN).await;
        bed.write(file, 0, &[6; 4 * KIB]).await.expect("written");
        bed.set_size(file, kib(128)).await.expect("grown");
        let _proof = store.durable(None).await.expect("a stored record");
        for block in [9, 20, 31] {
            let written = bed.write(file, kib(4 * block), &[7; 4 * KIB]).await;
            written.expect("written");
        }
        let quota = store.set_owner_quota(ann, kib(16)).await;
        quota.expect("all is used up");
        assert_eq!(used(&store, ann).await, kib(16));
        bed.punch(file, kib(2)..kib(20)).await.expect("punched");
        assert_eq!(used(&store, ann).await, kib(16), "no whole block is in it");
        bed.punch(file, kib(21)..kib(42)).await.expect("punched");
        assert_eq!(used(&store, ann).await, kib(12), "the second block is");
        bed.set_size(file, kib(82)).await.expect("cut");
        assert_eq!(used(&store, ann).await, kib(8), "the last block is gone");
        bed.set_size(file, kib(128)).await.expect("grown");

        let mut wanted = vec![0; 128 * KIB];
        wanted[..2 * KIB].fill(6);
        wanted[80 * KIB..82 * KIB].fill(7);
        assert_eq!(bed.read(file, 0, 128 * KIB).await, Ok(wanted.clone()));
        check(&durables(&store).await);
        drop((bed, store));
        pool.close().await.expect("closed");

        let pool = again().await;
        let store = pool.filesystem("files").expect("it is there");
        let bed = open(store.clone()).await;
        let file = bed.lookup(bed.root, "ann").await.expect("found").handle;
        assert_eq!(bed.read(file, 0, 128 * KIB).await, Ok(wanted));
        assert_eq!(used(&store, ann).await, kib(8));
        verified(&pool).await;
    });
}

/// Makes the filesystem one of a release without space by owner.
async fn forget_charges(store: &FileStore) {
    // data that is written back later would bring its sums
    let _proof = store.durable(None).await.expect("durable");
    let mut transaction = Transaction::new();
    transaction.delete_range(charge_keys());
    transaction.delete(counted_key());
    let admitted = store.admit(transaction.bytes(), Purpose::Use).await;
    let admitted = admitted.expect("admitted");
    store.apply(transaction, admitted).expect("applied");
    let _proof = store.durable(None).await.expect("durable");
}

/// Random operations and counting, until the power goes.
async fn count(seed: u64) {
    let pool = again().await;
    let store = pool.filesystem("files").expect("it is there");
    check_charges(&durables(&store).await);
    let bed = open(store.clone()).await;
    drop(io::spawn(bed.files.clone().free_orphans()));
    let counting = store.clone();
    drop(io::spawn(async move {
        counting.count_owners().await.expect("counted");
    }));
    let mut rng = Prng::new(seed);
    let mut random = Random::new(seed, bed.root, 0.1);
    loop {
        let _refused = random.step(&bed.files).await;
        match rng.below(60) {
            0 => pool.checkpoint().await.expect("a checkpoint"),
            1 => io::time::sleep(Duration::from_millis(rng.below(300))).await,
            _ => {}
        }
    }
}

#[test]
fn files_of_an_earlier_release_are_counted_once_amid_changes_and_power_cuts() {
    for seed in 0..12 {
        let cuts = Cuts {
            rounds: 4,
            shortest: 1_002_000,
            spread: 120_000,
        };
        let make = async move {
            let pool = create_pool().await;
            let store = pool.create_filesystem(new_files()).await;
            let bed = open(store.expect("a filesystem")).await;
            let mut random = Random::new(seed, bed.root, 0.0);
            for n in 0..700 {
                let file = file_of(&bed, &format!("file{n}"), n % 3).await;
                let bytes = [7; 100];
                bed.write(file, 0, &bytes).await.expect("written");
                random.files.push(file);
            }
            for _ in 0..100 {
                let _refused = random.step(&bed.files).await;
            }
            forget_charges(&bed.store).await;
            drop((bed, random));
            pool.close().await.expect("closed");
        };
        let last = async {
            let pool = again().await;
            let store = pool.filesystem("files").expect("it is there");
            check_charges(&durables(&store).await);
            store.count_owners().await.expect("counted");
            let all = store.owner_spaces().await.expect("read");
            assert!(all.is_some_and(|all| all.len() > 3));
            let _proof = store.durable(None).await.expect("durable");
            check_charges(&durables(&store).await);
            check(&durables(&store).await);
            verified(&pool).await;
            drop(store);
            pool.close().await.expect("closed");
        };
        cuts.run(seed, make, count, last);
    }
}
