//! A disk that fails, hangs and counts as a test wants.

use backend::memory::MemoryDisk;
use backend::{BlockBackend, Durable, Extent, Geometry, Lba, Reply, StorageError, Usage};
use io::{IoBuf, Payload};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shared by the test and the target.
pub(crate) struct Scripted {
    inner: MemoryDisk,
    pub(crate) volatile: bool,
    pub(crate) read_only: AtomicBool,
    fail: Mutex<Option<StorageError>>,
    /// Every request waits while this is set.
    pub(crate) hang: Arc<AtomicBool>,
    pub(crate) flushes: AtomicU64,
    pub(crate) durable_writes: AtomicU64,
    pub(crate) plain_writes: AtomicU64,
    pub(crate) reads: AtomicU64,
}

impl Scripted {
    pub(crate) fn new(volatile: bool) -> Arc<Scripted> {
        Arc::new(Scripted {
            inner: MemoryDisk::new(4 << 20, 512).expect("a RAM disk"),
            volatile,
            read_only: AtomicBool::new(false),
            fail: Mutex::default(),
            hang: Arc::default(),
            flushes: AtomicU64::new(0),
            durable_writes: AtomicU64::new(0),
            plain_writes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        })
    }

    pub(crate) fn fail_with(&self, e: Option<StorageError>) {
        *self.fail.lock().expect("no panic") = e;
    }

    fn script<T: Unpin + 'static>(&self, reply: Reply<T>) -> Reply<T> {
        if let Some(e) = *self.fail.lock().expect("no panic") {
            return Reply::now(Err(e));
        }
        let hang = self.hang.clone();
        if !hang.load(Ordering::SeqCst) {
            return reply;
        }
        Reply::later(async move {
            while hang.load(Ordering::SeqCst) {
                io::time::sleep(Duration::from_millis(1)).await;
            }
            reply.await
        })
    }
}

impl BlockBackend for Scripted {
    fn geometry(&self) -> Geometry {
        let read_only = self.read_only.load(Ordering::SeqCst);
        Geometry {
            volatile_cache: self.volatile,
            read_only,
            ..self.inner.geometry()
        }
    }
    fn generation(&self) -> u64 {
        self.inner.generation()
    }
    fn usage(&self) -> Reply<Usage> {
        self.script(self.inner.usage())
    }
    fn read(&self, at: Extent) -> Reply<Payload> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.script(self.inner.read(at))
    }
    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        self.plain_writes.fetch_add(1, Ordering::SeqCst);
        self.script(self.inner.write(at, data))
    }
    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        self.durable_writes.fetch_add(1, Ordering::SeqCst);
        self.script(self.inner.write_durable(at, data))
    }
    fn flush(&self) -> Reply<Durable> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.script(self.inner.flush())
    }
    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()> {
        self.script(self.inner.write_zeroes(at, deallocate))
    }
    fn deallocate(&self, at: Extent) -> Reply<()> {
        self.script(self.inner.deallocate(at))
    }
    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        self.script(self.inner.compare(at, expected))
    }
    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
        self.script(self.inner.compare_and_write(at, expected, data))
    }
    fn refresh(&self) -> Reply<Geometry> {
        self.inner.refresh()
    }
    fn resize(&self, blocks: u64) -> Reply<Geometry> {
        self.inner.resize(blocks)
    }
}
