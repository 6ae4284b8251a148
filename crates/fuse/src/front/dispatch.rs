//! Dispatch: the kernel's requests, each with its operation and its form of reply.
//!
//! **Owns** the list of requests that a mount answers. **Called by** the session threads of `fuser`. **Invariants**: a method
//! copies what it needs out of the session thread's buffer and starts a task; requests that are not here answer ENOSYS, after
//! which the kernel does without them (bmap, temporary files, statx).

use super::Front;
use super::init;
use super::reply;
use crate::convert;
use crate::mounted::name;
use crate::operation::Operation;
use crate::requests::{NewMode, RenameFlag, Writing};
use backend::file::{NewKind, RemoveKind, SetAttributes};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

fn new_mode(mode: u32, umask: u32) -> NewMode {
    NewMode {
        bits: convert::permissions(mode),
        umask: convert::permissions(umask),
    }
}

impl fuser::Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let has_acls = self.mounted.has_acls();
        let keeps_locks = self.mounted.files.keeps_locks();
        let caching = &self.mounted.caching;
        let has_direct_maps = init::negotiate(config, caching, has_acls, keeps_locks);
        let _ = self.mounted.has_direct_maps.set(has_direct_maps);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, called: &OsStr, reply: ReplyEntry) {
        let (caller, called) = (self.caller(request), called.as_bytes().to_vec());
        let validity = self.validity(parent);
        self.handle(
            Operation::Lookup,
            parent,
            reply,
            move |m| async move { m.lookup(caller, parent.0, &called).await },
            move |reply, known| reply::entry(reply, known, validity),
        );
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.mounted.nodes.forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let validity = self.mounted.validity();
        self.handle(
            Operation::GetAttr,
            number,
            reply,
            move |m| async move { m.attributes(number.0).await },
            move |reply, attributes| reply.attr(&validity, &attributes),
        );
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        opened: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let caller = self.caller(request);
        let set = SetAttributes {
            mode: mode.map(convert::permissions),
            uid,
            gid,
            size,
            accessed: convert::set_time(accessed),
            modified: convert::set_time(modified),
            created: None,
            guard: None,
        };
        let validity = self.mounted.validity();
        self.handle(
            Operation::SetAttr,
            number,
            reply,
            move |m| async move {
                m.set_attributes(caller, number.0, set, opened.is_some())
                    .await
            },
            move |reply, attributes| reply.attr(&validity, &attributes),
        );
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        self.handle(
            Operation::ReadLink,
            number,
            reply,
            move |m| async move { m.read_link(number.0).await },
            |reply, target| reply.data(&target),
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        called: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let kind = convert::new_kind(mode, device).ok_or(Errno::EPERM);
        let new = (kind, new_mode(mode, umask));
        self.make(Operation::MkNod, request, parent, called, new, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        called: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = Ok(NewKind::Directory);
        let new = (kind, new_mode(mode, umask));
        self.make(Operation::MkDir, request, parent, called, new, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, called: &OsStr, reply: ReplyEmpty) {
        let kind = RemoveKind::File;
        self.remove(Operation::Unlink, request, parent, called, kind, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, called: &OsStr, reply: ReplyEmpty) {
        let kind = RemoveKind::Directory;
        self.remove(Operation::RmDir, request, parent, called, kind, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        called: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = NewKind::Symlink(target.as_os_str().as_bytes().to_vec());
        self.make(
            Operation::Symlink,
            request,
            parent,
            called,
            (Ok(kind), new_mode(0o777, 0)),
            reply,
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        called: &OsStr,
        new_parent: INodeNo,
        new_called: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            f if f.is_empty() => Ok(RenameFlag::Replace),
            RenameFlags::RENAME_NOREPLACE => Ok(RenameFlag::NoReplace),
            RenameFlags::RENAME_EXCHANGE => Ok(RenameFlag::Exchange),
            _ => Err(Errno::EINVAL),
        };
        let caller = self.caller(request);
        let (old, new) = (name(called.as_bytes()), name(new_called.as_bytes()));
        self.handle(
            Operation::Rename,
            parent,
            reply,
            move |m| async move {
                m.rename(caller, (parent.0, old?), (new_parent.0, new?), mode?)
                    .await
            },
            |reply, ()| reply.ok(),
        );
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        parent: INodeNo,
        called: &OsStr,
        reply: ReplyEntry,
    ) {
        let (caller, called) = (self.caller(request), name(called.as_bytes()));
        let validity = reply::Validity::of(&self.mounted.caching);
        self.handle(
            Operation::Link,
            parent,
            reply,
            move |m| async move { m.link(caller, number.0, parent.0, called?).await },
            move |reply, known| reply::entry(reply, Some(known), validity),
        );
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (caller, open_flags) = (self.caller(request), self.open_flags());
        self.handle(
            Operation::Open,
            number,
            reply,
            move |m| async move { m.open(caller, number.0, flags.0).await },
            move |reply, opened| reply.opened(FileHandle(opened.number), open_flags.of(&opened)),
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        called: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, called) = (self.caller(request), name(called.as_bytes()));
        let (mode, open_flags) = (new_mode(mode, umask), self.open_flags());
        let validity = reply::Validity::of(&self.mounted.caching);
        self.handle(
            Operation::Create,
            parent,
            reply,
            move |m| async move { m.create(caller, parent.0, called?, mode, flags).await },
            move |reply, (known, opened)| {
                reply.created(
                    &validity.shorter(),
                    &known.attributes,
                    Generation(known.generation),
                    FileHandle(opened.number),
                    open_flags.of(&opened),
                );
            },
        );
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        opened: FileHandle,
        _: OpenFlags,
        flock: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.handle(
            Operation::Release,
            number,
            reply,
            move |m| async move {
                let unlocked = match flock {
                    Some(owner) => m.unlock_all(number.0, owner.0).await,
                    None => Ok(()),
                };
                m.release(opened.0).await.and(unlocked)
            },
            |reply, ()| reply.ok(),
        );
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.handle(
            Operation::Read,
            number,
            reply,
            move |m| async move { m.read(number.0, offset, len).await },
            |reply, data| reply::data(reply, &data),
        );
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        opened: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if data.is_empty() {
            return reply.written(0);
        }
        // An fsync follows a cached write to a file with O_SYNC, but not always a direct one.
        let is_sync = flags.0 & (libc::O_SYNC | libc::O_DSYNC) != 0;
        let is_direct = flags.0 & libc::O_DIRECT != 0 || self.mounted.opened.is_direct(opened.0);
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let how = Writing {
            clears_setuid: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            is_durable: is_sync && is_direct && !is_cached,
            is_written_back: is_cached,
        };
        let data = self.buffer(data);
        self.handle(
            Operation::Write,
            number,
            reply,
            move |m| async move { m.write(number.0, offset, data?, how).await },
            |reply, written| reply.written(written),
        );
    }

    /// Called at each close. The kernel has written its data back before, and a close makes nothing durable; but the locks of a process
    /// on a file end with the first of its descriptors that is closed. Where no locks are kept, ENOSYS saves the request from then on.
    fn flush(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if !self.mounted.files.keeps_locks() {
            return reply.error(Errno::ENOSYS);
        }
        self.handle(
            Operation::Flush,
            number,
            reply,
            move |m| async move { m.unlock_all(number.0, owner.0).await },
            |reply, ()| reply.ok(),
        );
    }

    fn getlk(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        let lock = convert::lock(owner.0, (start, end), kind);
        self.handle(
            Operation::GetLk,
            number,
            reply,
            move |m| async move { m.test_lock(number.0, lock?).await },
            |reply, found| {
                let (start, end, kind) = convert::shown_lock(found);
                // The process that holds it may be on another machine.
                reply.locked(start, end, kind, 0);
            },
        );
    }

    fn setlk(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let lock = convert::lock(owner.0, (start, end), kind);
        if !waits {
            return self.handle(
                Operation::SetLk,
                number,
                reply,
                move |m| async move { m.lock(number.0, lock?).await },
                |reply, ()| reply.ok(),
            );
        }
        let process = request.pid();
        self.wait(number, reply, move |m| async move {
            m.wait_for_lock(number.0, lock?, process).await
        });
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.handle(
            Operation::FSync,
            number,
            reply,
            move |m| async move { m.commit(number.0).await },
            |reply, ()| reply.ok(),
        );
    }

    /// A directory has no state while it is open, and the kernel checks the permission to open it, if it checks any. ENOSYS
    /// saves the request from then on, and lets the kernel cache directories.
    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.mounted.checked_by == backend::file::CheckedBy::Client {
            return reply.error(Errno::ENOSYS);
        }
        let caller = self.caller(request);
        self.handle(
            Operation::OpenDir,
            number,
            reply,
            move |m| async move { m.access(caller, number.0, libc::R_OK).await },
            |reply, ()| reply.opened(FileHandle(0), FopenFlags::empty()),
        );
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        position: u64,
        mut reply: ReplyDirectory,
    ) {
        let caller = self.caller(request);
        self.start(Operation::ReadDir, number.0, move |m| async move {
            let listed = m
                .list(caller, number.0, position, false, |e| {
                    let kind = e.attributes.kind;
                    reply.add(
                        e.attributes.ino,
                        e.position,
                        kind,
                        OsStr::from_bytes(e.name),
                    )
                })
                .await;
            let send = move || match listed {
                Ok(()) => reply.ok(),
                Err(e) => reply.error(e),
            };
            (listed.is_err(), send)
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        position: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let caller = self.caller(request);
        self.start(Operation::ReadDirPlus, number.0, move |m| async move {
            let listed = m
                .list(caller, number.0, position, true, |e| {
                    reply.add(
                        e.attributes.ino,
                        e.position,
                        OsStr::from_bytes(e.name),
                        &e.validity,
                        &e.attributes,
                        Generation(e.generation),
                    )
                })
                .await;
            let send = move || match listed {
                Ok(()) => reply.ok(),
                Err(e) => reply.error(e),
            };
            (listed.is_err(), send)
        });
    }

    fn fsyncdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.handle(
            Operation::FSyncDir,
            number,
            reply,
            move |m| async move { m.commit(number.0).await },
            |reply, ()| reply.ok(),
        );
    }

    fn statfs(&self, request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let caller = self.caller(request);
        self.handle(
            Operation::StatFs,
            number,
            reply,
            move |m| async move { m.space(caller).await },
            |reply, space| reply::space(reply, &space),
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        called: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (caller, called) = (self.caller(request), called.as_bytes().to_vec());
        let value = value.to_vec();
        self.handle(
            Operation::SetXattr,
            number,
            reply,
            move |m| async move {
                m.set_xattr(caller, number.0, &called, Some(value), flags)
                    .await
            },
            |reply, ()| reply.ok(),
        );
    }

    fn getxattr(
        &self,
        request: &Request,
        number: INodeNo,
        called: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let (caller, called) = (self.caller(request), called.as_bytes().to_vec());
        self.handle(
            Operation::GetXattr,
            number,
            reply,
            move |m| async move { m.xattr(caller, number.0, &called, size).await },
            reply::xattr,
        );
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let caller = self.caller(request);
        self.handle(
            Operation::ListXattr,
            number,
            reply,
            move |m| async move { m.xattrs(caller, number.0, size).await },
            reply::xattr,
        );
    }

    fn removexattr(&self, request: &Request, number: INodeNo, called: &OsStr, reply: ReplyEmpty) {
        let (caller, called) = (self.caller(request), called.as_bytes().to_vec());
        self.handle(
            Operation::RemoveXattr,
            number,
            reply,
            move |m| async move { m.set_xattr(caller, number.0, &called, None, 0).await },
            |reply, ()| reply.ok(),
        );
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let caller = self.caller(request);
        self.handle(
            Operation::Access,
            number,
            reply,
            move |m| async move { m.access(caller, number.0, mask.bits()).await },
            |reply, ()| reply.ok(),
        );
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = self.caller(request);
        self.handle(
            Operation::FAllocate,
            number,
            reply,
            move |m| async move { m.allocate(caller, number.0, offset, len, mode).await },
            |reply, ()| reply.ok(),
        );
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.handle(
            Operation::LSeek,
            number,
            reply,
            move |m| async move { m.seek(number.0, offset, whence).await },
            |reply, offset| reply.offset(offset),
        );
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let caller = self.caller(request);
        self.handle(
            Operation::CopyFileRange,
            from,
            reply,
            move |m| async move {
                m.copy(caller, (from.0, from_offset), (to.0, to_offset), len)
                    .await
            },
            |reply, copied| reply.written(copied),
        );
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    /// Files are always ready. ENOSYS lets the kernel answer so itself.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }
}
