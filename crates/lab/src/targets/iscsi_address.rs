//! Addresses of logical units: `iscsi://HOST[:PORT]/IQN/LUN`, and `iser://` for RDMA, with options behind a `?`.
//!
//! **Called by** [`super::address`]. **Invariants**: the text form of an [`Iscsi`] parses to the same value; a secret
//! is never part of an address, only its file.

use super::address_text::{flag, resolve_or};
use crate::Result;
use iscsi::login::Algorithm;
use iscsi::portal::IscsiTransport;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Prefix of the addresses of a transport.
fn scheme(transport: IscsiTransport) -> &'static str {
    match transport {
        IscsiTransport::Tcp => "iscsi://",
        IscsiTransport::Iser => "iser://",
    }
}

/// The transport of such an address, and the rest of the text; `None` for other addresses.
pub(super) fn transport_of(text: &str) -> Option<(IscsiTransport, &str)> {
    let all = [IscsiTransport::Tcp, IscsiTransport::Iser].into_iter();
    all.filter_map(|t| Some((t, text.strip_prefix(scheme(t))?)))
        .next()
}

/// The default port (RFC 7143, 4.2.7.1).
const DEFAULT_PORT: u16 = 3260;

/// A logical unit served over iSCSI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iscsi {
    /// The transport.
    pub transport: IscsiTransport,
    /// Host, with a port other than 3260.
    pub host: String,
    /// The target.
    pub iqn: String,
    /// The logical unit.
    pub lun: u16,
    /// Header digests.
    pub header_digest: bool,
    /// Data digests.
    pub data_digest: bool,
    /// Data within command PDUs.
    pub immediate: bool,
    /// No Data-Out before an R2T.
    pub initial_r2t: bool,
    /// The initiator's own name, if not the lab's.
    pub initiator: Option<String>,
    /// Our CHAP name, and the file of the secret.
    pub chap: Option<(String, PathBuf)>,
    /// The target's CHAP name, and the file of its secret.
    pub mutual: Option<(String, PathBuf)>,
    /// The only offered CHAP algorithm; `None` offers all.
    pub algorithm: Option<Algorithm>,
    /// Whether the medium is memory on purpose.
    pub ram: bool,
}

/// CHAP's digests by name.
const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("md5", Algorithm::Md5),
    ("sha1", Algorithm::Sha1),
    ("sha256", Algorithm::Sha256),
    ("sha3-256", Algorithm::Sha3),
];

impl Iscsi {
    /// Unit `lun` of a target, with default options.
    #[must_use]
    pub fn new(host: impl Into<String>, iqn: impl Into<String>, lun: u16) -> Iscsi {
        Iscsi {
            transport: IscsiTransport::Tcp,
            host: host.into(),
            iqn: iqn.into(),
            lun,
            header_digest: false,
            data_digest: false,
            immediate: true,
            initial_r2t: false,
            initiator: None,
            chap: None,
            mutual: None,
            algorithm: None,
            ram: false,
        }
    }

    /// The socket address. Errors: `Target` if the name cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr> {
        resolve_or(&self.host, DEFAULT_PORT)
    }
}

impl Iscsi {
    /// Reads what follows the scheme.
    pub(super) fn parse(
        transport: IscsiTransport,
        rest: &str,
    ) -> std::result::Result<Iscsi, String> {
        let expected = format!("expected {}HOST[:PORT]/IQN/LUN", scheme(transport));
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = place.split('/');
        let (Some(host), Some(iqn), Some(lun), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(expected);
        };
        if host.is_empty() || iqn.is_empty() || host.contains('@') {
            return Err(format!(
                "{expected}; a user is named by ?chap=USER&secret=FILE"
            ));
        }
        let lun = lun
            .parse()
            .map_err(|_| format!("expected a logical unit number, found {lun:?}"))?;
        let mut t = Iscsi {
            transport,
            ..Iscsi::new(host, iqn, lun)
        };
        let (mut secret, mut mutual_secret): (Option<PathBuf>, Option<PathBuf>) = (None, None);
        let (mut user, mut mutual_user) = (None, None);
        for word in query.split('&').filter(|w| !w.is_empty()) {
            let (key, value) = word
                .split_once('=')
                .ok_or(format!("expected KEY=VALUE, found {word:?}"))?;
            match key {
                "hdgst" => t.header_digest = flag(value)?,
                "ddgst" => t.data_digest = flag(value)?,
                "immediate" => t.immediate = flag(value)?,
                "r2t" => t.initial_r2t = flag(value)?,
                "initiator" => t.initiator = Some(value.into()),
                "chap" => user = Some(value.to_owned()),
                "secret" => secret = Some(value.into()),
                "mutual" => mutual_user = Some(value.to_owned()),
                "mutual-secret" => mutual_secret = Some(value.into()),
                "algorithm" => {
                    let known = ALGORITHMS.into_iter().find(|(name, _)| *name == value);
                    let known = known.map(|(_, a)| a);
                    let unknown =
                        format!("expected md5, sha1, sha256 or sha3-256, found {value:?}");
                    t.algorithm = Some(known.ok_or(unknown)?);
                }
                "medium" if value == "ram" => t.ram = true,
                _ => {
                    return Err(format!(
                        "expected hdgst, ddgst, immediate, r2t, initiator, chap, secret, mutual, mutual-secret, algorithm or medium=ram, found {word:?}"
                    ));
                }
            }
        }
        if transport == IscsiTransport::Iser && (t.header_digest || t.data_digest) {
            return Err("no digests over RDMA, which has its own checks".into());
        }
        let both = |name: Option<String>, file: Option<PathBuf>, what: &str| match (name, file) {
            (None, None) => Ok(None),
            (Some(name), Some(file)) => Ok(Some((name, file))),
            _ => Err(format!("expected {what} together")),
        };
        t.chap = both(user, secret, "chap=USER and secret=FILE")?;
        t.mutual = both(
            mutual_user,
            mutual_secret,
            "mutual=NAME and mutual-secret=FILE",
        )?;
        if t.mutual.is_some() && t.chap.is_none() {
            return Err("mutual CHAP needs CHAP of the initiator: add chap=USER".into());
        }
        Ok(t)
    }
}

