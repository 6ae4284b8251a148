//! Random operations on a file system.
//!
//! **Owns** [`Operation`] and its generator. **Called by** the comparison, and tests that keep a sequence. **Invariants**: an
//! operation names objects by position, so that every part of a sequence is a sequence too, as shrinking needs; offsets and
//! lengths stay below a megabyte.

use backend::file::{
    Ace, AceFlags, AceKind, AceMask, Acl, Allocate, IfExists, NewKind, RemoveKind, RenameMode,
    Seek, SetXattr, Who,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Largest offset, bytes.
const OFFSET_MAX: u64 = 600_000;
/// Largest length of one operation, bytes.
const LEN_MAX: u64 = 200_000;

/// An object, by its position in the list of all objects that were ever met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Any object, also one that is gone.
    Any(usize),
    /// A directory.
    Directory(usize),
    /// A regular file.
    File(usize),
}

/// Attributes to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    /// The time of the last modification becomes one long ago.
    pub(super) is_aged: bool,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Lookup(Of, u8),
    Parent(Of),
    Attributes(Of),
    Set(Of, Set),
    Access(Of, u16),
    Open(Of, u16),
    Close(usize),
    Create(Of, u8, NewKind, u16, IfExists),
    CreateWithAcl(Of, u8, Acl),
    ReadLink(Of),
    Link(Of, Of, u8),
    Remove(Of, u8, RemoveKind),
    Rename((Of, u8), (Of, u8), RenameMode),
    List(Of, usize),
    Read(Of, u64, usize),
    /// At an offset, or at the end; a seed of the data, and its length.
    Write(Of, Option<u64>, u64, usize),
    Allocate(Of, std::ops::Range<u64>, Allocate, bool),
    Seek(Of, u64, Seek),
    Copy((Of, u64), (Of, u64), u64),
    Xattr(Of, u8),
    Xattrs(Of),
    SetXattr(Of, u8, Option<usize>, SetXattr),
    Acl(Of),
    SetAcl(Of, Option<Acl>),
    Commit(Of),
}

/// An operation, its caller, and whether it must be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub(super) caller: u8,
    pub(super) is_durable: bool,
    pub(super) what: What,
}

fn any_of() -> impl Strategy<Value = Of> {
    prop_oneof![
        2 => any::<usize>().prop_map(Of::Any),
        2 => any::<usize>().prop_map(Of::Directory),
        3 => any::<usize>().prop_map(Of::File),
    ]
}

/// Mostly directories, mostly the first ones: names meet there.
fn directory() -> impl Strategy<Value = Of> {
    prop_oneof![
        15 => (0..3_usize).prop_map(Of::Directory),
        5 => any::<usize>().prop_map(Of::Directory),
        1 => any::<usize>().prop_map(Of::Any),
    ]
}

/// Mostly regular files.
fn file() -> impl Strategy<Value = Of> {
    prop_oneof![
        20 => any::<usize>().prop_map(Of::File),
        1 => any::<usize>().prop_map(Of::Any),
    ]
}

fn name() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0..3_u8, 1 => 0..8_u8]
}

fn mode() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => Just(0o777_u16),
        2 => Just(0o755),
        3 => 0..0o10000_u16,
    ]
}

fn kind() -> impl Strategy<Value = NewKind> {
    prop_oneof![
        8 => Just(NewKind::File),
        6 => Just(NewKind::Directory),
        2 => vec(1..255_u8, 0..40).prop_map(NewKind::Symlink),
        1 => Just(NewKind::Fifo),
        1 => (0..9_u64).prop_map(NewKind::CharDevice),
    ]
}

fn if_exists() -> impl Strategy<Value = IfExists> {
    prop_oneof![
        4 => Just(IfExists::Fail),
        2 => Just(IfExists::Open),
        1 => (0..3_u64).prop_map(IfExists::SameVerifier),
    ]
}

/// Offsets and lengths: any, and those around blocks and records.
fn position(max: u64) -> impl Strategy<Value = u64> {
    let near = (0..max / 4096, 0..3_u64);
    let near = near.prop_map(|(block, off)| (block * 4096 + off).saturating_sub(1));
    prop_oneof![0..max, near, 0..10_u64]
}

fn set() -> impl Strategy<Value = Set> {
    let owner = || option::weighted(0.3, 1000..1003_u32);
    let group = option::weighted(0.3, prop_oneof![Just(100_u32), Just(200), Just(300)]);
    let size = option::weighted(0.3, position(OFFSET_MAX));
    let set = (
        option::weighted(0.4, mode()),
        owner(),
        group,
        size,
        any::<bool>(),
    );
    set.prop_map(|(mode, uid, gid, size, is_aged)| Set {
        mode,
        uid,
        gid,
        size,
        is_aged,
    })
}

