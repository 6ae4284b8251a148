//! Properties of filesystems in pools: they take effect at once, and survive.

use std::time::Duration;

use backend::file::permission::{AclInherit, AclMode, AclRules};
use backend::file::{Acl, FileError, SetAttributes, SetXattr};
use pool::filesystem::{AccessTimes, Store};
use pool::format::{DatasetProperty, Setting};
use pool::{NewFilesystem, Pool, Source};

use crate::filesystem::bed::CACHED;
use crate::filesystem::pooled::{again, create_pool, features, new_files, on_disk, open, verified};

async fn set(pool: &Pool, name: &str, property: DatasetProperty, text: &str) {
    let value = property.parse(text).expect("a value");
    let setting = Setting {
        value,
        is_received: false,
    };
    let set = pool.set_own(Some(name), property, Some(setting)).await;
    set.expect("set");
}

#[test]
fn properties_take_effect_on_open_filesystems_and_survive() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        drop(pool.create_filesystem(new_files()).await.expect("made"));
        let below = NewFilesystem {
            values: vec![(DatasetProperty::Atime, 1)],
            ..NewFilesystem::new("files/below")
        };
        let store = pool.create_filesystem(below).await.expect("made");
        let bed = open(store).await;
        let file = bed.file("file").await;
        bed.write(file, 0, b"data").await.expect("written");
        assert_eq!(bed.store.settings().access_times, AccessTimes::Relative);

        set(&pool, "files", DatasetProperty::Relatime, "off").await;
        assert_eq!(bed.store.settings().access_times, AccessTimes::Always);
        // its own value wins over the one above
        set(&pool, "files", DatasetProperty::Atime, "off").await;
        assert_eq!(bed.store.settings().access_times, AccessTimes::Always);
        set(&pool, "files/below", DatasetProperty::Atime, "off").await;
        assert_eq!(bed.store.settings().access_times, AccessTimes::Off);

        bed.set_xattr(file, "user.a", 5).await.expect("set");
        set(&pool, "files", DatasetProperty::Xattr, "off").await;
        let refused = bed.set_xattr(file, "user.a", 5).await;
        assert_eq!(refused, Err(FileError::Unsupported));
        use backend::file::FileBackend;
        let listed = bed.files.xattrs(&bed.caller, file).await;
        assert_eq!(listed, Err(FileError::Unsupported));
        set(&pool, "files", DatasetProperty::Xattr, "on").await;
        let how = SetXattr::Replace;
        let value = Some(b"b".to_vec());
        let again_set = bed
            .files
            .set_xattr(&bed.caller, file, b"user.a", value, how, CACHED);
        again_set.await.expect("it is still there");

        assert_eq!(bed.store.settings().acl_rules, AclRules::STANDARD);
        set(&pool, "files", DatasetProperty::Aclinherit, "passthrough-x").await;
        let modes = [
            ("discard", AclMode::Discard, None),
            ("passthrough", AclMode::Passthrough, Some(0o640)),
        ];
        for (text, on_chmod, mode) in modes {
            set(&pool, "files", DatasetProperty::Aclmode, text).await;
            let rules = AclRules {
                on_chmod,
                on_create: AclInherit::PassthroughX,
            };
            assert_eq!(bed.files.limits().acl_rules, rules);
            let list = Acl::new(vec![]).expect("a list");
            let list_set = bed.files.set_acl(&bed.caller, file, Some(list), CACHED);
            list_set.await.expect("set");
            let changed = SetAttributes {
                mode: Some(0o640),
                ..SetAttributes::default()
            };
            let changed = bed.files.set_attributes(&bed.caller, file, changed, CACHED);
            assert_eq!(changed.await.expect("set").value.after.mode, 0o640);
            let list = bed.files.acl(file).await.expect("read");
            assert_eq!(list.as_ref().map(Acl::mode), mode);
        }
        set(&pool, "files", DatasetProperty::Acltype, "off").await;
        assert!(!bed.files.limits().has_acls);

        set(&pool, "files", DatasetProperty::Readonly, "on").await;
        let refused = bed.write(file, 0, b"more").await;
        assert_eq!(refused, Err(FileError::ReadOnly));
        assert_eq!(bed.read(file, 0, 9).await.expect("read"), b"data");
        drop(bed);
        pool.close().await.expect("closed");

        let pool = again().await;
        let store = pool.filesystem("files/below").expect("it is there");
        assert!(store.settings().is_read_only);
        assert_eq!(store.settings().acl_rules.on_chmod, AclMode::Passthrough);
        assert_eq!(store.settings().access_times, AccessTimes::Off);
        let source = |property| pool.property(Some("files/below"), property);
        assert_eq!(
            source(DatasetProperty::Readonly),
            Some((1, Source::Inherited("files".into())))
        );
        assert_eq!(source(DatasetProperty::Atime), Some((0, Source::Local)));
        drop(store);
        verified(&pool).await;
    });
}

