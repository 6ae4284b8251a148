//! The front: requests of the kernel, handed to the shards.
//!
//! **Owns** the translation between the kernel's requests and [`Mounted`]'s operations. **Called by** the session threads of
//! `fuser`, which run nothing else. **Invariants**: each request is answered once, also if its shard has ended (EIO); a
//! session thread waits only for a place in the gate and for a buffer, so that the kernel keeps what is not taken.
//! Protocol: include/uapi/linux/fuse.h of Linux, version 7.40.

mod caller;
mod dispatch;
mod init;
mod reply;

use crate::mounted::{Mounted, name};
use crate::operation::Operation;
use crate::requests::{NewMode, OpenedFile};
use crate::status::Answer;
use backend::file::{Caller, NewKind, RemoveKind};
use fuser::{Errno, FopenFlags, INodeNo, ReplyEmpty, ReplyEntry, Request};
use io::SharedBuf;
use reply::Refuse;
use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Takes requests of one mount.
pub(crate) struct Front {
    mounted: Arc<Mounted>,
}

impl Front {
    /// The front of a mount.
    pub(crate) fn new(mounted: Arc<Mounted>) -> Self {
        Self { mounted }
    }

    fn caller(&self, request: &Request) -> Caller {
        caller::of(request, self.mounted.checked_by)
    }

    /// Starts a request on its shard. `work` returns whether it failed, and the function that sends the reply.
    fn start<F, S>(
        &self,
        of: Operation,
        number: u64,
        work: impl FnOnce(Arc<Mounted>) -> F + Send + 'static,
    ) where
        F: Future<Output = (bool, S)> + 'static,
        S: FnOnce() + 'static,
    {
        let place = self.mounted.gate.enter();
        let since = io::time::now();
        let mounted = self.mounted.clone();
        let (index, shard) = self.mounted.shard(number);
        let started = shard.spawn(move || async move {
            let (has_failed, send) = work(mounted.clone()).await;
            mounted.operations.ended(index, of, since, has_failed);
            send();
            drop(place);
        });
        if let Err(e) = started {
            // The reply was dropped with the task, which answered EIO.
            tracing::warn!("a request of a mount was refused: its shard: {e}");
        }
    }

    /// Starts a request whose result `answer` sends.
    fn handle<R, T, F>(
        &self,
        of: Operation,
        number: INodeNo,
        reply: R,
        work: impl FnOnce(Arc<Mounted>) -> F + Send + 'static,
        answer: impl FnOnce(R, T) + Send + 'static,
    ) where
        R: Refuse,
        T: 'static,
        F: Future<Output = Answer<T>> + 'static,
    {
        self.start(of, number.0, move |mounted| async move {
            let result = work(mounted).await;
            let has_failed = result.is_err();
            let send = move || match result {
                Ok(value) => answer(reply, value),
                Err(e) => reply.refuse(e),
            };
            (has_failed, send)
        });
    }

    /// Starts a request that may wait for other processes. It takes no place in the gate, as the request that ends its wait needs one.
    fn wait<F>(
        &self,
        number: INodeNo,
        reply: ReplyEmpty,
        work: impl FnOnce(Arc<Mounted>) -> F + Send + 'static,
    ) where
        F: Future<Output = Answer<()>> + 'static,
    {
        let since = io::time::now();
        let mounted = self.mounted.clone();
        let (index, shard) = self.mounted.shard(number.0);
        let started = shard.spawn(move || async move {
            let result = work(mounted.clone()).await;
            let operations = &mounted.operations;
            operations.ended(index, Operation::SetLk, since, result.is_err());
            match result {
                Ok(()) => reply.ok(),
                Err(e) => reply.refuse(e),
            }
        });
        if let Err(e) = started {
            tracing::warn!("a request of a mount was refused: its shard: {e}");
        }
    }

    /// Validity of the names of a directory.
    fn validity(&self, directory: INodeNo) -> reply::Validity {
        let validity = reply::Validity::of(&self.mounted.caching);
        match self.mounted.is_volatile(directory.0) {
            true => validity.without_names(),
            false => validity,
        }
    }

    /// The data of a write in a buffer of the mount. Blocks the thread until there is one.
    fn buffer(&self, data: &[u8]) -> Answer<SharedBuf> {
        if data.len() > io::limits::BUF_LEN_MAX {
            return Err(Errno::EINVAL);
        }
        let mut buffer = reply::wait_for(self.mounted.buffers.alloc(data.len()));
        buffer.copy_from_slice(data);
        Ok(buffer.into())
    }

    /// Starts the creation of an object that is not opened.
    fn make(
        &self,
        of: Operation,
        request: &Request,
        directory: INodeNo,
        called: &OsStr,
        (kind, mode): (Answer<NewKind>, NewMode),
        reply: ReplyEntry,
    ) {
        let (caller, called) = (self.caller(request), name(called.as_bytes()));
        let validity = reply::Validity::of(&self.mounted.caching);
        self.handle(
            of,
            directory,
            reply,
            move |m| async move { m.make(caller, directory.0, called?, kind?, mode).await },
            move |reply, known| reply::entry(reply, Some(known), validity),
        );
    }

    fn remove(
        &self,
        of: Operation,
        request: &Request,
        directory: INodeNo,
        called: &OsStr,
        kind: RemoveKind,
        reply: ReplyEmpty,
    ) {
        let (caller, called) = (self.caller(request), name(called.as_bytes()));
        self.handle(
            of,
            directory,
            reply,
            move |m| async move { m.remove(caller, directory.0, called?, kind).await },
            |reply, ()| reply.ok(),
        );
    }

    fn open_flags(&self) -> OpenFlagsOf {
        let mut flags = FopenFlags::empty();
        if self.mounted.caching.keeps_data {
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        OpenFlagsOf(flags)
    }
}

/// The flags of the replies to opens.
#[derive(Clone, Copy)]
struct OpenFlagsOf(FopenFlags);

impl OpenFlagsOf {
    /// The flags of one file.
    fn of(self, opened: &OpenedFile) -> FopenFlags {
        match opened.is_direct {
            true => self.0 | FopenFlags::FOPEN_DIRECT_IO,
            false => self.0,
        }
    }
}