fn acl() -> impl Strategy<Value = Acl> {
    let kind = prop_oneof![3 => Just(AceKind::Allow), 1 => Just(AceKind::Deny)];
    let who = prop_oneof![
        Just(Who::Owner),
        Just(Who::OwningGroup),
        Just(Who::Everyone),
        (1000..1003_u32).prop_map(Who::User),
        prop_oneof![Just(Who::Group(200)), Just(Who::Group(300))],
    ];
    let mask = prop_oneof![Just(AceMask::ALL.0), any::<u32>()];
    let ace = (kind, 0..16_u16, who, mask).prop_map(|(kind, flags, who, mask)| Ace {
        kind,
        flags: AceFlags(flags),
        mask: AceMask(mask & AceMask::ALL.0),
        who,
    });
    vec(ace, 0..5).prop_map(|aces| Acl::new(aces).expect("flags and masks exist"))
}

fn on_names() -> impl Strategy<Value = What> {
    let remove = prop_oneof![
        Just(RemoveKind::File),
        Just(RemoveKind::Directory),
        Just(RemoveKind::Any)
    ];
    let rename = prop_oneof![
        3 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange)
    ];
    let place = || (directory(), name());
    prop_oneof![
        1 => place().prop_map(|(of, name)| What::Lookup(of, name)),
        1 => directory().prop_map(What::Parent),
        8 => (place(), kind(), mode(), if_exists())
            .prop_map(|((of, name), kind, mode, how)| What::Create(of, name, kind, mode, how)),
        1 => (place(), acl()).prop_map(|((of, name), acl)| What::CreateWithAcl(of, name, acl)),
        1 => any_of().prop_map(What::ReadLink),
        2 => (any_of(), place()).prop_map(|(of, (to, name))| What::Link(of, to, name)),
        3 => (place(), remove).prop_map(|((of, name), kind)| What::Remove(of, name, kind)),
        6 => (place(), place(), rename).prop_map(|(from, to, mode)| What::Rename(from, to, mode)),
        1 => (directory(), 1..9_usize).prop_map(|(of, page)| What::List(of, page)),
    ]
}

fn on_contents() -> impl Strategy<Value = What> {
    let offset = || position(OFFSET_MAX);
    let len = || position(LEN_MAX);
    let how = prop_oneof![
        Just(Allocate::Reserve),
        Just(Allocate::Zero),
        Just(Allocate::Punch)
    ];
    let seek = prop_oneof![Just(Seek::Data), Just(Seek::Hole)];
    prop_oneof![
        1 => (file(), 0..8_u16).prop_map(|(of, access)| What::Open(of, access)),
        1 => any::<usize>().prop_map(What::Close),
        2 => (file(), offset(), len())
            .prop_map(|(of, offset, len)| What::Read(of, offset, len as usize)),
        5 => (file(), option::weighted(0.8, offset()), any::<u64>(), len())
            .prop_map(|(of, at, seed, len)| What::Write(of, at, seed, len as usize)),
        2 => (file(), offset(), len(), how, any::<bool>()).prop_map(
            |(of, start, len, how, grows)| What::Allocate(of, start..start + len, how, grows)
        ),
        1 => (file(), offset(), seek).prop_map(|(of, offset, to)| What::Seek(of, offset, to)),
        2 => (file(), offset(), file(), offset(), len()).prop_map(
            |(from, source, to, target, len)| What::Copy((from, source), (to, target), len)
        ),
        1 => any_of().prop_map(What::Commit),
    ]
}

fn on_attributes() -> impl Strategy<Value = What> {
    let value = prop_oneof![0..20_usize, 900..1100_usize, 5000..5010_usize];
    let how = prop_oneof![
        3 => Just(SetXattr::Either),
        1 => Just(SetXattr::Create),
        1 => Just(SetXattr::Replace)
    ];
    let xattr = || 0..5_u8;
    prop_oneof![
        1 => any_of().prop_map(What::Attributes),
        4 => (any_of(), set()).prop_map(|(of, set)| What::Set(of, set)),
        1 => (any_of(), 0..8_u16).prop_map(|(of, access)| What::Access(of, access)),
        1 => (any_of(), xattr()).prop_map(|(of, name)| What::Xattr(of, name)),
        1 => any_of().prop_map(What::Xattrs),
        3 => (any_of(), xattr(), option::weighted(0.8, value), how)
            .prop_map(|(of, name, value, how)| What::SetXattr(of, name, value, how)),
        1 => any_of().prop_map(What::Acl),
        1 => (any_of(), option::weighted(0.8, acl())).prop_map(|(of, acl)| What::SetAcl(of, acl)),
    ]
}

/// Generates sequences of up to `max` operations.
pub fn operations(max: usize) -> impl Strategy<Value = Vec<Operation>> {
    let what = prop_oneof![3 => on_names(), 3 => on_contents(), 2 => on_attributes()];
    let operation = (0..8_u8, prop::bool::weighted(0.1), what);
    let operation = operation.prop_map(|(caller, is_durable, what)| Operation {
        caller,
        is_durable,
        what,
    });
    vec(operation, 1..=max)
}
