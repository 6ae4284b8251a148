//! rdma-core, loaded at run time.
//!
//! **Owns** the functions of `libibverbs.so.1` and `librdmacm.so.1`. **Called by** the modules beside this one. **Invariants**: a machine
//! without rdma-core has RDMA nowhere and everything else works; the libraries are never unloaded, so their functions stay valid.

use super::abi::{
    AsyncEvent, CmEvent, CmId, CompChannel, ConnParam, Context, Cq, EventChannel, Mr, Pd, Qp,
    QpAttr, QpInitAttr, Srq, SrqAttr, SrqInitAttr,
};
use crate::rdma::NoRdma;
use crate::{Error, Result};
use libc::{c_char, c_int, c_uint, c_void, sockaddr};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Declares the functions of both libraries, and their loading by name.
macro_rules! functions {
    ($($library:ident { $($name:ident($($arg:ty),*) $(-> $ret:ty)?;)* })*) => {
        /// The functions.
        #[derive(Clone, Copy)]
        pub(super) struct Library {
            // SAFETY: types; each call says why it is sound.
            $($(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*)*
        }

        impl Library {
            /// A library of which each call ends the process.
            #[cfg(test)]
            pub(super) fn without_functions() -> Library {
                // SAFETY: a type; nothing is done before the process ends.
                unsafe extern "C" fn missing() {
                    std::process::abort()
                }
                Library {
                    $($(
                        // SAFETY: the function takes no argument and never returns.
                        $name: unsafe {
                            std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn($($arg),*) $(-> $ret)?>(missing)
                        },
                    )*)*
                }
            }

            /// Looks all functions up. Errors: the first one that is missing.
            fn load($($library: *mut c_void),*) -> std::result::Result<Library, NoRdma> {
                $($(
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library is loaded, and the name ends with a zero.
                    let $name = unsafe { libc::dlsym($library, name.as_ptr().cast()) };
                    if $name.is_null() {
                        return Err(NoRdma::OldLibrary(stringify!($name)));
                    }
                )*)*
                Ok(Library {
                    $($(
                        // SAFETY: the function has this type in rdma-core's headers, and is not null.
                        $name: unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>($name)
                        },
                    )*)*
                })
            }
        }
    };
}

functions! {
    ibverbs {
        ibv_alloc_pd(*mut Context) -> *mut Pd;
        ibv_reg_mr(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
        ibv_dereg_mr(*mut Mr) -> c_int;
        ibv_create_comp_channel(*mut Context) -> *mut CompChannel;
        ibv_destroy_comp_channel(*mut CompChannel) -> c_int;
        ibv_create_cq(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
        ibv_destroy_cq(*mut Cq) -> c_int;
        ibv_get_cq_event(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events(*mut Cq, c_uint);
        ibv_get_async_event(*mut Context, *mut AsyncEvent) -> c_int;
        ibv_ack_async_event(*mut AsyncEvent);
        ibv_create_srq(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
        ibv_modify_srq(*mut Srq, *mut SrqAttr, c_int) -> c_int;
        ibv_destroy_srq(*mut Srq) -> c_int;
        ibv_modify_qp(*mut Qp, *mut QpAttr, c_int) -> c_int;
        ibv_query_qp(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
    }
    rdmacm {
        rdma_create_event_channel() -> *mut EventChannel;
        rdma_destroy_event_channel(*mut EventChannel);
        rdma_create_id(*mut EventChannel, *mut *mut CmId, *mut c_void, c_int) -> c_int;
        rdma_destroy_id(*mut CmId) -> c_int;
        rdma_bind_addr(*mut CmId, *mut sockaddr) -> c_int;
        rdma_listen(*mut CmId, c_int) -> c_int;
        rdma_resolve_addr(*mut CmId, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
        rdma_resolve_route(*mut CmId, c_int) -> c_int;
        rdma_create_qp(*mut CmId, *mut Pd, *mut QpInitAttr) -> c_int;
        rdma_destroy_qp(*mut CmId);
        rdma_connect(*mut CmId, *mut ConnParam) -> c_int;
        rdma_accept(*mut CmId, *mut ConnParam) -> c_int;
        rdma_reject(*mut CmId, *const c_void, u8) -> c_int;
        rdma_disconnect(*mut CmId) -> c_int;
        rdma_migrate_id(*mut CmId, *mut EventChannel) -> c_int;
        rdma_get_cm_event(*mut EventChannel, *mut *mut CmEvent) -> c_int;
        rdma_ack_cm_event(*mut CmEvent) -> c_int;
    }
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// The functions of rdma-core. Errors: `Unsupported` if it is not installed, or too old.
pub(super) fn library() -> Result<&'static Library> {
    load().map_err(|_| Error::Unsupported(libc::EOPNOTSUPP))
}

/// The functions of rdma-core. Errors: the reason why they cannot be loaded; a later call tries again.
pub(super) fn load() -> std::result::Result<&'static Library, NoRdma> {
    if let Some(loaded) = LIBRARY.get() {
        return Ok(loaded);
    }
    let loaded = Library::load(open(c"libibverbs.so.1")?, open(c"librdmacm.so.1")?)?;
    Ok(LIBRARY.get_or_init(|| loaded))
}

fn open(name: &CStr) -> std::result::Result<*mut c_void, NoRdma> {
    // SAFETY: loads a library by name; its initialisers are those of rdma-core.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: the message of the failure belongs to this thread until its next call of the loader.
    let message: *const c_char = unsafe { libc::dlerror() };
    let text = match message.is_null() {
        true => name.to_string_lossy(),
        // SAFETY: a message is text that ends with a zero.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy(),
    };
    Err(NoRdma::NoLibrary(text.into_owned()))
}

/// The result of a call that returns -1 and sets `errno`.
pub(super) fn check(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// The result of a call that returns null and sets `errno`.
pub(super) fn check_pointer<T>(pointer: *mut T) -> Result<*mut T> {
    match pointer.is_null() {
        false => Ok(pointer),
        true => Err(std::io::Error::last_os_error().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without rdma-core, and one whose rdma-core lacks a function: the reason names it with the remedy. The C library stands for
    /// a library that is there and lacks all functions.
    #[test]
    fn a_missing_and_an_old_library_are_told() {
        let missing = open(c"libwirepool-none.so.1").expect_err("there is none");
        let said = missing.to_string();
        assert!(matches!(missing, NoRdma::NoLibrary(_)), "{said}");
        for words in ["libwirepool-none.so.1", "install libibverbs1"] {
            assert!(said.contains(words), "{said}");
        }
        let other = open(c"libc.so.6").expect("the library of this program");
        let old = Library::load(other, other).map(drop).expect_err("too old");
        assert_eq!(old, NoRdma::OldLibrary("ibv_alloc_pd"));
        assert!(old.to_string().contains("version 15 or later"), "{old}");
    }
}
