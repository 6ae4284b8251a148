//! Set-up calls of sockets; the data path goes through the ring.

use crate::limits::{LISTEN_BACKLOG, PRIVILEGED_CLIENT_PORT_FIRST, PRIVILEGED_PORTS};
use crate::net::{TcpInfo, TcpOptions};
use crate::{Error, Result};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

fn socket(addr: SocketAddr) -> Result<Socket> {
    Ok(Socket::new(
        Domain::for_address(addr),
        Type::STREAM.cloexec(),
        Some(Protocol::TCP),
    )?)
}

/// Opens a listening socket. Returns it and its address.
pub(crate) fn bind(addr: SocketAddr) -> Result<(OwnedFd, SocketAddr)> {
    let s = socket(addr)?;
    s.set_reuse_address(true)?;
    if addr.is_ipv6() {
        s.set_only_v6(false)?;
    }
    s.bind(&addr.into())?;
    s.listen(LISTEN_BACKLOG)?;
    let local = s
        .local_addr()?
        .as_socket()
        .ok_or(Error::Os(libc::EAFNOSUPPORT))?;
    Ok((s.into(), local))
}

/// Creates a socket that can be connected to `addr`.
pub(crate) fn new_stream(addr: SocketAddr) -> Result<OwnedFd> {
    Ok(socket(addr)?.into())
}

/// Binds a socket to a free privileged port, for a connection to `addr`. Errors: `Denied`, `Busy` if none is free.
pub(crate) fn bind_privileged(fd: &OwnedFd, addr: SocketAddr) -> Result<()> {
    let ip: IpAddr = match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let count = PRIVILEGED_PORTS - PRIVILEGED_CLIENT_PORT_FIRST;
    let first = (crate::rng::u64() % u64::from(count)) as u16;
    for step in 0..count {
        let port = PRIVILEGED_CLIENT_PORT_FIRST + (first + step) % count;
        match SockRef::from(fd).bind(&SocketAddr::new(ip, port).into()) {
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => {}
            other => return Ok(other?),
        }
    }
    Err(Error::Busy(libc::EADDRINUSE))
}

pub(crate) fn peer_addr(fd: &OwnedFd) -> Result<SocketAddr> {
    SockRef::from(fd)
        .peer_addr()?
        .as_socket()
        .ok_or(Error::Os(libc::EAFNOSUPPORT))
}

pub(crate) fn local_addr(fd: &OwnedFd) -> Result<SocketAddr> {
    SockRef::from(fd)
        .local_addr()?
        .as_socket()
        .ok_or(Error::Os(libc::EAFNOSUPPORT))
}

pub(crate) fn shutdown(fd: &OwnedFd) {
    // ENOTCONN: both directions are already closed, which is the goal.
    let _ = SockRef::from(fd).shutdown(Shutdown::Both);
}

/// Interval of probes to a silent peer (TCP_KEEPINTVL).
const KEEP_ALIVE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);

/// Checks that this process may use a congestion control. Errors: `NotFound` if the kernel does not have it, `Denied` if it
/// is not in net.ipv4.tcp_allowed_congestion_control.
pub fn check_congestion(name: &str) -> Result<()> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket(any)?.set_tcp_congestion(name.as_bytes())?;
    Ok(())
}

pub(crate) fn set_options(fd: &OwnedFd, o: &TcpOptions) -> Result<()> {
    let s = SockRef::from(fd);
    s.set_tcp_nodelay(true)?;
    if let Some(t) = o.user_timeout {
        s.set_tcp_user_timeout(Some(t))?;
    }
    if let Some(idle) = o.keep_alive {
        let probes = socket2::TcpKeepalive::new()
            .with_time(idle)
            .with_interval(KEEP_ALIVE_INTERVAL);
        s.set_tcp_keepalive(&probes)?;
    }
    if let Some(n) = o.send_buffer {
        s.set_send_buffer_size(n)?;
    }
    if let Some(n) = o.recv_buffer {
        s.set_recv_buffer_size(n)?;
    }
    if let Some(name) = &o.congestion {
        s.set_tcp_congestion(name.as_bytes())?;
    }
    if o.abort_on_close {
        s.set_linger(Some(std::time::Duration::ZERO))?;
    }
    Ok(())
}

/// Reads the kernel's statistics of a connection. Source: tcp(7), `struct tcp_info` of linux/tcp.h.
pub(crate) fn tcp_info(fd: &OwnedFd) -> Result<TcpInfo> {
    // SAFETY: an all-zero tcp_info is valid, and the kernel writes at most `len` bytes into it.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut len = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
        let at = (&raw mut info).cast();
        if libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            at,
            &raw mut len,
        ) != 0
        {
            return Err(std::io::Error::last_os_error().into());
        }
        info
    };
    let congestion = SockRef::from(fd).tcp_congestion().unwrap_or_default();
    let name = congestion.split(|b| *b == 0).next().unwrap_or_default();
    Ok(TcpInfo {
        mss: info.tcpi_snd_mss,
        path_mtu: info.tcpi_pmtu,
        rtt_us: info.tcpi_rtt,
        // without a sample it is the largest number; kernels before 4.6 have none
        rtt_min_us: Some(info.tcpi_min_rtt)
            .filter(|us| *us != u32::MAX)
            .unwrap_or(0),
        rtt_var_us: info.tcpi_rttvar,
        retransmits: info.tcpi_total_retrans,
        congestion: String::from_utf8_lossy(name).into_owned(),
    })
}
