//! Status codes (§15.1).

use filestate::{Revocation, StateError};

/// The outcome of an operation. The codes that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Status {
    /// NFS4_OK: success.
    Ok = 0,
    /// NFS4ERR_PERM: only the owner may do this.
    Perm = 1,
    /// NFS4ERR_NOENT: no such name.
    Noent = 2,
    /// NFS4ERR_IO: the medium failed.
    Io = 5,
    /// NFS4ERR_NXIO: no such data.
    Nxio = 6,
    /// NFS4ERR_ACCESS: the caller lacks permission.
    Access = 13,
    /// NFS4ERR_EXIST: the name exists.
    Exist = 17,
    /// NFS4ERR_XDEV: the names are in different file systems.
    Xdev = 18,
    /// NFS4ERR_NOTDIR: the object is no directory.
    Notdir = 20,
    /// NFS4ERR_ISDIR: the object is a directory.
    Isdir = 21,
    /// NFS4ERR_INVAL: an argument is invalid.
    Inval = 22,
    /// NFS4ERR_FBIG: the file would be too large.
    Fbig = 27,
    /// NFS4ERR_NOSPC: no space is left.
    Nospc = 28,
    /// NFS4ERR_ROFS: the file system is read-only.
    Rofs = 30,
    /// NFS4ERR_MLINK: the file has too many names.
    Mlink = 31,
    /// NFS4ERR_NAMETOOLONG: the name is too long.
    Nametoolong = 63,
    /// NFS4ERR_NOTEMPTY: the directory has entries.
    Notempty = 66,
    /// NFS4ERR_DQUOT: a quota is exceeded.
    Dquot = 69,
    /// NFS4ERR_STALE: the object is gone.
    Stale = 70,
    /// NFS4ERR_BADHANDLE: the file handle is none of this server.
    Badhandle = 10001,
    /// NFS4ERR_BAD_COOKIE: the directory cookie is invalid.
    BadCookie = 10003,
    /// NFS4ERR_NOTSUPP: the operation is not supported.
    Notsupp = 10004,
    /// NFS4ERR_TOOSMALL: the reply does not fit.
    Toosmall = 10005,
    /// NFS4ERR_SERVERFAULT: the server failed.
    Serverfault = 10006,
    /// NFS4ERR_BADTYPE: an object of this type cannot be created.
    Badtype = 10007,
    /// NFS4ERR_DELAY: try again later.
    Delay = 10008,
    /// NFS4ERR_SAME: the attributes are equal.
    Same = 10009,
    /// NFS4ERR_DENIED: another lock conflicts.
    Denied = 10010,
    /// NFS4ERR_EXPIRED: the lease has expired.
    Expired = 10011,
    /// NFS4ERR_LOCKED: a share reservation forbids it.
    Locked = 10012,
    /// NFS4ERR_GRACE: the server is in its grace period.
    Grace = 10013,
    /// NFS4ERR_SHARE_DENIED: a share reservation conflicts.
    ShareDenied = 10015,
    /// NFS4ERR_WRONGSEC: the security flavour is not enough.
    Wrongsec = 10016,
    /// NFS4ERR_CLID_INUSE: another principal uses the client owner.
    ClidInuse = 10017,
    /// NFS4ERR_NOFILEHANDLE: there is no current file handle.
    Nofilehandle = 10020,
    /// NFS4ERR_MINOR_VERS_MISMATCH: the minor version is not supported.
    MinorVersMismatch = 10021,
    /// NFS4ERR_STALE_CLIENTID: the client ID is unknown.
    StaleClientid = 10022,
    /// NFS4ERR_STALE_STATEID: the stateid is of an earlier server instance.
    StaleStateid = 10023,
    /// NFS4ERR_OLD_STATEID: the stateid has a newer sequence number.
    OldStateid = 10024,
    /// NFS4ERR_BAD_STATEID: the stateid names nothing of this client.
    BadStateid = 10025,
    /// NFS4ERR_NOT_SAME: the attributes differ.
    NotSame = 10027,
    /// NFS4ERR_SYMLINK: the object is a symbolic link.
    Symlink = 10029,
    /// NFS4ERR_RESTOREFH: there is no saved file handle.
    Restorefh = 10030,
    /// NFS4ERR_ATTRNOTSUPP: the attribute is not supported.
    Attrnotsupp = 10032,
    /// NFS4ERR_NO_GRACE: the grace period is over.
    NoGrace = 10033,
    /// NFS4ERR_RECLAIM_BAD: nothing of this client can be reclaimed.
    ReclaimBad = 10034,
    /// NFS4ERR_BADXDR: the arguments cannot be decoded.
    Badxdr = 10036,
    /// NFS4ERR_LOCKS_HELD: locks are held.
    LocksHeld = 10037,
    /// NFS4ERR_OPENMODE: the file is not open for this.
    Openmode = 10038,
    /// NFS4ERR_BADOWNER: the owner is no user of this server.
    Badowner = 10039,
    /// NFS4ERR_BADCHAR: the name has a character that is not allowed.
    Badchar = 10040,
    /// NFS4ERR_BADNAME: the name is not allowed.
    Badname = 10041,
    /// NFS4ERR_BAD_RANGE: the range is not supported.
    BadRange = 10042,
    /// NFS4ERR_OP_ILLEGAL: there is no such operation.
    OpIllegal = 10044,
    /// NFS4ERR_FILE_OPEN: the file is open.
    FileOpen = 10046,
    /// NFS4ERR_ADMIN_REVOKED: the administrator revoked the state.
    AdminRevoked = 10047,
    /// NFS4ERR_BADSESSION: the session is unknown.
    Badsession = 10052,
    /// NFS4ERR_BADSLOT: the slot does not exist.
    Badslot = 10053,
    /// NFS4ERR_COMPLETE_ALREADY: the reclaim was completed before.
    CompleteAlready = 10054,
    /// NFS4ERR_CONN_NOT_BOUND_TO_SESSION: the connection does not belong to the session.
    ConnNotBoundToSession = 10055,
    /// NFS4ERR_SEQ_MISORDERED: the sequence number is out of order.
    SeqMisordered = 10063,
    /// NFS4ERR_SEQUENCE_POS: SEQUENCE is not the first operation.
    SequencePos = 10064,
    /// NFS4ERR_REQ_TOO_BIG: the request exceeds the session's limit.
    ReqTooBig = 10065,
    /// NFS4ERR_REP_TOO_BIG: the reply exceeds the session's limit.
    RepTooBig = 10066,
    /// NFS4ERR_REP_TOO_BIG_TO_CACHE: the reply exceeds the limit of the reply cache.
    RepTooBigToCache = 10067,
    /// NFS4ERR_RETRY_UNCACHED_REP: the reply to this retry was not kept.
    RetryUncachedRep = 10068,
    /// NFS4ERR_TOO_MANY_OPS: the COMPOUND has too many operations.
    TooManyOps = 10070,
    /// NFS4ERR_OP_NOT_IN_SESSION: the operation needs a session.
    OpNotInSession = 10071,
    /// NFS4ERR_CLIENTID_BUSY: the client has sessions or state.
    ClientidBusy = 10074,
    /// NFS4ERR_SEQ_FALSE_RETRY: the retry differs from the request.
    SeqFalseRetry = 10076,
    /// NFS4ERR_BAD_HIGH_SLOT: the highest slot does not exist.
    BadHighSlot = 10077,
    /// NFS4ERR_ENCR_ALG_UNSUPP: the state protection is not supported.
    EncrAlgUnsupp = 10079,
    /// NFS4ERR_NOT_ONLY_OP: the operation must be alone.
    NotOnlyOp = 10081,
    /// NFS4ERR_WRONG_CRED: the credential is not the right one.
    WrongCred = 10082,
    /// NFS4ERR_WRONG_TYPE: the object has the wrong type.
    WrongType = 10083,
    /// NFS4ERR_DELEG_REVOKED: the delegation was revoked.
    DelegRevoked = 10087,
    /// NFS4ERR_UNION_NOTSUPP: this kind of contents is not supported (RFC 7862).
    UnionNotsupp = 10090,
    /// NFS4ERR_NOXATTR: the extended attribute does not exist (RFC 8276).
    Noxattr = 10095,
    /// NFS4ERR_XATTR2BIG: the extended attribute is too large (RFC 8276).
    Xattr2big = 10096,
}

