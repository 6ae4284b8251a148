//! `server.congestion`: the TCP congestion control of all connections.
//!
//! **Called by** the check of `[server]`. **Invariants**: the name is well formed; whether the kernel has it is checked when
//! the server starts.

use super::checker::{Checker, Result};
use toml::Spanned;

/// Its default (decision 0204).
const CONGESTION_DEFAULT: &str = "cubic";
/// The value that leaves the choice to the system.
const CONGESTION_OF_SYSTEM: &str = "system";
/// Longest name of a congestion control (TCP_CA_NAME_MAX of linux/tcp.h, without the NUL).
const CONGESTION_LEN_MAX: usize = 15;

impl Checker<'_> {
    /// The name, or `None` for the system's choice.
    pub(super) fn congestion(&self, value: Option<&Spanned<String>>) -> Result<Option<String>> {
        let Some(value) = value else {
            return Ok(Some(CONGESTION_DEFAULT.to_owned()));
        };
        let name = value.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !(1..=CONGESTION_LEN_MAX).contains(&name.len()) || !name.chars().all(plain) {
            return self.fail(
                value.span(),
                "expected the name of a congestion control, such as \"cubic\", or \"system\"",
            );
        }
        Ok((name != CONGESTION_OF_SYSTEM).then(|| name.clone()))
    }
}
