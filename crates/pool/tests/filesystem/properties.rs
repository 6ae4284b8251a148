//! Properties of filesystems in pools: they take effect at once, and survive.

use backend::file::{FileError, SetXattr};
use pool::filesystem::{AccessTimes, Store};
use pool::format::{DatasetProperty, Setting};
use pool::{NewFilesystem, Pool, Source};

use crate::bed::CACHED;
use crate::pooled::{again, create_pool, new_files, on_disk, open, verified};

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