impl Status {
    /// All codes.
    pub const ALL: &'static [Status] = &[
        Status::Ok,
        Status::Perm,
        Status::Noent,
        Status::Io,
        Status::Nxio,
        Status::Access,
        Status::Exist,
        Status::Xdev,
        Status::Notdir,
        Status::Isdir,
        Status::Inval,
        Status::Fbig,
        Status::Nospc,
        Status::Rofs,
        Status::Mlink,
        Status::Nametoolong,
        Status::Notempty,
        Status::Dquot,
        Status::Stale,
        Status::Badhandle,
        Status::BadCookie,
        Status::Notsupp,
        Status::Toosmall,
        Status::Serverfault,
        Status::Badtype,
        Status::Delay,
        Status::Same,
        Status::Denied,
        Status::Expired,
        Status::Locked,
        Status::Grace,
        Status::ShareDenied,
        Status::Wrongsec,
        Status::ClidInuse,
        Status::Nofilehandle,
        Status::MinorVersMismatch,
        Status::StaleClientid,
        Status::StaleStateid,
        Status::OldStateid,
        Status::BadStateid,
        Status::NotSame,
        Status::Symlink,
        Status::Restorefh,
        Status::Attrnotsupp,
        Status::NoGrace,
        Status::ReclaimBad,
        Status::Badxdr,
        Status::LocksHeld,
        Status::Openmode,
        Status::Badowner,
        Status::Badchar,
        Status::Badname,
        Status::BadRange,
        Status::OpIllegal,
        Status::FileOpen,
        Status::AdminRevoked,
        Status::Badsession,
        Status::Badslot,
        Status::CompleteAlready,
        Status::ConnNotBoundToSession,
        Status::SeqMisordered,
        Status::SequencePos,
        Status::ReqTooBig,
        Status::RepTooBig,
        Status::RepTooBigToCache,
        Status::RetryUncachedRep,
        Status::TooManyOps,
        Status::OpNotInSession,
        Status::ClientidBusy,
        Status::SeqFalseRetry,
        Status::BadHighSlot,
        Status::EncrAlgUnsupp,
        Status::NotOnlyOp,
        Status::WrongCred,
        Status::WrongType,
        Status::DelegRevoked,
        Status::UnionNotsupp,
        Status::Noxattr,
        Status::Xattr2big,
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The status of this number; `None` if this server does not send it.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Status> {
        Self::ALL.iter().copied().find(|s| s.code() == code)
    }
}

impl From<StateError> for Status {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Unknown => Status::BadStateid,
            StateError::Stale => Status::StaleStateid,
            StateError::Old => Status::OldStateid,
            StateError::Revoked(Revocation::Recall) => Status::DelegRevoked,
            StateError::Revoked(Revocation::Admin) => Status::AdminRevoked,
            StateError::Mode => Status::Openmode,
            StateError::NoUnion => Status::Inval,
            StateError::InUse => Status::LocksHeld,
            StateError::NoHold => Status::Serverfault,
        }
    }
}
