//! The table of properties: number, name, values and default of each, and its place in a dataset.
//!
//! **Owns** [`DatasetProperty`] and [`TABLE`]. **Called by** the functions of a property, and the encoding of own values. **Invariant**: the table is in the
//! order of the numbers, which is that of the properties. `docs/format.md`, "Settings".

use super::autodefrag::Autodefrag;
use super::codes::{checksum, checksum_code, packing, sync};
use super::record_sizes::{self, FILE_RECORD_SIZE, small};
use crate::format::{Dataset, DatasetKind, Packing, Sync};

/// A property that datasets inherit. The order is that of the numbers on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DatasetProperty {
    /// Compression of new records.
    Compression,
    /// Checksum of new records.
    Checksum,
    /// When writes become durable.
    Sync,
    /// Whether reading a file updates the time of its last access.
    Atime,
    /// Whether that time is updated only if it is older than the last change, or than a day.
    Relatime,
    /// Whether `.zfs` is listed.
    Snapdir,
    /// Whether access control lists can be set.
    Acltype,
    /// Whether there are extended attributes.
    Xattr,
    /// Whether every change is refused.
    Readonly,
    /// Whether programs can be executed from a mount.
    Exec,
    /// Whether setuid and setgid bits have an effect in a mount.
    Setuid,
    /// Whether device files have an effect in a mount.
    Devices,
    /// Most bytes of a dataset itself, without its snapshots.
    Refquota,
    /// Bytes of a record of files that are created.
    Recordsize,
    /// How chmod changes an access control list.
    Aclmode,
    /// Which entries of its directory a new object inherits.
    Aclinherit,
    /// Whether records that are read in order and lie apart are written again together.
    Autodefrag,
    /// Bytes that a record takes at most to be stored on vdevs of the special class.
    SpecialSmallBlocks,
    /// Contents of the dataset that the caches in memory keep.
    Primarycache,
    /// Contents of the dataset that cache devices hold.
    Secondarycache,
    /// Whether contents of small durable writes may go to the journal.
    Logbias,
}

/// A line of the table of properties.
pub(super) struct Row {
    pub(super) property: DatasetProperty,
    /// On disk, from 1.
    pub(super) number: u8,
    pub(super) name: &'static str,
    /// The possible values, for messages.
    pub(super) values: &'static str,
    pub(super) default: u64,
    /// Whether the fixed part of a dataset's record has the value in effect.
    pub(super) is_recorded: bool,
    /// Whether datasets below have it, too.
    pub(super) is_inherited: bool,
    /// Classes of datasets that have it.
    pub(super) kinds: &'static [DatasetKind],
    pub(super) parse: fn(&str) -> Option<u64>,
    /// The text of a value; `None` if the property cannot have it.
    pub(super) show: fn(u64) -> Option<String>,
    /// The value in effect.
    pub(super) read: fn(&Dataset) -> u64,
    /// Sets the value in effect, which is possible.
    pub(super) write: fn(&mut Dataset, u64),
}

/// Classes of datasets that are written to.
const ALL: &[DatasetKind] = &[DatasetKind::Volume, DatasetKind::Filesystem];

/// Classes of datasets with files.
const FILES: &[DatasetKind] = &[DatasetKind::Filesystem];

impl Row {
    /// Whether it is one of [`super::Switches`].
    pub(super) fn is_switch(&self) -> bool {
        use DatasetProperty::{Autodefrag, Recordsize, Refquota, SpecialSmallBlocks};
        let is_number = matches!(
            self.property,
            Refquota | Recordsize | Autodefrag | SpecialSmallBlocks
        );
        !self.is_recorded && !is_number
    }
}

/// A property with a few values, of which `texts` are the words.
macro_rules! switch {
    ($property:ident, $number:literal, $name:literal, $default:literal, $texts:expr, $values:literal) => {
        switch!($property, $number, $name, $default, $texts, $values, FILES)
    };
    ($property:ident, $number:literal, $name:literal, $default:literal, $texts:expr, $values:literal, $kinds:ident) => {
        Row {
            property: DatasetProperty::$property,
            number: $number,
            name: $name,
            values: $values,
            default: $default,
            is_recorded: false,
            is_inherited: true,
            kinds: $kinds,
            parse: |text| {
                let texts: &[&str] = &$texts;
                let found = texts.iter().position(|other| *other == text);
                found.map(|index| index as u64)
            },
            show: |value| {
                let texts: &[&str] = &$texts;
                Some((*texts.get(usize::try_from(value).ok()?)?).to_owned())
            },
            read: |dataset| dataset.switches.value(DatasetProperty::$property),
            write: |dataset, value| dataset.switches.put(DatasetProperty::$property, value),
        }
    };
    ($property:ident, $number:literal, $name:literal, $default:literal) => {
        switch!(
            $property,
            $number,
            $name,
            $default,
            ["off", "on"],
            "on or off"
        )
    };
}

