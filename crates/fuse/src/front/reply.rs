//! Replies to the kernel.
//!
//! **Owns** the form of entries, data and attributes in replies. **Called by** the front, on a shard (and
//! [`wait_for`] on session threads).

use crate::convert;
use crate::mounted::Known;
use crate::options::Caching;
use crate::requests::XattrAnswer;
use backend::file::{FileKind, FileSpace, NAME_MAX};
use fuser::{
    Errno, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use io::Payload;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;

/// Unit of sizes in the reply to statfs, bytes.
const BLOCK: u64 = 4096;

/// A reply that can be an error.
pub(super) trait Refuse: Send + 'static {
    /// Sends the error.
    fn refuse(self, e: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, e: Errno) {
                self.error(e);
            }
        })*
    };
}
refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// Validity of an entry in the kernel's cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity {
    name: Duration,
    absent: Duration,
    attributes: Duration,
}

impl Validity {
    pub(super) fn of(caching: &Caching) -> Self {
        Self {
            name: caching.names,
            absent: caching.absent_names,
            attributes: caching.attributes,
        }
    }

    /// For names that the kernel may not cache.
    pub(super) fn without_names(self) -> Self {
        Self {
            name: Duration::ZERO,
            absent: Duration::ZERO,
            ..self
        }
    }

    /// For replies with one validity for name and attributes.
    pub(super) fn shorter(&self) -> Duration {
        self.name.min(self.attributes)
    }
}

/// An object that was looked up, or the absence of a name, which the kernel caches, too.
pub(super) fn entry(reply: ReplyEntry, known: Option<Known>, validity: Validity) {
    match known {
        Some(known) => reply.entry_with_ttls(
            &validity.attributes,
            &validity.name,
            &known.attributes,
            Generation(known.generation),
        ),
        None if validity.absent.is_zero() => reply.error(Errno::ENOENT),
        None => {
            let absent = convert::no_attributes(0, FileKind::File);
            reply.entry(&validity.absent, &absent, Generation(0));
        }
    }
}

/// Bytes of a read.
pub(super) fn data(reply: ReplyData, data: &Payload) {
    match data.as_slice() {
        Some(bytes) => reply.data(bytes),
        None => {
            let mut copy = vec![0; data.len()];
            data.copy_to(&mut copy);
            reply.data(&copy);
        }
    }
}

/// An extended attribute, or its size.
pub(super) fn xattr(reply: ReplyXattr, answer: XattrAnswer) {
    match answer {
        XattrAnswer::Size(size) => reply.size(size),
        XattrAnswer::Data(data) => reply.data(&data),
    }
}

/// Space of the file system.
pub(super) fn space(reply: ReplyStatfs, space: &FileSpace) {
    let available = space.available / BLOCK;
    reply.statfs(
        space.total / BLOCK,
        available,
        available,
        space.files.saturating_add(space.files_available),
        space.files_available,
        BLOCK as u32,
        NAME_MAX as u32,
        BLOCK as u32,
    );
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future that needs no runtime. Blocks the thread.
pub(super) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
