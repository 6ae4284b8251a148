//! Status codes of NFS 3 (RFC 1813, section 2.6) and of MOUNT 3 (appendix I, section 5.1.5).

/// The outcome of a procedure of NFS. The codes that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Status {
    /// NFS3_OK: success.
    Ok = 0,
    /// NFS3ERR_PERM: only the owner may do this.
    Perm = 1,
    /// NFS3ERR_NOENT: no such name.
    Noent = 2,
    /// NFS3ERR_IO: the medium failed.
    Io = 5,
    /// NFS3ERR_NXIO: no such data.
    Nxio = 6,
    /// NFS3ERR_ACCES: the caller lacks permission.
    Access = 13,
    /// NFS3ERR_EXIST: the name exists.
    Exist = 17,
    /// NFS3ERR_XDEV: the names are in different file systems.
    Xdev = 18,
    /// NFS3ERR_NOTDIR: the object is no directory.
    Notdir = 20,
    /// NFS3ERR_ISDIR: the object is a directory.
    Isdir = 21,
    /// NFS3ERR_INVAL: an argument is invalid.
    Inval = 22,
    /// NFS3ERR_FBIG: the file would be too large.
    Fbig = 27,
    /// NFS3ERR_NOSPC: no space is left.
    Nospc = 28,
    /// NFS3ERR_ROFS: the file system is read-only.
    Rofs = 30,
    /// NFS3ERR_MLINK: the file has too many names.
    Mlink = 31,
    /// NFS3ERR_NAMETOOLONG: the name is too long.
    Nametoolong = 63,
    /// NFS3ERR_NOTEMPTY: the directory has entries.
    Notempty = 66,
    /// NFS3ERR_DQUOT: a quota is exceeded.
    Dquot = 69,
    /// NFS3ERR_STALE: the object is gone.
    Stale = 70,
    /// NFS3ERR_BADHANDLE: the file handle is none of this server.
    Badhandle = 10001,
    /// NFS3ERR_NOT_SYNC: the object has changed.
    NotSync = 10002,
    /// NFS3ERR_BAD_COOKIE: the directory cookie is invalid.
    BadCookie = 10003,
    /// NFS3ERR_NOTSUPP: not supported.
    Notsupp = 10004,
    /// NFS3ERR_TOOSMALL: the reply does not fit.
    Toosmall = 10005,
    /// NFS3ERR_SERVERFAULT: the server failed.
    Serverfault = 10006,
    /// NFS3ERR_BADTYPE: an object of this type cannot be created.
    Badtype = 10007,
    /// NFS3ERR_JUKEBOX: try again later.
    Jukebox = 10008,
}

impl Status {
    /// All of them.
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
        Status::NotSync,
        Status::BadCookie,
        Status::Notsupp,
        Status::Toosmall,
        Status::Serverfault,
        Status::Badtype,
        Status::Jukebox,
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

/// The outcome of MNT. The codes that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum MountStatus {
    /// MNT3_OK: success.
    Ok = 0,
    /// MNT3ERR_NOENT: no such path.
    Noent = 2,
    /// MNT3ERR_IO: the medium failed.
    Io = 5,
    /// MNT3ERR_ACCES: the caller lacks permission.
    Access = 13,
    /// MNT3ERR_NOTDIR: the object is no directory.
    Notdir = 20,
    /// MNT3ERR_NAMETOOLONG: a name is too long.
    Nametoolong = 63,
    /// MNT3ERR_SERVERFAULT: the server failed.
    Serverfault = 10006,
}

impl MountStatus {
    /// The number.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }
}
