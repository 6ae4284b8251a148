//! Values of the pool's own tree and of the deadlists: golden bytes and refusals.

use crate::hex::hex;
use crate::parts::golden::{POINTER_HEX, pointer};
use pool::format::{
    BLOCK_PTR_SIZE, Birth, ChecksumKind, DEAD_CHUNK_MAX, Dataset, DatasetKind, DatasetProperty,
    DatasetRoot, FILE_RECORD_SIZE, Freeing, Hold, Key, Kind, ListId, MemberGuid, ObjectId, Packing,
    PoolProperty, PrevSnapshot, REGION_BITMAP_SIZE, RegionBits, RegionSummary, ResilverPosition,
    RowGrid, SIZE_CLASSES, SUMMARY_PAGE_SIZE, Setting, Settings, SummaryPage, SummaryRows,
    Switches, Sync, TextProperty, TextSetting, TreeId, VdevId, dataset_key, dead_key, dead_keys,
    decode_dead, decode_on, encode_dead, encode_on, freeing_key, hold_key, list_key,
    next_dataset_key, property_key, resilver_key, root_key, settings_key, space_key,
    summarized_key, summary_key,
};

/// Own values of compression, checksum and sync.
fn settings(values: [Option<u64>; 3]) -> Settings {
    let mut settings = Settings::default();
    for (property, value) in DatasetProperty::all().zip(values) {
        if let Some(value) = value {
            settings.put_local(property, value);
        }
    }
    settings
}

fn dataset() -> Dataset {
    Dataset {
        name: "monday".into(),
        kind: DatasetKind::Snapshot,
        sync: Sync::Always,
        compression: Packing::Zstd(9),
        checksum: ChecksumKind::Blake3,
        settings: settings([9 + 0x80, 2, 1].map(Some)),
        switches: Switches::default(),
        refquota: 0,
        autodefrag: pool::format::Autodefrag::On,
        special_small_blocks: 0,
        has_fragments: true,
        has_blocks: false,
        block_size: 4096,
        record_size: 0x4000,
        file_record_size: 128 << 10,
        size: 0x0011_2233_4455_6000,
        created: 0x0102_0304_0506_0708,
        birth: Birth(0x0a0b),
        of: Some(TreeId(0x10)),
        previous: Some(TreeId(0x11)),
        origin: Some(TreeId(0x12)),
        quota: 0x13,
        reservation: 0x14,
        guid: 0x1516_1718_191a_1b1c,
        list: ListId(0x1d1e),
    }
}

#[test]
fn golden_dataset() {
    let want = "0102018900100000 0040000002010000 0060554433221100 0807060504030201 \
         0b0a000000000000 1000000000000000 1100000000000000 1200000000000000 \
         1300000000000000 1400000000000000 1c1b1a1918171615 1e1d000000000000 \
         6d6f6e646179";
    assert_eq!(hex(&dataset().encode()), want);
    assert_eq!(Dataset::decode(&dataset().encode()), Ok(dataset()));
}

/// Values that are inherited, or set although they are the defaults, need a record of version 2.
#[test]
fn golden_dataset_with_settings() {
    let mut inherits = dataset();
    inherits.settings = settings([None, Some(2), None]);
    let received = Setting {
        value: 1,
        is_received: true,
    };
    inherits.settings.put(DatasetProperty::Sync, Some(received));
    let want = "0202018900100000 0040000002010200 0060554433221100 0807060504030201 \
         0b0a000000000000 1000000000000000 1100000000000000 1200000000000000 \
         1300000000000000 1400000000000000 1c1b1a1918171615 1e1d000000000000 \
         0201000000000000 0200000000000000 0302000000000000 0100000000000000 \
         6d6f6e646179";
    let bytes = inherits.encode();
    assert_eq!(hex(&bytes), want);
    assert_eq!(Dataset::decode(&bytes), Ok(inherits.clone()));
    assert!(
        Dataset::decode(&bytes[..110]).is_err(),
        "a setting is short"
    );
    let plain = dataset().encode();
    let own = dataset().settings.encode();
    let mut twice = [&plain[..96], &own, &plain[96..]].concat();
    (twice[0], twice[14]) = (2, 3);
    assert!(Dataset::decode(&twice).is_err(), "version 1 says the same");
    let mut other = bytes.to_vec();
    other[12] = 0;
    assert!(Dataset::decode(&other).is_err(), "not the value in effect");
    inherits.settings = Settings::default();
    let bytes = inherits.encode();
    assert_eq!((bytes[0], bytes[14]), (2, 0), "all are inherited");
    assert_eq!(Dataset::decode(&bytes), Ok(inherits));
}

