//! A target whose delays and faults the test chooses.

use io::IoBuf;
use io::time::sleep;
use lab::targets::{Engine, Facts, Medium, Session, Target};
use lab::{Error, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The script of a target, and its observations of the engine.
#[derive(Default)]
pub(crate) struct Script {
    /// Duration of every I/O.
    pub(crate) delay: Duration,
    /// The I/O with this number (from 0) takes this much longer, and all I/Os behind it wait.
    pub(crate) stall: Option<(u64, Duration)>,
    /// The I/O of this number fails.
    pub(crate) fail: Option<u64>,
    /// Reads give this byte.
    pub(crate) byte: u8,
    /// I/Os so far.
    pub(crate) ios: AtomicU64,
    /// Flushes so far.
    pub(crate) flushes: AtomicU64,
    /// Durable writes so far.
    pub(crate) durable: AtomicU64,
    /// I/Os in flight now, and at most.
    pub(crate) deepest: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    /// Every write's offset and first bytes.
    pub(crate) written: Mutex<Vec<(u64, [u8; 8])>>,
}

#[derive(Clone)]
pub(crate) struct Fake(pub(crate) Arc<Script>);

pub(crate) struct FakeSession {
    script: Arc<Script>,
    stalled_until: Cell<Option<io::time::Instant>>,
}

impl Target for Fake {
    type Session = FakeSession;

    fn facts(&self) -> Facts {
        facts()
    }

    async fn connect(&self, _depth: u32) -> Result<FakeSession> {
        Ok(FakeSession {
            script: self.0.clone(),
            stalled_until: Cell::new(None),
        })
    }
}

pub(crate) fn facts() -> Facts {
    Facts {
        size: 64 << 20,
        block_size: 512,
        transfer_max: 1 << 20,
        engine: Engine::Asynchronous,
        medium: Medium::Device,
        direct: Some(true),
        holes: 0,
        caches: 0,
        transport: None,
        server_pid: None,
        description: "a fake".into(),
    }
}

impl FakeSession {
    async fn take(&self) -> Result<()> {
        let s = &self.script;
        let n = s.ios.fetch_add(1, Ordering::SeqCst);
        let deep = s.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        s.deepest.fetch_max(deep, Ordering::SeqCst);
        if let Some((at, extra)) = s.stall
            && at == n
        {
            self.stalled_until.set(Some(io::time::now() + extra));
        }
        if let Some(until) = self.stalled_until.get() {
            io::time::sleep_until(until).await;
        }
        sleep(s.delay).await;
        s.in_flight.fetch_sub(1, Ordering::SeqCst);
        if s.fail == Some(n) {
            Err(Error::Status("no".into()))
        } else {
            Ok(())
        }
    }
}

impl Session for FakeSession {
    async fn read(&self, mut buf: IoBuf, _offset: u64) -> (Result<()>, IoBuf) {
        let r = self.take().await;
        buf.fill(self.script.byte);
        (r, buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        let r = self.take().await;
        let head = buf.first_chunk().copied().unwrap_or_default();
        self.script
            .written
            .lock()
            .expect("no panic holds it")
            .push((offset, head));
        self.script
            .durable
            .fetch_add(durable.into(), Ordering::SeqCst);
        (r, buf)
    }

    async fn flush(&self) -> Result<()> {
        self.script.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn facts(&self) -> Facts {
        facts()
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn close(self) {}
}
