//! Answers that `wirepool setup` gets without asking: a file, and flags.
//!
//! **Owns** their form. **Called by** `setup`. **Invariants**: a flag comes before the file; an unknown key is an error.

use super::protocol::Protocol;
use crate::client_config_command::System;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use server::ByteSize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How the disks of a new pool are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// Pairs of disks with equal data; one disk of each pair may fail.
    Mirror,
    /// All disks with one parity; one disk may fail.
    Raidz1,
    /// All disks with two parities; two disks may fail.
    Raidz2,
    /// All disks with three parities; three disks may fail.
    Raidz3,
    /// No redundancy: a lost disk loses the pool.
    Stripe,
}

impl Layout {
    /// Disks whose space parity takes; none of a mirror.
    pub(crate) fn parity(self) -> usize {
        match self {
            Layout::Mirror | Layout::Stripe => 0,
            Layout::Raidz1 => 1,
            Layout::Raidz2 => 2,
            Layout::Raidz3 => 3,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Layout::Mirror => "mirror",
            Layout::Raidz1 => "raidz1",
            Layout::Raidz2 => "raidz2",
            Layout::Raidz3 => "raidz3",
            Layout::Stripe => "stripe",
        }
    }
}

/// An address to listen on. Without a port it is that of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ListenAddress {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse() {
            return Ok(ListenAddress { ip, port: None });
        }
        let full: SocketAddr = text.parse().map_err(|_| {
            format!("expected an address such as 10.0.0.1 or 10.0.0.1:4420, found {text:?}")
        })?;
        Ok(ListenAddress {
            ip: full.ip(),
            port: Some(full.port()),
        })
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// The answers that are known.
#[derive(Args, Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Answers {
    /// The pool: an existing one, or the name of a new one (default: tank).
    #[arg(long)]
    pub(crate) pool: Option<String>,
    /// A disk of the new pool, or a file that becomes one; may be given several times.
    #[arg(long, value_name = "DISK")]
    pub(crate) disk: Vec<PathBuf>,
    /// How the disks are joined (default: mirror if there are several).
    #[arg(long, value_enum)]
    pub(crate) layout: Option<Layout>,
    /// The size of missing files.
    #[arg(long, value_name = "SIZE")]
    pub(crate) file_size: Option<ByteSize>,
    /// The protocol of the first export (default: nvme).
    #[arg(long, value_enum)]
    pub(crate) protocol: Option<Protocol>,
    /// The name of the volume or filesystem in the pool (default: vm1 or home).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The size of the volume (default: half of the pool's space).
    #[arg(long)]
    pub(crate) size: Option<ByteSize>,
    /// An address of this machine for clients, with an optional port; may be given several times (default: the only one).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<ListenAddress>,
    /// A client that may connect: a host NQN, an initiator name, `any`, or for NFS such as 10.0.0.0/24:rw; may be given several times.
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Vec<String>,
    /// The system of the clients (default: debian).
    #[arg(long, value_enum)]
    pub(crate) os: Option<System>,
}

impl Answers {
    /// Reads a file. Errors: it cannot be read, or is not valid.
    pub(crate) fn read(path: &Path) -> Result<Answers> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Answers> {
        Ok(toml::from_str(text)?)
    }

    /// These answers, and those of `file` to other questions.
    pub(crate) fn or(self, file: Answers) -> Answers {
        fn list<T>(own: Vec<T>, other: Vec<T>) -> Vec<T> {
            if own.is_empty() { other } else { own }
        }
        Answers {
            pool: self.pool.or(file.pool),
            disk: list(self.disk, file.disk),
            layout: self.layout.or(file.layout),
            file_size: self.file_size.or(file.file_size),
            protocol: self.protocol.or(file.protocol),
            name: self.name.or(file.name),
            size: self.size.or(file.size),
            listen: list(self.listen, file.listen),
            client: list(self.client, file.client),
            os: self.os.or(file.os),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_answers_and_flags_come_first() {
        let file = Answers::parse(
            "pool = \"tank\"\ndisk = [\"/dev/sdb\", \"/dev/sdc\"]\nlayout = \"mirror\"\nprotocol = \"iscsi\"\nsize = \"100G\"\n\
             listen = [\"10.0.0.1\", \"[fd00::1]:3261\"]\nclient = [\"any\"]\nos = \"proxmox\"\n",
        )
        .expect("answers");
        assert_eq!(file.size, Some(ByteSize(100 << 30)));
        assert_eq!(file.listen[1].port, Some(3261));
        assert_eq!(file.protocol, Some(Protocol::Iscsi));
        let flags = Answers {
            disk: vec!["/dev/sdd".into()],
            pool: Some("fast".into()),
            ..Answers::default()
        };
        let all = flags.or(file.clone());
        assert_eq!(all.disk, [PathBuf::from("/dev/sdd")]);
        assert_eq!(all.pool.as_deref(), Some("fast"));
        assert_eq!(all.client, file.client);
    }

    #[test]
    fn mistakes_in_a_file_are_named() {
        for (text, word) in [
            ("disks = []", "disks"),
            ("listen = [\"10.0.0.256\"]", "10.0.0.256"),
            ("layout = \"raidz\"", "raidz"),
            ("size = \"1.5\"", "a part of a byte"),
        ] {
            let e = Answers::parse(text).expect_err(text);
            let e = format!("{e:#}");
            assert!(e.contains(word), "{e}");
        }
    }

    #[test]
    fn addresses_have_an_optional_port() {
        for text in ["10.0.0.1", "10.0.0.1:4420", "fd00::1", "[fd00::1]:4420"] {
            let address: ListenAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
        assert!("[fd00::1]".parse::<ListenAddress>().is_ok());
        assert!("server".parse::<ListenAddress>().is_err());
    }
}