/// Rules for access control lists.
#[test]
fn golden_acl_rules() {
    let mut files = dataset();
    files.kind = DatasetKind::Filesystem;
    (files.size, files.of) = (0, None);
    let values = [
        (DatasetProperty::Aclmode, 3),
        (DatasetProperty::Aclinherit, 4),
    ];
    files.record_size = FILE_RECORD_SIZE;
    files.settings = Settings::default();
    for (property, value) in values {
        files.settings.put_local(property, value);
    }
    let set = files.settings.encode();
    let want = "0f01000000000000 0300000000000000 1001000000000000 0400000000000000";
    assert_eq!(hex(&set), want);
    assert_eq!(Settings::decode(&set), Ok(files.settings));
    for (at, value) in [(8, 4), (24, 5)] {
        let mut other = set.clone();
        other[at] = value;
        assert!(Settings::decode(&other).is_err(), "{other:?}");
    }
}

/// The record size of a filesystem is its own value of the property, unless it is the default or a mark says otherwise.
#[test]
fn golden_record_sizes() {
    let property = DatasetProperty::Recordsize;
    let set = |bytes: Option<u64>, base: u32| {
        let mut files = dataset();
        files.kind = DatasetKind::Filesystem;
        (files.size, files.of, files.record_size) = (0, None, base);
        files.file_record_size = bytes.map_or(FILE_RECORD_SIZE, |bytes| bytes as u32);
        let value = |value| Setting {
            value,
            is_received: false,
        };
        files.settings.put(property, bytes.map(value));
        files
    };
    let bytes = |bytes: Option<u64>, base: u32| {
        let encoded = set(bytes, base).encode();
        assert_eq!(Dataset::decode(&encoded), Ok(set(bytes, base)));
        encoded
    };
    // version, record size, marks, number of settings
    let parts = |of: &[u8]| (of[0], hex(&of[8..12]), of[13], of[14]);
    let (small, default) = (0x4000, FILE_RECORD_SIZE);
    let implied = bytes(Some(small.into()), small);
    assert_eq!(parts(&implied), (1, "00400000".into(), 1, 0), "as before");
    let inherits = bytes(None, small);
    assert_eq!(parts(&inherits), (2, "00400000".into(), 5, 3));
    let plain = bytes(None, default);
    assert_eq!(parts(&plain), (1, "00000200".into(), 1, 0), "as before");
    let own = bytes(Some(8192), small);
    assert_eq!(parts(&own), (2, "00400000".into(), 1, 4));
    assert_eq!(hex(&own[144..160]), "0e01000000000000 0020000000000000");
    let same = bytes(Some(default.into()), default);
    assert_eq!(parts(&same), (2, "00000200".into(), 1, 4));
    // each state has one form
    let mut marked = own.to_vec();
    marked[13] |= 4;
    assert!(Dataset::decode(&marked).is_err(), "inherited, and own");
    let mut marked = plain.to_vec();
    (marked[0], marked[13]) = (2, 5);
    assert!(
        Dataset::decode(&marked).is_err(),
        "the default needs no mark"
    );
    let mut twice = own.to_vec();
    twice[152..160].copy_from_slice(&u64::from(small).to_le_bytes());
    assert!(Dataset::decode(&twice).is_err(), "the record says so");
    let mut odd = own.to_vec();
    odd[152] = 1;
    assert!(Dataset::decode(&odd).is_err(), "no power of two");
}

