//! Identity: users and groups as text (§5.9), and the groups of a user as the server knows them.
//!
//! | module | owns |
//! |---|---|
//! | `accounts` | the interface to users and groups |
//! | `cache` | answers that were looked up, bounded, with an expiry |
//! | `system` | users and groups of the operating system |
//!
//! **Owns** [`Identity`] and [`Names`]. **Called by** the execution of a COMPOUND, and attributes. **Invariants**:
//! decimal numbers are always understood; names are used only with a domain; a lookup may block, so it runs on a helper thread,
//! and its answer is kept for a while.

mod accounts;
mod cache;
mod system;

pub use accounts::{Accounts, Unavailable};
pub use system::SystemAccounts;

use crate::rpc::Credential;
use crate::wire::Status;
use cache::{Answer, Cache, Query};
use io::sync::lock;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How users and groups are looked up.
#[derive(Clone)]
pub struct IdentityConfig {
    /// Users and groups.
    pub accounts: Arc<dyn Accounts>,
    /// The domain of names (`name@domain`). Without one, owners are decimal numbers.
    pub domain: Option<String>,
    /// Whether the groups of a caller are looked up instead of taken from its credential, which has room for 16.
    pub manages_groups: bool,
    /// How long an answer is used.
    pub kept_for: Duration,
}

impl fmt::Debug for IdentityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityConfig")
            .field("domain", &self.domain)
            .field("manages_groups", &self.manages_groups)
            .field("kept_for", &self.kept_for)
            .finish_non_exhaustive()
    }
}

/// Translates users and groups.
#[derive(Default)]
pub(crate) struct Identity {
    config: Option<IdentityConfig>,
    cache: Mutex<Cache>,
}

/// Names of users and groups that were looked up. Others are decimal numbers.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

fn text(names: &BTreeMap<u32, String>, number: u32) -> Cow<'_, str> {
    match names.get(&number) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(number.to_string()),
    }
}

impl Names {
    /// A user as text.
    pub(crate) fn user(&self, uid: u32) -> Cow<'_, str> {
        text(&self.users, uid)
    }

    /// A group as text.
    pub(crate) fn group(&self, gid: u32) -> Cow<'_, str> {
        text(&self.groups, gid)
    }
}

/// A decimal number without sign.
fn number(name: &[u8]) -> Option<u32> {
    let is_decimal = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(name).ok().filter(|_| is_decimal);
    text.and_then(|text| text.parse().ok())
}

impl Identity {
    pub(crate) fn new(config: Option<IdentityConfig>) -> Self {
        Self {
            config,
            cache: Mutex::default(),
        }
    }

    /// An answer, from the cache or a lookup. An old answer serves while lookups fail.
    async fn ask(
        &self,
        config: &IdentityConfig,
        query: Query,
    ) -> Result<Option<Answer>, Unavailable> {
        let now = io::time::now();
        if let Some(known) = lock(&self.cache).fresh(&query, now) {
            return Ok(known);
        }
        let (accounts, asked) = (config.accounts.clone(), query.clone());
        let answer = io::blocking(move || asked.answer(&*accounts)).await;
        let answer = answer.unwrap_or_else(|error| Err(Unavailable(error.to_string())));
        let mut cache = lock(&self.cache);
        match answer {
            Ok(answer) => {
                cache.put(query, answer.clone(), now + config.kept_for, now);
                Ok(answer)
            }
            Err(error) => cache.stale(&query).ok_or(error),
        }
    }

    /// The name within the domain of a text `name@domain`, with the configuration.
    fn local<'a>(&self, text: &'a [u8]) -> Option<(&IdentityConfig, &'a str)> {
        let config = self.config.as_ref()?;
        let domain = config.domain.as_ref()?;
        let (name, of) = std::str::from_utf8(text).ok()?.rsplit_once('@')?;
        let is_local = !name.is_empty() && of.eq_ignore_ascii_case(domain);
        is_local.then_some((config, name))
    }

    async fn number_of(
        &self,
        text: &[u8],
        query: impl FnOnce(String) -> Query,
    ) -> Result<u32, Status> {
        if let Some(number) = number(text) {
            return Ok(number);
        }
        let (config, name) = self.local(text).ok_or(Status::Badowner)?;
        match self.ask(config, query(name.to_string())).await {
            Ok(Some(Answer::Number(number))) => Ok(number),
            Ok(_) => Err(Status::Badowner),
            Err(_) => Err(Status::Delay),
        }
    }

    /// A user in arguments. Errors: `Badowner`; `Delay` if it cannot be looked up now.
    pub(crate) async fn uid(&self, text: &[u8]) -> Result<u32, Status> {
        self.number_of(text, Query::Uid).await
    }

    /// A group in arguments. Errors: as for users.
    pub(crate) async fn gid(&self, text: &[u8]) -> Result<u32, Status> {
        self.number_of(text, Query::Gid).await
    }

    /// The names of these users and groups; of none without a domain.
    pub(crate) async fn names(
        &self,
        users: impl IntoIterator<Item = u32>,
        groups: impl IntoIterator<Item = u32>,
    ) -> Names {
        let mut names = Names::default();
        let Some(config) = self.config.as_ref() else {
            return names;
        };
        let Some(domain) = &config.domain else {
            return names;
        };
        for uid in users {
            if let Ok(Some(Answer::Name(name))) = self.ask(config, Query::UserName(uid)).await {
                names.users.insert(uid, format!("{name}@{domain}"));
            }
        }
        for gid in groups {
            if let Ok(Some(Answer::Name(name))) = self.ask(config, Query::GroupName(gid)).await {
                names.groups.insert(gid, format!("{name}@{domain}"));
            }
        }
        names
    }

    /// The credential that decides about rights: with the groups that the server knows, if it looks them up. A user that is
    /// unknown, or cannot be looked up for the first time, has no further groups.
    pub(crate) async fn rights<'a>(&self, credential: &'a Credential) -> Cow<'a, Credential> {
        let config = self.config.as_ref().filter(|c| c.manages_groups);
        let (Some(config), Credential::Sys(sys)) = (config, credential) else {
            return Cow::Borrowed(credential);
        };
        let mut sys = sys.clone();
        sys.groups = match self.ask(config, Query::Groups(sys.uid)).await {
            Ok(Some(Answer::Groups(groups))) => groups.to_vec(),
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(uid = sys.uid, %error, "an NFS request has no further groups");
                Vec::new()
            }
        };
        Cow::Owned(Credential::Sys(sys))
    }
}

/// The value of a future that does not wait.
#[cfg(test)]
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future waits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_need_no_lookup() {
        let numeric = Identity::default();
        assert_eq!(now_or_never(numeric.uid(b"1000")), Ok(1000));
        assert_eq!(now_or_never(numeric.gid(b"0")), Ok(0));
        for name in [&b""[..], b"ann@example.org", b"-1", b"4294967296", b"\xff"] {
            assert_eq!(now_or_never(numeric.uid(name)), Err(Status::Badowner));
        }
        let names = now_or_never(numeric.names([7], [8]));
        assert_eq!((&*names.user(7), &*names.group(8)), ("7", "8"));
    }
}
