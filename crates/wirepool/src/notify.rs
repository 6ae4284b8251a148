//! Notification of the service manager that the server is ready (sd_notify(3)).
//!
//! **Called by** `serve`, once. **Invariants**: without `NOTIFY_SOCKET` nothing happens.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports that the server is ready. Errors: the socket in `NOTIFY_SOCKET` does not take the message.
pub(crate) fn ready() -> std::io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(name) => send(&name, b"READY=1\nSTATUS=serving"),
        None => Ok(()),
    }
}

/// Sends to a path, or with `@` before it to an abstract name.
fn send(name: &OsStr, message: &[u8]) -> std::io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(message, &address)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_paths_and_abstract_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("wirepool-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&address)),
        ];
        for (name, socket) in sockets {
            let socket = socket.expect("bound");
            send(&name, b"READY=1").expect("sent");
            let mut message = [0; 16];
            let len = socket.recv(&mut message).expect("received");
            assert_eq!(&message[..len], b"READY=1");
        }
        assert!(send(dir.path().join("none").as_os_str(), b"READY=1").is_err());
    }
}