/// All properties, in the order of their numbers.
pub(super) const TABLE: [Row; 21] = [
    Row {
        property: DatasetProperty::Compression,
        number: 1,
        name: "compression",
        values: "off, lz4 or zstd-1 to zstd-19",
        default: 1,
        is_recorded: true,
        is_inherited: true,
        kinds: ALL,
        parse: |text| Some(text.parse::<Packing>().ok()?.code().into()),
        show: |value| Some(packing(value)?.to_string()),
        read: |dataset| dataset.compression.code().into(),
        write: |dataset, value| dataset.compression = packing(value).expect("a possible value"),
    },
    Row {
        property: DatasetProperty::Checksum,
        number: 2,
        name: "checksum",
        values: "xxh3 or blake3",
        default: 0,
        is_recorded: true,
        is_inherited: true,
        kinds: ALL,
        parse: |text| Some(checksum_code(text.parse().ok()?).into()),
        show: |value| Some(checksum(value)?.to_string()),
        read: |dataset| checksum_code(dataset.checksum).into(),
        write: |dataset, value| dataset.checksum = checksum(value).expect("a possible value"),
    },
    Row {
        property: DatasetProperty::Sync,
        number: 3,
        name: "sync",
        values: "standard, always or disabled",
        default: 0,
        is_recorded: true,
        is_inherited: true,
        kinds: ALL,
        parse: |text| Some(text.parse::<Sync>().ok()?.code().into()),
        show: |value| Some(sync(value)?.to_string()),
        read: |dataset| dataset.sync.code().into(),
        write: |dataset, value| dataset.sync = sync(value).expect("a possible value"),
    },
    switch!(Atime, 4, "atime", 1),
    switch!(Relatime, 5, "relatime", 1),
    switch!(
        Snapdir,
        6,
        "snapdir",
        0,
        ["hidden", "visible"],
        "hidden or visible"
    ),
    switch!(Acltype, 7, "acltype", 1, ["off", "nfsv4"], "off or nfsv4"),
    switch!(Xattr, 8, "xattr", 1),
    switch!(Readonly, 9, "readonly", 0),
    switch!(Exec, 10, "exec", 1),
    switch!(Setuid, 11, "setuid", 0),
    switch!(Devices, 12, "devices", 0),
    Row {
        property: DatasetProperty::Refquota,
        number: 13,
        name: "refquota",
        values: "a size or none",
        default: 0,
        is_recorded: false,
        is_inherited: false,
        kinds: ALL,
        parse: |text| match text {
            "none" => Some(0),
            bytes => bytes.parse().ok().filter(|bytes| *bytes != 0),
        },
        show: |value| match value {
            0 => Some("none".to_owned()),
            bytes => Some(bytes.to_string()),
        },
        read: |dataset| dataset.refquota,
        write: |dataset, value| dataset.refquota = value,
    },
    Row {
        property: DatasetProperty::Recordsize,
        number: 14,
        name: "recordsize",
        values: "a power of two from 4K to 1M",
        default: FILE_RECORD_SIZE as u64,
        is_recorded: false,
        is_inherited: true,
        kinds: FILES,
        parse: record_sizes::parse,
        show: record_sizes::show,
        read: |dataset| dataset.file_record_size.into(),
        write: |dataset, value| {
            dataset.file_record_size = u32::try_from(value).expect("a possible value");
        },
    },
    switch!(
        Aclmode,
        15,
        "aclmode",
        1,
        ["discard", "groupmask", "passthrough", "restricted"],
        "discard, groupmask, passthrough or restricted"
    ),
    switch!(
        Aclinherit,
        16,
        "aclinherit",
        2,
        [
            "discard",
            "noallow",
            "restricted",
            "passthrough",
            "passthrough-x"
        ],
        "discard, noallow, restricted, passthrough or passthrough-x"
    ),
    Row {
        property: DatasetProperty::Autodefrag,
        number: 17,
        name: "autodefrag",
        values: "on, off, or the most bytes a second",
        default: Autodefrag::On.number(),
        is_recorded: false,
        is_inherited: true,
        kinds: ALL,
        parse: |text| Some(text.parse::<Autodefrag>().ok()?.number()),
        show: |value| Some(Autodefrag::of_number(value)?.to_string()),
        read: |dataset| dataset.autodefrag.number(),
        write: |dataset, value| {
            dataset.autodefrag = Autodefrag::of_number(value).expect("a possible value");
        },
    },
    Row {
        property: DatasetProperty::SpecialSmallBlocks,
        number: 18,
        name: "special_small_blocks",
        values: "0, or a power of two from 4K to 1M",
        default: 0,
        is_recorded: false,
        is_inherited: true,
        kinds: ALL,
        parse: small::parse,
        show: small::show,
        read: |dataset| dataset.special_small_blocks.into(),
        write: |dataset, value| {
            dataset.special_small_blocks = u32::try_from(value).expect("a possible value");
        },
    },
    switch!(
        Primarycache,
        19,
        "primarycache",
        0,
        ["all", "metadata", "none"],
        "all, metadata or none",
        ALL
    ),
    switch!(
        Secondarycache,
        20,
        "secondarycache",
        0,
        ["all", "metadata", "none"],
        "all, metadata or none",
        ALL
    ),
    switch!(
        Logbias,
        21,
        "logbias",
        0,
        ["latency", "throughput"],
        "latency or throughput",
        ALL
    ),
];
