//! Socket diagnostics: congestion control of other sockets of this machine (sock_diag(7)).
//!
//! **Called by** the lab, which compares both ends of a connection. **Invariants**: the other process is not
//! involved, so this works for every server on this machine, under any user; unavailable information is `None`.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// NETLINK_SOCK_DIAG of linux/netlink.h.
const SOCK_DIAG: i32 = 4;
/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// NLMSG_ERROR and NLMSG_DONE.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// NLM_F_REQUEST and NLM_F_DUMP.
const REQUEST: u16 = 0x1;
const DUMP: u16 = 0x300;
/// TCP_ESTABLISHED, as a bit of a mask of states.
const ESTABLISHED: u32 = 1 << 1;
/// INET_DIAG_CONG of linux/inet_diag.h.
const CONGESTION: u16 = 4;
/// Bytes of `nlmsghdr` and `inet_diag_msg`.
const HEADER_LEN: usize = 16;
const MESSAGE_LEN: usize = 72;
/// Time limit of the kernel's answer.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Most messages read for one answer.
const READS_MAX: usize = 1024;

/// Returns the congestion controls under which a server sends from `local`: those of this machine's established connections
/// with this local address, sorted and joined by `/`. `None` if there is no such connection, or the kernel does not answer.
#[must_use]
pub fn congestion_at(local: SocketAddr) -> Option<String> {
    let mut names = BTreeSet::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // A socket of both families keeps IPv4 addresses mapped into IPv6.
        names.append(&mut ask(family as u8, local).ok()?);
    }
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join("/"))
}

fn ask(family: u8, local: SocketAddr) -> std::io::Result<BTreeSet<String>> {
    let socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::DGRAM,
        Some(Protocol::from(SOCK_DIAG)),
    )?;
    socket.set_read_timeout(Some(WAIT_MAX))?;
    socket.send(&request(family, local.port()))?;
    let mut names = BTreeSet::new();
    let mut buf = vec![0; 32 << 10];
    for _ in 0..READS_MAX {
        let n = (&socket).read(&mut buf)?;
        if !take(&buf[..n], local.ip(), &mut names) {
            break;
        }
    }
    Ok(names)
}

/// A request (`nlmsghdr` and `inet_diag_req_v2`) for established connections with this local port, with their congestion
/// control.
fn request(family: u8, port: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(72);
    out.extend(72u32.to_ne_bytes());
    out.extend(BY_FAMILY.to_ne_bytes());
    out.extend((REQUEST | DUMP).to_ne_bytes());
    out.extend([0; 8]);
    out.extend([family, libc::IPPROTO_TCP as u8, 1 << (CONGESTION - 1), 0]);
    out.extend(ESTABLISHED.to_ne_bytes());
    out.extend(port.to_be_bytes());
    out.extend([0; 2 + 16 + 16 + 4]);
    out.extend([0xff; 8]);
    out
}

/// Adds the names in one datagram to `names`. Returns whether more datagrams follow.
fn take(mut bytes: &[u8], local: IpAddr, names: &mut BTreeSet<String>) -> bool {
    while bytes.len() >= HEADER_LEN {
        let len = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        if matches!(kind, ERROR | DONE) || len < HEADER_LEN || len > bytes.len() {
            return false;
        }
        if let Some(name) = congestion(&bytes[HEADER_LEN..len], local) {
            names.insert(name);
        }
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    true
}

/// The congestion control of one `inet_diag_msg` whose local address is `local`.
fn congestion(message: &[u8], local: IpAddr) -> Option<String> {
    let source = message.get(8..24)?;
    let found = match i32::from(message[0]) {
        libc::AF_INET => IpAddr::from(*source.first_chunk::<4>()?),
        _ => IpAddr::from(*source.first_chunk::<16>()?),
    };
    if found.to_canonical() != local.to_canonical() {
        return None;
    }
    let mut attributes = message.get(MESSAGE_LEN..)?;
    loop {
        let (len, rest) = attributes.split_first_chunk::<2>()?;
        let (kind, value) = rest.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_ne_bytes(*len));
        if u16::from_ne_bytes(*kind) == CONGESTION {
            let text = value.get(..len.checked_sub(4)?)?;
            let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
            return Some(String::from_utf8_lossy(&text[..end]).into_owned());
        }
        attributes = attributes.get(len.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn pair(listen: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).expect("bind");
        let at = SocketAddr::new(
            "127.0.0.1".parse().expect("valid"),
            listener.local_addr().expect("bound").port(),
        );
        let near = TcpStream::connect(at).expect("connect");
        (near, listener.accept().expect("accept").0)
    }

    #[test]
    fn the_congestion_control_of_the_remote_end_is_found() {
        let (near, far) = pair("127.0.0.1:0");
        // Every kernel has this one, and every process may use it.
        socket2::SockRef::from(&far)
            .set_tcp_congestion(b"reno")
            .expect("reno is there");
        let server = near.peer_addr().expect("connected");
        assert_eq!(congestion_at(server).as_deref(), Some("reno"));
        drop((near, far));
        let nobody = SocketAddr::new(server.ip(), 1);
        assert_eq!(congestion_at(nobody), None);
    }

    #[test]
    fn truncated_or_invalid_answers_give_no_name() {
        let local = "127.0.0.1".parse().expect("valid");
        let mut message = vec![0; MESSAGE_LEN];
        message[0] = libc::AF_INET as u8;
        message[8..12].copy_from_slice(&[127, 0, 0, 1]);
        let attribute =
            |len: u16| [&len.to_ne_bytes()[..], &CONGESTION.to_ne_bytes(), b"bbr\0"].concat();
        let whole = [message.clone(), attribute(8)].concat();
        assert_eq!(congestion(&whole, local).as_deref(), Some("bbr"));
        for len in [0, 3, 9, u16::MAX] {
            let lie = [message.clone(), attribute(len)].concat();
            assert_eq!(congestion(&lie, local), None, "{len}");
        }
        for end in 0..whole.len() - 4 {
            assert_eq!(congestion(&whole[..end], local), None, "{end}");
        }
        let other = "127.0.0.2".parse().expect("valid");
        assert_eq!(congestion(&whole, other), None);
    }
}
