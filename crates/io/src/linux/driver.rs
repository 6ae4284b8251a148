//! The io_uring driver of one thread.
//!
//! **Invariants**: only the thread that created the ring uses it (SINGLE_ISSUER); memory that the kernel reads or writes
//! belongs to the operation's slot or to its [`Scratch`], both at stable addresses until completion. While there is traffic
//! the driver polls for a short time before it sleeps, because a sleep costs the other side a wake-up; without traffic it
//! sleeps at once. Requests for files in memory bypass the ring ([`super::memory`]).

use super::memory;
use super::timers::RingTimers;
use crate::clock::Instant;
use crate::limits::{READY_ROUNDS_MAX, RING_ENTRIES, SEND_SEGMENTS_MAX};
use crate::runtime::{
    Completion, Driver, KernelCalls, Op, OpTable, Outcome, Remote, RuntimeConfig, Wait,
};
use crate::{Error, Result};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const WAKE: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
/// Most bytes of the transfers that are collected before they are submitted: the disk is idle meanwhile.
const TRANSFER_BYTES_MAX: usize = 256 << 10;
/// IORING_RECVSEND_POLL_FIRST: wait for the socket to become ready before trying.
const POLL_FIRST: u16 = 1;

/// Memory that a request refers to while the kernel has it.
struct Scratch {
    msg: libc::msghdr,
    iov: Vec<libc::iovec>,
    addr: socket2::SockAddr,
}

/// One ring and its state.
pub(crate) struct UringDriver {
    ring: IoUring,
    remote: Arc<Remote>,
    // Boxed, so that the memory keeps its address when the list grows.
    #[expect(clippy::vec_box)]
    scratch: Vec<Box<Scratch>>,
    spin: Spin,
    random: RandomPool,
    /// Disk transfers in the submission queue, and their bytes.
    transfers: usize,
    transfer_bytes: usize,
    transfers_max: usize,
    /// Completions of operations that bypassed the ring.
    carried_out: Vec<Completion>,
    timers: RingTimers,
    calls: KernelCalls,
}

impl UringDriver {
    pub(crate) fn new(config: &RuntimeConfig, remote: Arc<Remote>) -> Result<UringDriver> {
        let mut best = IoUring::builder();
        best.setup_cqsize(RING_ENTRIES * 4)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag();
        let mut plain = IoUring::builder();
        plain.setup_cqsize(RING_ENTRIES * 4);
        // DEFER_TASKRUN needs a kernel of version 6.1.
        let ring = best
            .build(RING_ENTRIES)
            .or_else(|_| plain.build(RING_ENTRIES))?;
        let mut driver = UringDriver {
            ring,
            remote,
            scratch: Vec::new(),
            spin: Spin::new(config.spin_max),
            random: RandomPool::default(),
            transfers: 0,
            transfer_bytes: 0,
            transfers_max: config.transfers_max,
            carried_out: Vec::new(),
            timers: RingTimers::default(),
            calls: KernelCalls::default(),
        };
        driver.arm_wake();
        Ok(driver)
    }

    fn arm_wake(&mut self) {
        let fd = types::Fd(self.remote.event_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(WAKE);
        self.push_entry(&poll);
    }

    /// Makes sure that a timer of the ring fires at `at` or before. Returns false if the ring has too many timers.
    fn arm_timer(&mut self, at: Instant) -> bool {
        if self.timers.covers(at) {
            return true;
        }
        let Some(timer) = self.timers.set(at) else {
            return false;
        };
        self.push_entry(&timer.user_data(TIMER));
        self.calls.timers += 1;
        true
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry refers to lives in the slot or the scratch of its operation until completion.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full: submit its entries.
            self.enter(0, None);
        }
    }