impl fmt::Display for Iscsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = scheme(self.transport);
        write!(f, "{scheme}{}/{}/{}", self.host, self.iqn, self.lun)?;
        let mut words = Vec::new();
        let mut put = |on: bool, word: &str| {
            if on {
                words.push(word.to_owned());
            }
        };
        put(self.header_digest, "hdgst=1");
        put(self.data_digest, "ddgst=1");
        put(!self.immediate, "immediate=0");
        put(self.initial_r2t, "r2t=1");
        if let Some(name) = &self.initiator {
            words.push(format!("initiator={name}"));
        }
        if let Some((name, file)) = &self.chap {
            words.push(format!("chap={name}&secret={}", file.display()));
        }
        if let Some((name, file)) = &self.mutual {
            words.push(format!("mutual={name}&mutual-secret={}", file.display()));
        }
        if let Some((name, _)) = ALGORITHMS.iter().find(|(_, a)| Some(*a) == self.algorithm) {
            words.push(format!("algorithm={name}"));
        }
        if self.ram {
            words.push("medium=ram".into());
        }
        if words.is_empty() {
            return Ok(());
        }
        write!(f, "?{}", words.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use crate::targets::Address;

    #[test]
    fn names_survive_being_printed_and_read() {
        for text in [
            "iscsi://127.0.0.1/iqn.2026-01.org.example:d/0",
            "iser://10.0.0.7/iqn.x:y/7?immediate=0&medium=ram",
            "iscsi://[::1]:3261/iqn.x:y/7?hdgst=1&ddgst=1&immediate=0&r2t=1&initiator=iqn.h&chap=u&secret=/a/b&mutual=t&mutual-secret=c&algorithm=sha1&medium=ram",
        ] {
            let a: Address = text.parse().expect(text);
            assert_eq!(a.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("iscsi://h", "expected iscsi://HOST"),
            ("iser://h", "expected iser://HOST"),
            ("iser://h/iqn.x/0?ddgst=1", "no digests over RDMA"),
            ("iscsi://h/iqn.x", "expected iscsi://HOST"),
            ("iscsi://h/iqn.x/0/1", "expected iscsi://HOST"),
            ("iscsi://user%secret@h/iqn.x/0", "?chap=USER&secret=FILE"),
            ("iscsi://h/iqn.x/one", "expected a logical unit number"),
            ("iscsi://h/iqn.x/0?chap=u", "secret=FILE together"),
            (
                "iscsi://h/iqn.x/0?mutual=t&mutual-secret=f",
                "add chap=USER",
            ),
            ("iscsi://h/iqn.x/0?hdgst=2", "expected 0 or 1"),
            ("iscsi://h/iqn.x/0?password=x", "expected hdgst"),
        ] {
            let e = text.parse::<Address>().expect_err(text).to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn the_usual_port_need_not_be_named() {
        for (host, addr) in [
            ("127.0.0.1", "127.0.0.1:3260"),
            ("127.0.0.1:99", "127.0.0.1:99"),
            ("[::1]", "[::1]:3260"),
            ("[::1]:99", "[::1]:99"),
        ] {
            let t = super::Iscsi::new(host, "iqn.x", 0);
            assert_eq!(t.resolve().expect(host).to_string(), addr);
        }
    }
}
