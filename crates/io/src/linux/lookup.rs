//! Addresses of host names, by the system's resolver, with the difference between "there is no such name" and "no answer".
//!
//! **Called by** helper threads: a lookup blocks until the resolver gives up. The standard library has the same lookup, but hides
//! the resolver's code. getaddrinfo(3).

use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// `EAI_NODATA` of glibc: the name exists and has no address.
const EAI_NODATA: i32 = -5;

/// Why a lookup returned no addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// The resolver answered: no host has this name.
    NoSuchName,
    /// The resolver has no answer now, for this reason.
    NoAnswer(String),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LookupError::NoSuchName => "no host has this name",
            LookupError::NoAnswer(reason) => reason,
        })
    }
}

/// The addresses of the host with this name. Blocks. Errors: see [`LookupError`].
pub fn addresses_of(name: &str) -> Result<Vec<IpAddr>, LookupError> {
    let name = CString::new(name).map_err(|_| LookupError::NoSuchName)?;
    // SAFETY: all zeroes are valid hints: any family, no flags, null pointers.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: the name ends with a zero byte, the hints are initialised, and the result is a local pointer.
    let code =
        unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    match code {
        0 => {}
        libc::EAI_NONAME | EAI_NODATA => return Err(LookupError::NoSuchName),
        libc::EAI_SYSTEM => {
            let error = std::io::Error::last_os_error();
            return Err(LookupError::NoAnswer(error.to_string()));
        }
        code => {
            // SAFETY: the function returns a constant string that ends with a zero byte.
            let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            return Err(LookupError::NoAnswer(text.to_string_lossy().into_owned()));
        }
    }
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: a non-null element of the list that the call returned and that is not freed yet.
        let entry = unsafe { &*at };
        // SAFETY: the address of an entry has the type that its family names.
        found.extend(unsafe { address_of(entry) });
        at = entry.ai_next;
    }
    // SAFETY: the list came from getaddrinfo and is freed once.
    unsafe { libc::freeaddrinfo(list) };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The number of the network interface with this name or number, if this machine has it.
pub fn interface_index(zone: &str) -> Option<u32> {
    let name = CString::new(zone).ok()?;
    // SAFETY: the name ends with a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => zone.parse().ok().filter(|index| *index != 0),
        index => Some(index),
    }
}

/// # Safety
/// `entry` must be an entry that getaddrinfo(3) returned.
unsafe fn address_of(entry: &libc::addrinfo) -> Option<IpAddr> {
    match entry.ai_family {
        libc::AF_INET => {
            let address = entry.ai_addr.cast::<libc::sockaddr_in>();
            // SAFETY: the family says that this is a `sockaddr_in`; it may be unaligned.
            let address = unsafe { ptr::read_unaligned(address) };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            let address = entry.ai_addr.cast::<libc::sockaddr_in6>();
            // SAFETY: the family says that this is a `sockaddr_in6`; it may be unaligned.
            let address = unsafe { ptr::read_unaligned(address) };
            Some(IpAddr::from(Ipv6Addr::from(address.sin6_addr.s6_addr)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_their_own_names() {
        for text in ["127.0.0.1", "192.0.2.7", "2001:db8::7"] {
            assert_eq!(
                addresses_of(text),
                Ok(vec![text.parse().unwrap()]),
                "{text}"
            );
        }
        assert_eq!(addresses_of("a\0b"), Err(LookupError::NoSuchName));
    }
}