/// The quota without snapshots stops writes; data that only snapshots hold does not count.
#[test]
fn a_refquota_counts_no_snapshots() {
    const MIB: usize = 1 << 20;
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store).await;
        set(&pool, "files", DatasetProperty::Refquota, "8388608").await;
        let file = bed.file("file").await;
        let fill = async |byte: u8, mib: usize| {
            for n in 0..mib {
                // other bytes each time, which do not compress
                let mut rng = io::rng::Prng::new(u64::from(byte) * 1000 + n as u64);
                let mut data = vec![0; MIB];
                rng.fill(&mut data);
                bed.write(file, (n * MIB) as u64, &data).await?;
            }
            Ok(())
        };
        for round in 1..4 {
            fill(round, 5).await.expect("within the quota");
            let name = format!("s{round}");
            pool.create_snapshot("files", &name).await.expect("taken");
            pool.checkpoint().await.expect("a checkpoint");
        }
        let space = pool.volume_spaces()["files"];
        assert!(space.used > 15 * MIB as u64, "{space:?}");
        assert_eq!(fill(9, 12).await, Err(FileError::Quota));
        let (_, left) = (bed.store.space().used, bed.store.space().available);
        assert!(left < 4 * MIB as u64, "{left}");
        bed.remove(bed.root, "file").await.expect("removed");
        bed.free_orphans().await;
        pool.checkpoint().await.expect("a checkpoint");
        let file = bed.file("again").await;
        bed.write(file, 0, &vec![1; MIB]).await.expect("written");
        let refquota = DatasetProperty::Refquota;
        let none = pool.set_own(Some("files"), refquota, None).await;
        none.expect("set");
        assert!(bed.store.space().available > 20 * MIB as u64);
    });
}

/// Whether the labels of the closed pool have the feature of rules for lists.
async fn has_acl_feature(pool: Pool) -> bool {
    pool.close().await.expect("closed");
    features().await.iter().any(|name| name == "acl_rules")
}

#[test]
fn a_rule_for_lists_needs_a_feature_however_it_is_set() {
    for way in 0..4 {
        on_disk(move |_| async move {
            let pool = create_pool().await;
            drop(pool.create_filesystem(new_files()).await.expect("made"));
            assert!(!has_acl_feature(pool).await, "an earlier release reads it");
            let pool = again().await;
            let property = DatasetProperty::Aclmode;
            let value = property.default();
            let setting = |is_received| Some(Setting { value, is_received });
            match way {
                0 => pool
                    .set_own(Some("files"), property, setting(false))
                    .await
                    .expect("set"),
                1 => pool
                    .set_own(Some("files"), property, setting(true))
                    .await
                    .expect("set"),
                2 => pool
                    .set_own(None, property, setting(false))
                    .await
                    .expect("set"),
                _ => {
                    let values = vec![(DatasetProperty::Aclinherit, 3)];
                    let new = NewFilesystem {
                        values,
                        ..NewFilesystem::new("files/below")
                    };
                    drop(pool.create_filesystem(new).await.expect("made"));
                }
            }
            assert!(has_acl_feature(pool).await, "way {way}");
            verified(&again().await).await;
        });
    }
}

/// Space of deleted files stayed counted on an idle server for 15 minutes and more, until something else made a checkpoint:
/// programs that wait for space in a full filesystem waited for ever.
#[test]
fn space_of_deleted_files_is_free_at_once_and_soon_on_disk() {
    const MIB: u64 = 1 << 20;
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store).await;
        for n in 0..8 {
            let file = bed.file(&format!("file{n}")).await;
            for part in 0..4 {
                let mut data = vec![0; MIB as usize];
                io::rng::Prng::new(4 * n + part).fill(&mut data);
                bed.write(file, part * MIB, &data).await.expect("written");
            }
        }
        pool.checkpoint().await.expect("a checkpoint");
        let full = bed.store.space();
        assert!(full.used > 32 * MIB, "{full:?}");
        for n in 0..8 {
            bed.remove(bed.root, &format!("file{n}"))
                .await
                .expect("removed");
        }
        bed.free_orphans().await;
        let free = bed.store.space();
        assert!(free.used < 2 * MIB, "{free:?}");
        assert!(
            free.available > full.available + 31 * MIB,
            "{free:?} {full:?}"
        );
        assert!(pool.volume_spaces()["files"].used < 2 * MIB);
        // nothing else happens, and nobody asks for a checkpoint
        io::time::sleep(Duration::from_secs(30)).await;
        let space = pool.space();
        assert!(space.used + space.freeing < 4 * MIB, "{space:?}");
        let settled = bed.store.space();
        assert!(settled.used < 2 * MIB, "{settled:?}");
        assert!(settled.available > full.available + 31 * MIB, "{settled:?}");

        // what a snapshot holds is not free
        let file = bed.file("kept").await;
        for part in 0..8 {
            let data = vec![7; MIB as usize];
            bed.write(file, part * MIB, &data).await.expect("written");
        }
        pool.create_snapshot("files", "then").await.expect("taken");
        pool.checkpoint().await.expect("a checkpoint");
        let held = bed.store.space().used;
        bed.remove(bed.root, "kept").await.expect("removed");
        bed.free_orphans().await;
        assert!(bed.store.space().used >= held, "the snapshot has it");
    });
}