/// The text of a setting is behind it, in whole settings.
#[test]
fn golden_text() {
    let mut settings = settings([None, Some(2), None]);
    let shared = TextSetting {
        text: "rw=@10.0.0.0/24,ro".into(),
        is_received: true,
    };
    settings.put_text(TextProperty::Sharenfs, Some(shared));
    let want = "0201000000000000 0200000000000000 4002000000000000 1200000000000000 \
         72773d4031302e30 2e302e302f32342c 726f000000000000 0000000000000000";
    let bytes = settings.encode();
    assert_eq!(hex(&bytes), want);
    assert_eq!(Settings::decode(&bytes), Ok(settings.clone()));
    let mut shared = dataset();
    shared.settings = settings;
    shared
        .settings
        .put_local(DatasetProperty::Compression, 0x89);
    let bytes = shared.encode();
    assert_eq!((bytes[0], bytes[14]), (2, 5), "four units, and one more");
    assert_eq!(Dataset::decode(&bytes), Ok(shared));
}

#[test]
fn golden_root() {
    let root = |logical| DatasetRoot {
        root: Some(pointer()),
        referenced: 0x0102_0304,
        logical,
        allocated: 0x0506_0708,
        sizes: None,
    };
    let plain = format!("{POINTER_HEX} 0403020100000000 0807060500000000");
    let packed = format!("{plain} 0403020200000000");
    for (root, want) in [(root(0x0102_0304), plain), (root(0x0202_0304), packed)] {
        assert_eq!(hex(&root.encode()), want);
        assert_eq!(DatasetRoot::decode(&root.encode()), Ok(root));
    }
    let mut bytes = root(0x0202_0304).encode().into_vec();
    for number in 1..=2 + 2 * SIZE_CLASSES as u64 {
        bytes.extend(number.to_le_bytes());
    }
    let sized = DatasetRoot::decode(&bytes).expect("a root with sizes");
    let sizes = sized.sizes.expect("sizes");
    assert_eq!((sizes.nodes().blocks, sizes.nodes().bytes), (1, 2));
    let classes = sizes.classes();
    let classes: Vec<_> = classes.map(|(to, c)| (to, c.blocks, c.bytes)).collect();
    assert_eq!(classes[..2], [(512, 3, 4), (1024, 5, 6)]);
    assert_eq!(classes[SIZE_CLASSES - 1], (1 << 20, 25, 26));
    assert_eq!(sized.encode().into_vec(), bytes);
}

#[test]
fn golden_keys() {
    let of = |key: pool::format::Key| hex(&key.encode());
    assert_eq!(
        of(space_key(VdevId(3), 5)),
        "0000000000000003 0100000000000005"
    );
    assert_eq!(
        of(dataset_key(TreeId(16))),
        "0000000000000010 0200000000000000"
    );
    assert_eq!(
        of(root_key(TreeId(16))),
        "0000000000000010 0300000000000000"
    );
    assert_eq!(of(next_dataset_key()), "0000000000000000 0400000000000000");
    assert_eq!(of(freeing_key(2)), "0000000000000002 0500000000000000");
    assert_eq!(
        of(list_key(ListId(18))),
        "0000000000000012 0600000000000000"
    );
    assert_eq!(
        of(hold_key(TreeId(19), 3)),
        "0000000000000013 0700000000000003"
    );
    assert_eq!(of(settings_key()), "0000000000000000 0900000000000000");
    assert_eq!(
        of(summary_key(VdevId(3), 5)),
        "0000000000000003 0c00000000000005"
    );
    assert_eq!(of(summarized_key()), "0000000000000000 0d00000000000000");
    let dead = dead_key(ListId(17), Birth(0x0102), 0x03);
    assert_eq!(of(dead), "0000000000000011 0100000102000003");
    assert!(dead_keys(ListId(17)).contains(&dead));
    assert!(!dead_keys(ListId(16)).contains(&dead) && !dead_keys(ListId(18)).contains(&dead));
}

