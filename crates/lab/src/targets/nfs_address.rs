//! Addresses of files: `nfs://HOST[:PORT]/PATH/FILE`, and `nfs-rdma://` for RDMA, with options behind a `?`.
//!
//! **Called by** [`super::address`]. **Invariants**: the text form of an [`Nfs`] parses to the same value.

use super::address_text::resolve_or;
use crate::Result;
use nfs_initiator::NfsTransport;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;

/// Prefix of the addresses of a transport.
fn scheme(transport: NfsTransport) -> &'static str {
    match transport {
        NfsTransport::Tcp => "nfs://",
        NfsTransport::Rdma => "nfs-rdma://",
    }
}

/// The transport of such an address, and the rest of the text; `None` for other addresses.
pub(super) fn transport_of(text: &str) -> Option<(NfsTransport, &str)> {
    let all = [NfsTransport::Tcp, NfsTransport::Rdma].into_iter();
    all.filter_map(|t| Some((t, text.strip_prefix(scheme(t))?)))
        .next()
}

/// The default port (RFC 8881, section 2.9.3; RFC 8267, section 6).
fn default_port(transport: NfsTransport) -> u16 {
    match transport {
        NfsTransport::Tcp => 2049,
        NfsTransport::Rdma => 20049,
    }
}
/// Most connections of a session.
const CONNECTIONS_MAX: u16 = nfs_initiator::limits::CONNECTIONS_MAX;

/// A file served over NFS 4.1 or 4.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nfs {
    /// The transport.
    pub transport: NfsTransport,
    /// Host, with a port other than the transport's default.
    pub host: String,
    /// Path from the server's root on, with the export's.
    pub path: String,
    /// Connections of each job.
    pub connections: u16,
    /// Minor version.
    pub minor: u32,
    /// User and group; those of this process if there are none.
    pub user: Option<(u32, u32)>,
    /// Whether the medium is memory on purpose.
    pub ram: bool,
}

impl Nfs {
    /// A file over TCP, with default options.
    #[must_use]
    pub fn new(host: impl Into<String>, path: impl Into<String>) -> Nfs {
        Nfs {
            transport: NfsTransport::Tcp,
            host: host.into(),
            path: path.into(),
            connections: 1,
            minor: 2,
            user: None,
            ram: false,
        }
    }

    /// The socket address. Errors: `Target` if the name cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr> {
        resolve_or(&self.host, default_port(self.transport))
    }

    /// The directory's path, and the file's name.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.path.rsplit_once('/').unwrap_or(("", &self.path))
    }

    /// User and group of the calls.
    #[must_use]
    pub fn caller(&self) -> (u32, u32) {
        let own = || std::fs::metadata("/proc/self").map(|m| (m.uid(), m.gid()));
        self.user.or_else(|| own().ok()).unwrap_or((0, 0))
    }
}

impl Nfs {
    /// Reads the text behind the scheme. Errors: a sentence for people.
    pub(super) fn parse(transport: NfsTransport, rest: &str) -> std::result::Result<Nfs, String> {
        let expected = || format!("expected {}HOST[:PORT]/PATH/FILE", scheme(transport));
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').ok_or_else(expected)?;
        if host.is_empty() || path.is_empty() || path.ends_with('/') {
            return Err(expected());
        }
        let mut t = Nfs {
            transport,
            ..Nfs::new(host, path)
        };
        let (mut uid, mut gid) = (None, None);
        for word in query.split('&').filter(|w| !w.is_empty()) {
            let (key, value) = word
                .split_once('=')
                .ok_or(format!("expected KEY=VALUE, found {word:?}"))?;
            let number = || {
                let number = value.parse::<u32>();
                number.map_err(|_| format!("expected a number, found {value:?}"))
            };
            match key {
                "connections" => match value.parse() {
                    Ok(n) if (1..=CONNECTIONS_MAX).contains(&n) => t.connections = n,
                    _ => {
                        return Err(format!(
                            "expected 1 to {CONNECTIONS_MAX} connections, found {value:?}"
                        ));
                    }
                },
                "minor" => match value {
                    "1" => t.minor = 1,
                    "2" => t.minor = 2,
                    _ => return Err(format!("expected minor version 1 or 2, found {value:?}")),
                },
                "uid" => uid = Some(number()?),
                "gid" => gid = Some(number()?),
                "medium" if value == "ram" => t.ram = true,
                _ => {
                    return Err(format!(
                        "expected connections, minor, uid, gid or medium=ram, found {word:?}"
                    ));
                }
            }
        }
        t.user = match (uid, gid) {
            (None, None) => None,
            (Some(uid), Some(gid)) => Some((uid, gid)),
            _ => return Err("expected uid=N and gid=N together".into()),
        };
        Ok(t)
    }
}

impl fmt::Display for Nfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = scheme(self.transport);
        write!(f, "{scheme}{}/{}", self.host, self.path)?;
        let mut words = Vec::new();
        if self.connections != 1 {
            words.push(format!("connections={}", self.connections));
        }
        if self.minor != 2 {
            words.push(format!("minor={}", self.minor));
        }
        if let Some((uid, gid)) = self.user {
            words.push(format!("uid={uid}&gid={gid}"));
        }
        if self.ram {
            words.push("medium=ram".into());
        }
        match words.is_empty() {
            true => Ok(()),
            false => write!(f, "?{}", words.join("&")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::targets::Address;

    #[test]
    fn names_survive_being_printed_and_read() {
        for text in [
            "nfs://127.0.0.1/tank/home/disk.img",
            "nfs-rdma://10.0.0.7/tank/home/disk.img?minor=1",
            "nfs://[::1]:2050/f?connections=4&minor=1&uid=0&gid=7&medium=ram",
        ] {
            let a: Address = text.parse().expect(text);
            assert_eq!(a.to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("nfs://h", "expected nfs://HOST"),
            ("nfs://h/", "expected nfs://HOST"),
            ("nfs:///x", "expected nfs://HOST"),
            ("nfs://h/directory/", "expected nfs://HOST"),
            ("nfs://h/x?connections=0", "expected 1 to 16 connections"),
            ("nfs://h/x?minor=0", "expected minor version"),
            ("nfs://h/x?uid=1", "gid=N together"),
            ("nfs://h/x?uid=a&gid=0", "expected a number"),
            ("nfs://h/x?soft=1", "expected connections"),
        ] {
            let e = text.parse::<Address>().expect_err(text).to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn the_file_is_the_last_part_of_the_path() {
        let parts = |path| super::Nfs::new("h", path);
        assert_eq!(parts("a/b/c").parts(), ("a/b", "c"));
        assert_eq!(parts("c").parts(), ("", "c"));
        let at = super::Nfs::new("127.0.0.1", "f").resolve();
        assert_eq!(at.expect("an address").port(), 2049);
    }
}