    /// Submits, and waits for `want` completions or the timeout. EINTR, EBUSY and ETIME are not errors: the caller checks the
    /// completion queue in any case.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        (self.transfers, self.transfer_bytes) = (0, 0);
        self.calls.enters += 1;
        self.calls.timers += u64::from(timeout.is_some());
        let res = match (want, timeout) {
            (0, _) => {
                let queued = u32::try_from(self.ring.submission().len()).expect("a ring is small");
                // SAFETY: no argument is passed.
                unsafe {
                    self.ring.submitter().enter::<libc::sigset_t>(
                        queued,
                        0,
                        EnterFlags::GETEVENTS.bits(),
                        None,
                    )
                }
            }
            (_, None) => self.ring.submitter().submit_and_wait(want),
            (_, Some(t)) => {
                let ts = types::Timespec::from(t);
                self.ring
                    .submitter()
                    .submit_with_args(want, &types::SubmitArgs::new().timespec(&ts))
            }
        };
        if let Err(e) = res {
            let quiet = matches!(
                e.raw_os_error(),
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
            );
            assert!(quiet, "io_uring_enter: {e}");
        }
    }

    /// Counts a transfer, and submits if enough are collected, so that the disk starts while further requests are prepared.
    fn count_transfer(&mut self, bytes: usize) {
        self.transfers += 1;
        self.transfer_bytes += bytes;
        if self.transfers >= self.transfers_max || self.transfer_bytes >= TRANSFER_BYTES_MAX {
            self.enter(0, None);
        }
    }

    /// Takes the completions. Returns their number, and whether a timer fired.
    fn reap(&mut self, done: &mut Vec<Completion>) -> (usize, bool) {
        let before = done.len();
        done.append(&mut self.carried_out);
        let mut fired = 0;
        let mut wake_ended = false;
        let mut woken = false;
        for cqe in self.ring.completion() {
            match cqe.user_data() {
                WAKE => {
                    woken = true;
                    wake_ended |= !cqueue::more(cqe.flags());
                }
                CANCEL => {}
                TIMER => fired += 1,
                key => {
                    let outcome = Outcome {
                        result: cqe.result(),
                        more: cqueue::sock_nonempty(cqe.flags()),
                    };
                    done.push(Completion {
                        key: key as usize,
                        outcome,
                    });
                }
            }
        }
        if woken {
            self.drain_event();
        }
        if wake_ended {
            self.arm_wake();
        }
        self.timers.fired(fired);
        (done.len() - before, fired > 0)
    }

    fn drain_event(&self) {
        let mut count = [0u8; 8];
        // SAFETY: reads 8 bytes into a local array from a non-blocking descriptor.
        unsafe {
            libc::read(
                self.remote.event_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }

    /// Polls for completions until `until`, without sleeping. Returns whether there are any.
    fn spin_until(&mut self, until: Instant) -> bool {
        loop {
            if !self.ring.completion().is_empty() || self.remote.pending() {
                return true;
            }
            if self.ring.submission().taskrun() {
                self.enter(0, None);
                continue;
            }
            if self.now() >= until {
                return false;
            }
            for _ in 0..8 {
                std::hint::spin_loop();
            }
        }
    }

    fn scratch(&mut self, key: usize) -> &mut Scratch {
        while self.scratch.len() <= key {
            // SAFETY: an all-zero msghdr is a valid empty one.
            let msg = unsafe { std::mem::zeroed() };
            let addr = SocketAddr::from(([0, 0, 0, 0], 0)).into();
            self.scratch.push(Box::new(Scratch {
                msg,
                iov: Vec::new(),
                addr,
            }));
        }
        &mut self.scratch[key]
    }

    // tidy: flat dispatch
    fn entry(&mut self, key: usize, op: &mut Op) -> squeue::Entry {
        match op {
            Op::Accept { socket, .. } => {
                let fd = types::Fd(socket.fd());
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            Op::Connect { socket, addr } => {
                let fd = types::Fd(socket.fd());
                let s = self.scratch(key);
                s.addr = (*addr).into();
                opcode::Connect::new(fd, s.addr.as_ptr().cast(), s.addr.len()).build()
            }
            Op::Recv {
                socket,
                direct,
                staging,
                poll_first,
            } => {
                let fd = types::Fd(socket.fd());
                let ioprio = if *poll_first { POLL_FIRST } else { 0 };
                let tail = staging.tail();
                let (tail_ptr, tail_len) = (tail.as_mut_ptr(), tail.len());
                let Some((buf, at)) = direct else {
                    let len = u32::try_from(tail_len).unwrap_or(u32::MAX);
                    return opcode::Recv::new(fd, tail_ptr, len).ioprio(ioprio).build();
                };
                let rest = &mut buf[*at..];
                let direct_iov = libc::iovec {
                    iov_base: rest.as_mut_ptr().cast(),
                    iov_len: rest.len(),
                };
                let s = self.scratch(key);
                s.iov.clear();
                s.iov.push(direct_iov);
                s.iov.push(libc::iovec {
                    iov_base: tail_ptr.cast(),
                    iov_len: tail_len,
                });
                s.point();
                opcode::RecvMsg::new(fd, &raw mut s.msg)
                    .ioprio(ioprio)
                    .build()
            }
            Op::Send {
                socket,
                batch,
                sent,
            } => {
                let fd = types::Fd(socket.fd());
                let s = self.scratch(key);
                s.iov.clear();
                s.iov
                    .extend(batch.segments(*sent, SEND_SEGMENTS_MAX).map(|(ptr, len)| {
                        libc::iovec {
                            iov_base: ptr.cast_mut().cast(),
                            iov_len: len,
                        }
                    }));
                s.point();
                let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
                opcode::SendMsg::new(fd, &raw const s.msg)
                    .flags(flags)
                    .build()
            }
            Op::Readable { source } => {
                let fd = types::Fd(source.as_raw_fd());
                opcode::PollAdd::new(fd, libc::POLLIN as u32).build()
            }
            Op::Read {
                disk,
                buf,
                done,
                offset,
            } => {
                let rest = &mut buf[*done..];
                let len = u32::try_from(rest.len()).expect("a buffer is small");
                let at = *offset + *done as u64;
                opcode::Read::new(types::Fd(disk.linux().fd()), rest.as_mut_ptr(), len)
                    .offset(at)
                    .build()
            }
            Op::Write {
                disk,
                data,
                offset,
                dsync,
            } => {
                let len = u32::try_from(data.len()).expect("a buffer is small");
                let flags = if *dsync { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(types::Fd(disk.linux().fd()), data.as_ptr(), len)
                    .offset(*offset)
                    .rw_flags(flags)
                    .build()
            }
            Op::Flush { disk } => opcode::Fsync::new(types::Fd(disk.linux().fd()))
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            Op::Zero {
                disk,
                offset,
                len,
                deallocate,
            } => {
                let mode = if *deallocate {
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE
                } else {
                    libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE
                };
                opcode::Fallocate::new(types::Fd(disk.linux().fd()), *len)
                    .offset(*offset)
                    .mode(mode)
                    .build()
            }
        }
    }
}

impl Scratch {
    fn point(&mut self) {
        self.msg.msg_iov = self.iov.as_mut_ptr();
        self.msg.msg_iovlen = self.iov.len();
    }
}

impl Driver for UringDriver {
    fn push(&mut self, key: usize, ops: &mut OpTable) {
        if let Some(result) = memory::carry_out(ops.get_mut(key)) {
            let outcome = Outcome {
                result,
                more: false,
            };
            self.carried_out.push(Completion { key, outcome });
            return;
        }
        let entry = self.entry(key, ops.get_mut(key)).user_data(key as u64);
        self.push_entry(&entry);
        match ops.get_mut(key) {
            Op::Read { buf, .. } => self.count_transfer(buf.len()),
            Op::Write { data, .. } => self.count_transfer(data.len()),
            _ => {}
        }
    }

    fn cancel(&mut self, key: usize) {
        self.push_entry(
            &opcode::AsyncCancel::new(key as u64)
                .build()
                .user_data(CANCEL),
        );
    }

    fn wait(&mut self, wait: Wait, _: &mut OpTable, done: &mut Vec<Completion>) -> bool {
        if wait == Wait::Poll || !self.carried_out.is_empty() {
            self.enter(0, None);
            self.reap(done);
            return true;
        }
        // The length of a wait is needed only for spinning; otherwise the clock is not read.
        let spins = !self.spin.max.is_zero();
        let start = spins.then(monotonic);
        if let Some(start) = start
            && self.spin.worth_it()
        {
            self.enter(0, None);
            let limit = start + self.spin.max;
            let limit = match wait {
                Wait::Until(at) => at.min(limit),
                _ => limit,
            };
            if self.spin_until(limit) {
                let (n, _) = self.reap(done);
                self.spin.arrived(monotonic().since(start), n);
                return true;
            }
        }
        if !self.remote.going_to_sleep() {
            self.enter(0, None);
            self.reap(done);
            return true;
        }
        let left = match wait {
            Wait::Until(at) if !self.arm_timer(at) => Some(at.since(monotonic())),
            _ => None,
        };
        self.calls.sleeps += 1;
        self.enter(1, left);
        self.remote.awake();
        let (n, fired) = self.reap(done);
        if let Some(start) = start {
            self.spin.arrived(monotonic().since(start), n);
        }
        fired || left.is_some()
    }

    fn kernel_calls(&self) -> KernelCalls {
        self.calls
    }

    fn rounds(&self) -> usize {
        READY_ROUNDS_MAX
    }

    fn now(&self) -> Instant {
        monotonic()
    }

    fn wall_clock_ms(&self) -> u64 {
        wall_clock_ms()
    }

    fn random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }
}

/// The time on the clock that all real runtimes share.
pub(crate) fn monotonic() -> Instant {
    let t = clock(libc::CLOCK_MONOTONIC);
    Instant(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs())
}

/// Milliseconds since 1970-01-01 UTC.
pub(crate) fn wall_clock_ms() -> u64 {
    let t = clock(libc::CLOCK_REALTIME);
    t.tv_sec.unsigned_abs() * 1000 + t.tv_nsec.unsigned_abs() / 1_000_000
}

/// Fills `out` with random bytes of the kernel, for callers outside of a runtime.
pub(crate) fn random(out: &mut [u8]) {
    RandomPool::default().fill(out);
}

fn clock(id: libc::clockid_t) -> libc::timespec {
    // SAFETY: fills a local timespec.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(id, &mut t);
        t
    }
}

/// Decides whether to poll before sleeping: only while completions follow each other closely and are few at a time. Noticing
/// a full batch earlier gains nothing.
struct Spin {
    max: Duration,
    gap_ns: u64,
    batch_x16: u64,
}

impl Spin {
    /// Mean completions per wait from which work is limited by throughput, so that a sleep adds no latency.
    const BATCH_MAX: u64 = 4;

    fn new(max: Duration) -> Spin {
        Spin {
            max,
            gap_ns: u64::MAX / 16,
            batch_x16: 16,
        }
    }

    fn worth_it(&self) -> bool {
        u128::from(self.gap_ns) < self.max.as_nanos() && self.batch_x16 < Self::BATCH_MAX * 16
    }

    /// Updates the moving averages (over about eight waits) with a wait of `gap` that ended with `n` completions.
    fn arrived(&mut self, gap: Duration, n: usize) {
        let cap = u64::try_from(self.max.as_nanos()).unwrap_or(u64::MAX / 16) * 4;
        let gap = u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX).min(cap);
        self.gap_ns = (self.gap_ns.min(cap) * 7 + gap) / 8;
        self.batch_x16 = (self.batch_x16 * 7 + 16 * n as u64) / 8;
    }
}

/// Random bytes of the kernel, fetched in blocks of 256.
#[derive(Default)]
struct RandomPool {
    bytes: Vec<u8>,
}

impl RandomPool {
    fn fill(&mut self, out: &mut [u8]) {
        for b in out {
            if self.bytes.is_empty() {
                self.refill();
            }
            *b = self.bytes.pop().expect("just refilled");
        }
    }

    fn refill(&mut self) {
        let mut page = vec![0u8; 256];
        // SAFETY: writes at most 256 bytes into the vector; requests of up to 256 bytes are never cut short.
        let n = unsafe { libc::getrandom(page.as_mut_ptr().cast(), page.len(), 0) };
        assert_eq!(
            n,
            256,
            "getrandom: {}",
            Error::from(std::io::Error::last_os_error())
        );
        self.bytes = page;
    }
}
