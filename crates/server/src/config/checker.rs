//! Checks of single values of the configuration.
//!
//! **Called by** the check of each section. **Invariants**: an error has the value's position in the text.

use super::error::ConfigError;
use crate::limits::{CONNECTIONS_MAX, HOSTS_MAX, LISTENERS_MAX};
use io::net::Endpoint;
use io::net::address::socket_address;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use toml::Spanned;
use uuid::Uuid;

/// Result of a check.
pub(crate) type Result<T> = std::result::Result<T, ConfigError>;

/// A list of addresses in the file.
pub(crate) type RawAddresses = Option<Spanned<Vec<Spanned<String>>>>;

/// Default of the `connections_max` of each protocol.
const CONNECTIONS_DEFAULT: u64 = 4096;
/// The namespace of UUIDs that are computed from names (version 5).
pub(crate) const UUID_SPACE: Uuid = Uuid::from_u128(0x7f6f_8a3c_52f1_4c0e_9d2a_7769_7265_706f);

/// A random UUID (version 4).
pub(crate) fn random_uuid() -> Uuid {
    let mut random = [0; 16];
    io::rng::fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid()
}

/// The text of a configuration and its path.
pub(crate) struct Checker<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
}

impl Checker<'_> {
    pub(crate) fn fail<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T> {
        Err(ConfigError::at(self.path, self.text, span, message))
    }

    /// Resolves a relative path against the file's directory, so that it does not depend on the working directory.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        let base = self.path.parent().unwrap_or(Path::new(""));
        base.join(path)
    }

    pub(crate) fn number(
        &self,
        value: Option<&Spanned<u64>>,
        default: u64,
        allowed: RangeInclusive<u64>,
    ) -> Result<u64> {
        let Some(v) = value else { return Ok(default) };
        if !allowed.contains(v.get_ref()) {
            let (min, max) = allowed.into_inner();
            return self.fail(
                v.span(),
                format!(
                    "expected a number from {min} to {max}, found {}",
                    v.get_ref()
                ),
            );
        }
        Ok(*v.get_ref())
    }

    /// A maximum number of connections.
    pub(crate) fn connections(&self, value: Option<&Spanned<u64>>) -> Result<usize> {
        let allowed = 1..=CONNECTIONS_MAX as u64;
        Ok(self.number(value, CONNECTIONS_DEFAULT, allowed)? as usize)
    }

    /// Addresses to listen on.
    pub(crate) fn addresses(&self, list: RawAddresses) -> Result<Vec<SocketAddr>> {
        self.each(list, |text| self.address(text), |a| a.port() != 0)
    }

    /// Addresses that clients are told; names of hosts are allowed.
    pub(crate) fn endpoints(&self, list: RawAddresses) -> Result<Vec<Endpoint>> {
        let parse = |text: &Spanned<String>| {
            let endpoint = text.get_ref().parse::<Endpoint>();
            endpoint.or_else(|e| self.fail(text.span(), e.to_string()))
        };
        self.each(list, parse, |_| true)
    }

    /// The values of a list. An error if a value that `is_one` place is there twice.
    fn each<T: PartialEq + Display>(
        &self,
        list: RawAddresses,
        parse: impl Fn(&Spanned<String>) -> Result<T>,
        is_one: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>> {
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        if list.get_ref().len() > LISTENERS_MAX {
            return self.fail(
                list.span(),
                format!("expected at most {LISTENERS_MAX} addresses"),
            );
        }
        let mut out = Vec::new();
        for a in list.get_ref() {
            let address = parse(a)?;
            if is_one(&address) && out.contains(&address) {
                return self.fail(a.span(), format!("{address} is there twice"));
            }
            out.push(address);
        }
        Ok(out)
    }

    pub(crate) fn address(&self, text: &Spanned<String>) -> Result<SocketAddr> {
        socket_address(text.get_ref()).or_else(|e| self.fail(text.span(), e.to_string()))
    }

    /// The names on an access list; `None` for `any`. `noun` is the word for their owners.
    pub(crate) fn access_list<N: Ord>(
        &self,
        list: &[Spanned<String>],
        noun: &str,
        parse: impl Fn(&Spanned<String>) -> Result<N>,
    ) -> Result<Option<BTreeSet<N>>> {
        let mut names = BTreeSet::new();
        for text in list {
            if text.get_ref() == "any" {
                if list.len() > 1 {
                    let message =
                        format!("\"any\" already allows every {noun}: remove the other names");
                    return self.fail(text.span(), message);
                }
                return Ok(None);
            }
            if names.len() == HOSTS_MAX {
                return self.fail(text.span(), format!("expected at most {HOSTS_MAX} {noun}s"));
            }
            if !names.insert(parse(text)?) {
                return self.fail(text.span(), format!("{} is there twice", text.get_ref()));
            }
        }
        Ok(Some(names))
    }

    /// A text that clients are shown. Errors if it is not printable ASCII of 1 to `len_max` bytes.
    pub(crate) fn printable(&self, text: Spanned<String>, len_max: usize) -> Result<String> {
        let fits = (1..=len_max).contains(&text.get_ref().len());
        if fits && text.get_ref().bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Ok(text.into_inner());
        }
        let message = format!("expected 1 to {len_max} printable ASCII characters");
        self.fail(text.span(), message)
    }

    /// The configured UUID, or one computed from names.
    pub(crate) fn uuid(
        &self,
        text: Option<&Spanned<String>>,
        of: impl FnOnce() -> String,
    ) -> Result<Uuid> {
        let Some(u) = text else {
            return Ok(Uuid::new_v5(&UUID_SPACE, of().as_bytes()));
        };
        match Uuid::try_parse(u.get_ref()) {
            Ok(id) if !id.is_nil() => Ok(id),
            _ => self.fail(
                u.span(),
                format!("expected a UUID that is not zero, found {:?}", u.get_ref()),
            ),
        }
    }
}
