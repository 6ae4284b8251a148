//! Numbers of operations (§16.2.2).

/// ACCESS.
pub const ACCESS: u32 = 3;
/// CLOSE.
pub const CLOSE: u32 = 4;
/// COMMIT.
pub const COMMIT: u32 = 5;
/// CREATE.
pub const CREATE: u32 = 6;
/// DELEGPURGE.
pub const DELEGPURGE: u32 = 7;
/// DELEGRETURN.
pub const DELEGRETURN: u32 = 8;
/// GETATTR.
pub const GETATTR: u32 = 9;
/// GETFH.
pub const GETFH: u32 = 10;
/// LINK.
pub const LINK: u32 = 11;
/// LOCK.
pub const LOCK: u32 = 12;
/// LOCKT.
pub const LOCKT: u32 = 13;
/// LOCKU.
pub const LOCKU: u32 = 14;
/// LOOKUP.
pub const LOOKUP: u32 = 15;
/// LOOKUPP.
pub const LOOKUPP: u32 = 16;
/// NVERIFY.
pub const NVERIFY: u32 = 17;
/// OPEN.
pub const OPEN: u32 = 18;
/// OPENATTR.
pub const OPENATTR: u32 = 19;
/// OPEN_CONFIRM.
pub const OPEN_CONFIRM: u32 = 20;
/// OPEN_DOWNGRADE.
pub const OPEN_DOWNGRADE: u32 = 21;
/// PUTFH.
pub const PUTFH: u32 = 22;
/// PUTPUBFH.
pub const PUTPUBFH: u32 = 23;
/// PUTROOTFH.
pub const PUTROOTFH: u32 = 24;
/// READ.
pub const READ: u32 = 25;
/// READDIR.
pub const READDIR: u32 = 26;
/// READLINK.
pub const READLINK: u32 = 27;
/// REMOVE.
pub const REMOVE: u32 = 28;
/// RENAME.
pub const RENAME: u32 = 29;
/// RENEW.
pub const RENEW: u32 = 30;
/// RESTOREFH.
pub const RESTOREFH: u32 = 31;
/// SAVEFH.
pub const SAVEFH: u32 = 32;
/// SECINFO.
pub const SECINFO: u32 = 33;
/// SETATTR.
pub const SETATTR: u32 = 34;
/// SETCLIENTID.
pub const SETCLIENTID: u32 = 35;
/// SETCLIENTID_CONFIRM.
pub const SETCLIENTID_CONFIRM: u32 = 36;
/// VERIFY.
pub const VERIFY: u32 = 37;
/// WRITE.
pub const WRITE: u32 = 38;
/// RELEASE_LOCKOWNER.
pub const RELEASE_LOCKOWNER: u32 = 39;
/// BACKCHANNEL_CTL.
pub const BACKCHANNEL_CTL: u32 = 40;
/// BIND_CONN_TO_SESSION.
pub const BIND_CONN_TO_SESSION: u32 = 41;
/// EXCHANGE_ID.
pub const EXCHANGE_ID: u32 = 42;
/// CREATE_SESSION.
pub const CREATE_SESSION: u32 = 43;
/// DESTROY_SESSION.
pub const DESTROY_SESSION: u32 = 44;
/// FREE_STATEID.
pub const FREE_STATEID: u32 = 45;
/// GET_DIR_DELEGATION.
pub const GET_DIR_DELEGATION: u32 = 46;
/// GETDEVICEINFO.
pub const GETDEVICEINFO: u32 = 47;
/// GETDEVICELIST.
pub const GETDEVICELIST: u32 = 48;
/// LAYOUTCOMMIT.
pub const LAYOUTCOMMIT: u32 = 49;
/// LAYOUTGET.
pub const LAYOUTGET: u32 = 50;
/// LAYOUTRETURN.
pub const LAYOUTRETURN: u32 = 51;
/// SECINFO_NO_NAME.
pub const SECINFO_NO_NAME: u32 = 52;
/// SEQUENCE.
pub const SEQUENCE: u32 = 53;
/// SET_SSV.
pub const SET_SSV: u32 = 54;
/// TEST_STATEID.
pub const TEST_STATEID: u32 = 55;
/// WANT_DELEGATION.
pub const WANT_DELEGATION: u32 = 56;
/// DESTROY_CLIENTID.
pub const DESTROY_CLIENTID: u32 = 57;
/// RECLAIM_COMPLETE.
pub const RECLAIM_COMPLETE: u32 = 58;
/// ALLOCATE (RFC 7862).
pub const ALLOCATE: u32 = 59;
/// COPY (RFC 7862).
pub const COPY: u32 = 60;
/// COPY_NOTIFY (RFC 7862).
pub const COPY_NOTIFY: u32 = 61;
/// DEALLOCATE (RFC 7862).
pub const DEALLOCATE: u32 = 62;
/// IO_ADVISE (RFC 7862).
pub const IO_ADVISE: u32 = 63;
/// LAYOUTERROR (RFC 7862).
pub const LAYOUTERROR: u32 = 64;
/// LAYOUTSTATS (RFC 7862).
pub const LAYOUTSTATS: u32 = 65;
/// OFFLOAD_CANCEL (RFC 7862).
pub const OFFLOAD_CANCEL: u32 = 66;
/// OFFLOAD_STATUS (RFC 7862).
pub const OFFLOAD_STATUS: u32 = 67;
/// READ_PLUS (RFC 7862).
pub const READ_PLUS: u32 = 68;
/// SEEK (RFC 7862).
pub const SEEK: u32 = 69;
/// WRITE_SAME (RFC 7862).
pub const WRITE_SAME: u32 = 70;
/// CLONE (RFC 7862).
pub const CLONE: u32 = 71;
/// GETXATTR (RFC 8276).
pub const GETXATTR: u32 = 72;
/// SETXATTR (RFC 8276).
pub const SETXATTR: u32 = 73;
/// LISTXATTRS (RFC 8276).
pub const LISTXATTRS: u32 = 74;
/// REMOVEXATTR (RFC 8276).
pub const REMOVEXATTR: u32 = 75;
/// The number in the result of an operation that does not exist.
pub const ILLEGAL: u32 = 10_044;
/// The highest number of an operation of any minor version.
pub const LAST: u32 = REMOVEXATTR;
/// The lowest number of an operation.
pub const FIRST: u32 = ACCESS;

/// The highest number of an operation of this minor version.
#[must_use]
pub const fn last(minor: u32) -> u32 {
    match minor {
        0 | 1 => RECLAIM_COMPLETE,
        _ => LAST,
    }
}
