//! Arguments of the operations on files that have more than a few fields (§18.4, §18.10, §18.16, §18.23).

use super::types::{Attrs, Bitmap, Owner, Stateid, Verifier};
use crate::xdr::{Range, Skip, SkipAfter, no_fields, xdr_enum, xdr_struct, xdr_union};

/// A type of lock: `nfs_lock_type4`.
pub(super) type LockType = Range<1, 4>;

xdr_enum! {
    /// The kind of a new object other than a regular file (`createtype4`, §18.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum NewType<'a> {
        /// NF4DIR.
        Directory = 2,
        /// NF4LNK: the target.
        Symlink(target: &'a [u8]) = 5,
        /// NF4SOCK.
        Socket = 6,
        /// NF4FIFO.
        Fifo = 7,
        /// NF4CHR: major and minor number.
        CharDevice(major: u32, minor: u32) = 4,
        /// NF4BLK: major and minor number.
        BlockDevice(major: u32, minor: u32) = 3,
    } else {
        /// Another type, by its number: it cannot be created.
        Other(u32): u32::clone, no_fields;
    }
}
xdr_union!(['a] NewType<'a>, |number| Ok(Self::Other(number)));

xdr_enum! {
    /// How OPEN creates a file (`createhow4`, §18.16).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CreateHow<'a> {
        /// UNCHECKED4.
        Unchecked(attributes: Attrs<'a>) = 0,
        /// GUARDED4.
        Guarded(attributes: Attrs<'a>) = 1,
        /// EXCLUSIVE4.
        Exclusive(verifier: Verifier) = 2,
        /// EXCLUSIVE4_1.
        Exclusive41(verifier: Verifier, attributes: Attrs<'a>) = 3,
    }
}
xdr_union!(['a] CreateHow<'a>);

xdr_enum! {
    /// Which file OPEN opens (`open_claim4`, §18.16).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Claim<'a> {
        /// CLAIM_NULL: a name in the current directory.
        Name(name: &'a [u8]) = 0,
        /// CLAIM_PREVIOUS: the current file, which was open before the server restarted, with this type of delegation.
        Previous(kind: u32) = 1,
        /// CLAIM_DELEGATE_CUR: a name, under a delegation.
        DelegateCurrent(stateid: Stateid, name: &'a [u8]) = 2,
        /// CLAIM_DELEGATE_PREV: a name, under a delegation of an earlier incarnation of the client.
        DelegatePrevious(name: &'a [u8]) = 3,
        /// CLAIM_FH: the current file.
        Handle = 4,
        /// CLAIM_DELEG_CUR_FH: the current file, under a delegation.
        DelegateCurrentHandle(stateid: Stateid) = 5,
        /// CLAIM_DELEG_PREV_FH: the current file, under a delegation of an earlier incarnation of the client.
        DelegatePreviousHandle = 6,
    }
}
xdr_union!(['a] Claim<'a>);

xdr_struct! {
    /// OPEN (§18.16).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Open<'a> {
        /// Not used in this minor version.
        pub seqid: u32,
        /// `OPEN4_SHARE_ACCESS_…`, with wishes about delegations.
        pub access: u32,
        /// `OPEN4_SHARE_DENY_…`.
        pub deny: u32,
        /// The open owner.
        pub owner: Owner<'a>,
        /// How the file is created; `None` if it must exist.
        pub create: Option<CreateHow<'a>>,
        /// The file.
        pub claim: Claim<'a>,
    }
}

xdr_enum! {
    /// The state that LOCK uses (`locker4`, §18.10). The sequence numbers are not used in this minor version.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Locker<'a> {
        /// A lock owner that is new to the open: the open, and the owner.
        New(open: Stateid as Skip, owner: Owner<'a> as Skip) = 1,
        /// The state of a lock owner.
        Existing(state: Stateid as SkipAfter) = 0,
    }
}
xdr_union!(['a] Locker<'a>);

xdr_struct! {
    /// LOCK (§18.10).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Lock<'a> {
        /// `nfs_lock_type4`.
        pub kind: u32 as LockType,
        /// Whether a lock of before the server's restart is reclaimed.
        pub is_reclaim: bool,
        /// First byte.
        pub offset: u64,
        /// Bytes; the largest number stands for all that follow.
        pub length: u64,
        /// The lock owner.
        pub locker: Locker<'a>,
    }
}

xdr_struct! {
    /// READDIR (§18.23).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReadDir {
        /// The position behind which entries are wanted.
        pub cookie: u64,
        /// The verifier of that position.
        pub verifier: Verifier,
        /// Most bytes of names and cookies, a hint.
        pub names_max: u32,
        /// Most bytes of the result.
        pub bytes_max: u32,
        /// Attributes of each entry.
        pub attributes: Bitmap,
    }
}
