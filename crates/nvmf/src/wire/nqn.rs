//! NVMe Qualified Names (Base 4.5) and host identifiers.
//!
//! Called wherever a host or a subsystem is named. An [`Nqn`] that exists is valid: at most 223 bytes, UTF-8 without
//! control characters, and it begins with `nqn.`. The one exception is [`Nqn::unnamed`], the empty name of a host that
//! sent none; only [`NqnField::parse_host`] makes it from bytes, so no subsystem and no host list ever has it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout;

/// Bytes of the longest name, without its terminating NUL.
pub const NQN_LEN_MAX: usize = 223;
/// Bytes of a name's field in a data structure.
pub const NQN_FIELD_LEN: usize = 256;
/// The well-known name of the discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Why a name is not an NQN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NqnError {
    /// No bytes before the NUL.
    #[error("the NQN is empty")]
    Empty,
    /// More than [`NQN_LEN_MAX`] bytes.
    #[error("the NQN has {0} bytes; at most {NQN_LEN_MAX} are allowed")]
    TooLong(usize),
    /// The field has no terminating NUL.
    #[error("the NQN is not terminated by a NUL")]
    Unterminated,
    /// Not UTF-8.
    #[error("the NQN is not valid UTF-8")]
    NotUtf8,
    /// A control character.
    #[error("the NQN contains a control character")]
    Control,
    /// Does not begin with `nqn.`.
    #[error("the NQN does not begin with \"nqn.\"")]
    Prefix,
}

/// A valid NVMe Qualified Name, or the empty name of a host without one; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(Arc<str>);

impl Nqn {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`NqnError`]: the defect of the name.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        if name.is_empty() {
            return Err(NqnError::Empty);
        }
        if name.len() > NQN_LEN_MAX {
            return Err(NqnError::TooLong(name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err(NqnError::Control);
        }
        if !name.starts_with("nqn.") || name.len() == 4 {
            return Err(NqnError::Prefix);
        }
        Ok(Self(name.into()))
    }

    /// The discovery subsystem's name.
    #[must_use]
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.into())
    }

    /// The empty name of a host that sent none in its Connect.
    #[must_use]
    pub fn unnamed() -> Self {
        Self("".into())
    }

    /// Whether this is the empty name of a host that sent none.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is the well-known discovery name.
    #[must_use]
    pub fn is_discovery(&self) -> bool {
        &*self.0 == DISCOVERY_NQN
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A name as it lies in a data structure: 256 bytes, NUL-terminated and NUL-padded.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NqnField(pub [u8; NQN_FIELD_LEN]);
layout!(NqnField, 256);

impl NqnField {
    /// The name in the field.
    ///
    /// # Errors
    /// [`NqnError`]: the defect of the name.
    pub fn parse(&self) -> Result<Nqn, NqnError> {
        let end = self
            .0
            .iter()
            .position(|&b| b == 0)
            .ok_or(NqnError::Unterminated)?;
        let name = std::str::from_utf8(&self.0[..end]).map_err(|_| NqnError::NotUtf8)?;
        Nqn::new(name)
    }

    /// The host's name in the field; an empty field is [`Nqn::unnamed`].
    ///
    /// # Errors
    /// [`NqnError`]: the defect of a name that is not empty.
    pub fn parse_host(&self) -> Result<Nqn, NqnError> {
        match self.0[0] {
            0 => Ok(Nqn::unnamed()),
            _ => self.parse(),
        }
    }
}

impl From<&Nqn> for NqnField {
    fn from(nqn: &Nqn) -> Self {
        let mut field = [0; NQN_FIELD_LEN];
        field[..nqn.0.len()].copy_from_slice(nqn.0.as_bytes());
        Self(field)
    }
}

impl fmt::Debug for NqnField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parse().fmt(f)
    }
}

/// A 128-bit host identifier (Base 5.27.1.25): names the holder of a reservation, and the host that
/// connections belong to.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct HostId(pub [u8; 16]);
layout!(HostId, 16);

impl HostId {
    /// Whether all bytes are zero, which names no host.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl From<uuid::Uuid> for HostId {
    fn from(uuid: uuid::Uuid) -> Self {
        Self(uuid.into_bytes())
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_refuses() {
        assert!(Nqn::new("nqn.2024-01.io.example:disk").is_ok());
        assert!(Nqn::discovery().is_discovery());
        assert_eq!(Nqn::new(""), Err(NqnError::Empty));
        assert_eq!(Nqn::new("iqn.2024-01.x"), Err(NqnError::Prefix));
        assert_eq!(Nqn::new("nqn.a\nb"), Err(NqnError::Control));
        assert!(Nqn::new(&format!("nqn.{}", "x".repeat(219))).is_ok());
        assert_eq!(
            Nqn::new(&format!("nqn.{}", "x".repeat(220))),
            Err(NqnError::TooLong(224))
        );
    }

    #[test]
    fn field_needs_its_nul() {
        assert_eq!(NqnField([b'n'; 256]).parse(), Err(NqnError::Unterminated));
        assert_eq!(NqnField([0; 256]).parse(), Err(NqnError::Empty));
        assert_eq!(NqnField([0; 256]).parse_host(), Ok(Nqn::unnamed()));
        let garbage = NqnField([b'n'; 256]).parse_host();
        assert_eq!(garbage, Err(NqnError::Unterminated));
        let mut bad = [0u8; 256];
        bad[..6].copy_from_slice(b"nqn.\xff\xff");
        assert_eq!(NqnField(bad).parse(), Err(NqnError::NotUtf8));
        let nqn = Nqn::discovery();
        assert_eq!(NqnField::from(&nqn).parse(), Ok(nqn));
    }
}