#[test]
fn golden_space() {
    let mut bytes = [0; REGION_BITMAP_SIZE];
    bytes[0] = 0b0000_0101;
    bytes[9] = 0x80;
    bytes[1023] = 0x80;
    let bits = RegionBits::decode(&bytes).expect("sound");
    let used: Vec<u32> = (0..8192).filter(|sector| bits.any(*sector, 1)).collect();
    assert_eq!(used, [0, 2, 79, 8191]);
    assert_eq!(bits.encode(), bytes);
    assert!(
        RegionBits::decode(&[0; REGION_BITMAP_SIZE]).is_err(),
        "all free"
    );
    assert!(RegionBits::decode(&bytes[1..]).is_err(), "too short");
}

/// The rows that summaries count.
#[test]
fn golden_rows_of_summaries() {
    let rows = SummaryRows {
        below: 9,
        behind: 8,
        boundary: 0x0102,
    };
    let bytes = rows.encode();
    assert_eq!(hex(&bytes), "0900080002010000");
    assert_eq!(SummaryRows::decode(&bytes), Ok(rows));
    assert_eq!([0x0101, 0x0102].map(|region| rows.of(region)), [9, 8]);
    assert!(SummaryRows::decode(&bytes[1..]).is_err(), "too short");
    assert!(SummaryRows::decode(&[]).is_err(), "empty");
    assert!(SummaryRows::decode(&[0; 8]).is_err(), "rows of nothing");
}

#[test]
fn golden_summaries() {
    let mut bits = [0; REGION_BITMAP_SIZE];
    bits[0] = 0b0000_0101;
    bits[9] = 0x80;
    bits[1023] = 0x80;
    let bits = RegionBits::decode(&bits).expect("sound");
    let mirror = RegionSummary::of(&bits, RowGrid::new(1, 77, 3));
    let (used, free, longest) = (4, 8188, 8111);
    assert_eq!(
        mirror,
        RegionSummary {
            used,
            free,
            longest
        }
    );
    // rows of 8 sectors, the first of which begins in sector 3
    let raidz = RegionSummary::of(&bits, RowGrid::new(8, 3, 0));
    let (free, longest) = (1022 * 8, 1013 * 8);
    assert_eq!(
        raidz,
        RegionSummary {
            used,
            free,
            longest
        }
    );
    let mut page = SummaryPage::default();
    assert_eq!(page.encode(), None, "no page of empty regions");
    (page.0[0], page.0[127]) = (mirror, raidz);
    let bytes = page.encode().expect("used sectors");
    assert_eq!(bytes.len(), SUMMARY_PAGE_SIZE);
    assert_eq!(hex(&bytes[..12]), "0400fc1faf1f0000 00000000");
    assert_eq!(hex(&bytes[762..]), "0400f01fa81f");
    assert_eq!(SummaryPage::decode(&bytes), Ok(page));
    assert!(SummaryPage::decode(&bytes[1..]).is_err(), "too short");
    assert!(SummaryPage::decode(&[0; SUMMARY_PAGE_SIZE]).is_err());
    for wrong in [
        [0, 0, 1, 0, 1, 0],
        [1, 0, 0, 32, 1, 0],
        [1, 0, 2, 0, 3, 0],
        [1, 0, 2, 0, 0, 0],
    ] {
        let mut bytes = bytes;
        bytes[6..12].copy_from_slice(&wrong);
        assert!(SummaryPage::decode(&bytes).is_err(), "{wrong:?}");
    }
}

#[test]
fn golden_dead_list() {
    let ptrs = vec![pointer(), pointer()];
    let bytes = encode_dead(&ptrs);
    assert_eq!(hex(&bytes), format!("{POINTER_HEX} {POINTER_HEX}"));
    assert_eq!(decode_dead(&bytes), Ok(ptrs));
    assert!(decode_dead(&[]).is_err(), "no pointer");
    assert!(decode_dead(&bytes[1..]).is_err(), "part of one");
    assert!(decode_dead(&[0; BLOCK_PTR_SIZE]).is_err(), "none");
    let many = pointer().encode().repeat(DEAD_CHUNK_MAX + 1);
    assert!(decode_dead(&many).is_err(), "too many");
    assert_eq!(
        decode_dead(&many[BLOCK_PTR_SIZE..]).map(|p| p.len()),
        Ok(21)
    );
}

