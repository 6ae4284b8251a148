//! Registration of memory where the process may lock little: a library of which only the registration exists, and which counts locked bytes
//! as the kernel does.

use super::*;
use crate::buf::BufPool;
use crate::linux::verbs::abi::{Srq, SrqInitAttr};
use crate::linux::verbs::request::{Held, prepare, returned};
use crate::linux::verbs::shared::SharedReceives;
use crate::rdma::{QueuePairConfig, Remote, Returned, Verb};
use libc::{c_int, c_void};
use std::cell::Cell;
use std::ptr::null_mut;

/// A limit of locked memory; the protection domain of the device points to it.
struct Limit {
    limit: usize,
    locked: Cell<usize>,
    next_key: Cell<u32>,
}

/// A registration with what it has locked.
#[repr(C)]
struct Locked {
    mr: Mr,
    of: *const Limit,
    len: usize,
}

// SAFETY: called as the library's function, with the domain of `device` below.
unsafe extern "C" fn register(pd: *mut Pd, _: *mut c_void, len: usize, _: c_int) -> *mut Mr {
    let of = pd.cast::<Limit>().cast_const();
    // SAFETY: the domain points to the limit, which is never freed.
    let limit = unsafe { &*of };
    if limit.locked.get() + len > limit.limit {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return null_mut();
    }
    limit.locked.set(limit.locked.get() + len);
    limit.next_key.set(limit.next_key.get() + 1);
    // SAFETY: pointers and numbers may be zero.
    let mut mr: Mr = unsafe { std::mem::zeroed() };
    mr.lkey = limit.next_key.get();
    Box::into_raw(Box::new(Locked { mr, of, len })).cast()
}

// SAFETY: called as the library's function, with a registration of `register`.
unsafe extern "C" fn deregister(mr: *mut Mr) -> c_int {
    // SAFETY: `register` has made it from a box, and it ends once.
    let locked = unsafe { Box::from_raw(mr.cast::<Locked>()) };
    // SAFETY: the limit is never freed.
    let limit = unsafe { &*locked.of };
    limit.locked.set(limit.locked.get() - locked.len);
    0
}

// SAFETY: called as the library's function; it uses nothing.
unsafe extern "C" fn refuse_shared(_: *mut Pd, _: *mut SrqInitAttr) -> *mut Srq {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::EINVAL };
    null_mut()
}

/// A device of a process that may lock `limit` bytes.
fn device(limit: usize) -> (Arc<RdmaDevice>, &'static Limit) {
    let limit: &'static Limit = Box::leak(Box::new(Limit {
        limit,
        locked: Cell::new(0),
        next_key: Cell::new(0),
    }));
    let library = Library {
        ibv_reg_mr: register,
        ibv_dereg_mr: deregister,
        ibv_create_srq: refuse_shared,
        ..Library::without_functions()
    };
    let device = RdmaDevice {
        library: Box::leak(Box::new(library)),
        pd: std::ptr::from_ref(limit).cast_mut().cast(),
        name: "small0".to_owned(),
        has_told: AtomicBool::new(false),
        has_told_shared: AtomicBool::new(false),
        told: Arc::default(),
    };
    (Arc::new(device), limit)
}

fn write(pool: &BufPool, len: usize) -> Verb {
    let data = pool.try_alloc(len).expect("the pool has room").into();
    let to = Remote::NOWHERE;
    Verb::Write { data, to }
}

fn read(pool: &BufPool, len: usize) -> Verb {
    let into = pool.try_alloc(len).expect("the pool has room");
    let from = Remote::NOWHERE;
    Verb::Read { into, at: 0, from }
}

/// The key of a request, and its memory.
fn prepared(device: &Arc<RdmaDevice>, work: Verb) -> (u32, Held) {
    let Ok((_, element, held)) = prepare(device, 1, work) else {
        panic!("its memory can be registered")
    };
    (element.lkey, held)
}

#[test]
fn a_slab_is_registered_once() {
    let (device, limit) = device(usize::MAX);
    let pool = BufPool::new(4 << 20);
    let (first, a) = prepared(&device, write(&pool, 65_536));
    let (second, b) = prepared(&device, read(&pool, 65_536));
    assert_eq!(first, second, "both are in one slab");
    assert_eq!(limit.locked.get(), 1 << 20);
    drop((returned(a), returned(b)));
    assert_eq!(limit.locked.get(), 1 << 20, "the slab stays registered");
}

/// Without room for a slab, each buffer is registered as long as its request lasts; without room for a buffer, its request fails and
/// gives the buffer back.
#[test]
fn buffers_are_registered_alone_where_a_slab_cannot_be() {
    let before = locked_memory().refused;
    let (device, limit) = device(256 << 10);
    let pool = BufPool::new(4 << 20);
    let (first, a) = prepared(&device, write(&pool, 65_536));
    let (second, b) = prepared(&device, read(&pool, 131_072));
    assert_ne!(first, second);
    assert_eq!(limit.locked.get(), 65_536 + 131_072);
    let refused = prepare(&device, 1, read(&pool, 131_072));
    assert!(matches!(refused, Err(Returned::Buffer(_))));
    drop(refused);
    assert!(prepare(&device, 1, write(&pool, 131_072)).is_err());
    drop(returned(a));
    let (_, c) = prepared(&device, write(&pool, 65_536));
    drop((returned(b), returned(c)));
    assert_eq!(limit.locked.get(), 0);
    assert_eq!(pool.stats().used, 0);
    assert!(device.has_told.load(Ordering::Relaxed), "it was logged");
    assert!(locked_memory().refused >= before + 7, "each one is counted");
}

#[test]
fn receives_that_cannot_be_locked_are_refused() {
    let (device, limit) = device(256 << 10);
    let area = Area::new(&device, 32, 4160).expect("it is small enough");
    assert_eq!(limit.locked.get(), 32 * 4160 + 32 * 4160 % 4096);
    let more = Area::new(&device, 128, 4160).map(drop);
    assert!(matches!(more, Err(Error::Exhausted(_))), "{more:?}");
    drop(area);
    assert_eq!(limit.locked.get(), 0);
}

/// More shared receives than the device can have are no other failure than a device without resources, whose connection requests are
/// rejected; the setting is named once.
#[test]
fn shared_receives_that_the_device_refuses_are_told() {
    let (device, limit) = device(usize::MAX);
    let config = QueuePairConfig {
        shared_receives: 16_384,
        ..QueuePairConfig::default()
    };
    assert!(!device.has_told_shared.load(Ordering::Relaxed));
    for _ in 0..2 {
        let refused = SharedReceives::of(&device, &config).map(drop);
        assert!(matches!(refused, Err(Error::Exhausted(_))), "{refused:?}");
        assert_eq!(limit.locked.get(), 0, "no receive stays locked");
    }
    assert!(
        device.has_told_shared.load(Ordering::Relaxed),
        "it was logged"
    );
}