#[test]
fn golden_freeing() {
    let tree = Freeing::Tree {
        root: pointer(),
        floor: Birth(0x0102),
        from: Key::new(ObjectId(1), Kind(2), 3),
        left: 0x0405,
    };
    let want = format!(
        "0101000000000000 {POINTER_HEX} 0201000000000000 0000000000000001 0200000000000003 \
         0504000000000000 0000000000000000 0000000000000000"
    );
    assert_eq!(hex(&tree.encode()), want);
    assert_eq!(Freeing::decode(&tree.encode()), Ok(tree));
    let prev = PrevSnapshot {
        floor: Birth(0x0102),
        list: Some(ListId(0x0304)),
    };
    let list = Freeing::List {
        list: ListId(0x0506),
        prev,
    };
    let zeroes = "0000000000000000 ".repeat(6);
    let want = format!(
        "0102000000000000 {zeroes}0201000000000000 0000000000000000 0000000000000000 \
         0000000000000000 0605000000000000 0403000000000000"
    );
    assert_eq!(hex(&list.encode()), want);
    assert_eq!(Freeing::decode(&list.encode()), Ok(list));
    assert!(Freeing::decode(&list.encode()[1..]).is_err(), "too short");
}

#[test]
fn golden_hold() {
    let hold = Hold {
        tag: "backup".into(),
        created: 0x0102_0304_0506_0708,
    };
    assert_eq!(hex(&hold.encode()), "0807060504030201 6261636b7570");
    assert_eq!(Hold::decode(&hold.encode()), Ok(hold));
}

#[test]
fn golden_resilver() {
    let position = ResilverPosition {
        held: Birth(0x0102),
        up_to: Birth(0x0304_0506),
        next: 0x1122_3344_5600,
    };
    assert_eq!(
        hex(&position.encode()),
        "0201000000000000 0605040300000000 0056443322110000"
    );
    assert_eq!(ResilverPosition::decode(&position.encode()), Ok(position));
    let key = Key::new(ObjectId(7), Kind(10), 0);
    assert_eq!(resilver_key(MemberGuid(7)), key);
    let bad = |at: usize, byte| {
        let mut bytes = position.encode();
        bytes[at] = byte;
        ResilverPosition::decode(&bytes)
    };
    assert!(bad(7, 1).is_err(), "held is behind up to");
    assert!(bad(23, 2).is_err(), "next is not on the vdev");
    assert!(ResilverPosition::decode(&position.encode()[1..]).is_err());
    let ptr = pointer();
    let has = |held, up_to, next| {
        let position = ResilverPosition {
            held: Birth(held),
            up_to: Birth(up_to),
            next,
        };
        position.has(Birth(5), (ptr.placed, ptr.offset))
    };
    let (birth, end) = (ptr.birth.0, ptr.offset.0 + 1);
    assert!(has(5, birth, end));
    assert!(!has(6, birth, end), "the member lost what it had");
    assert!(!has(5, birth - 1, end), "a younger block");
    assert!(!has(5, birth, end - 1), "it lies behind");
}

#[test]
fn golden_property() {
    for (property, number) in [(PoolProperty::Autotrim, 1), (PoolProperty::Autoexpand, 2)] {
        let key = Key::new(ObjectId(0), Kind(8), number);
        assert_eq!(property_key(property), key);
        assert_eq!(PoolProperty::of_key(key), Ok(property));
    }
    assert_eq!(*encode_on(), [1]);
    assert_eq!(decode_on(&[1]), Ok(()));
    for bad in [&[][..], &[0], &[2], &[1, 0]] {
        assert!(decode_on(bad).is_err(), "{bad:?}");
    }
    for (object, number) in [(0, 0), (0, 3), (1, 1)] {
        let key = Key::new(ObjectId(object), Kind(8), number);
        assert!(PoolProperty::of_key(key).is_err(), "{key:?}");
    }
}
