//! Answers about users and groups.
//!
//! **Owns** [`Cache`]. **Called by** [`super::Identity`]. **Invariants**: at most [`ANSWERS_MAX`] answers; that a name does not
//! exist is an answer, too.

use super::accounts::{Accounts, Unavailable};
use crate::limits::ANSWERS_MAX;
use io::time::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Query {
    UserName(u32),
    GroupName(u32),
    Uid(String),
    Gid(String),
    Groups(u32),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Name(Arc<str>),
    Number(u32),
    Groups(Arc<[u32]>),
}

impl Query {
    /// Asks. May block.
    pub(super) fn answer(&self, accounts: &dyn Accounts) -> Result<Option<Answer>, Unavailable> {
        let name = |name: String| Answer::Name(name.into());
        Ok(match self {
            Self::UserName(uid) => accounts.user_name(*uid)?.map(name),
            Self::GroupName(gid) => accounts.group_name(*gid)?.map(name),
            Self::Uid(name) => accounts.uid(name)?.map(Answer::Number),
            Self::Gid(name) => accounts.gid(name)?.map(Answer::Number),
            Self::Groups(uid) => accounts.groups(*uid)?.map(|all| Answer::Groups(all.into())),
        })
    }
}

/// An answer, `None` if there is no such user or group, and the end of its use.
type Kept = (Option<Answer>, Instant);

/// Answers that were looked up.
#[derive(Default)]
pub(super) struct Cache(BTreeMap<Query, Kept>);

impl Cache {
    /// An answer that is not too old.
    pub(super) fn fresh(&self, query: &Query, now: Instant) -> Option<Option<Answer>> {
        let (answer, until) = self.0.get(query)?;
        (*until > now).then(|| answer.clone())
    }

    /// An answer of any age.
    pub(super) fn stale(&self, query: &Query) -> Option<Option<Answer>> {
        self.0.get(query).map(|(answer, _)| answer.clone())
    }

    /// Keeps an answer. At the limit, old answers go, or else any.
    pub(super) fn put(
        &mut self,
        query: Query,
        answer: Option<Answer>,
        until: Instant,
        now: Instant,
    ) {
        if self.0.len() >= ANSWERS_MAX {
            self.0.retain(|_, (_, until)| *until > now);
        }
        if self.0.len() >= ANSWERS_MAX {
            self.0.pop_first();
        }
        self.0.insert(query, (answer, until));
    }
}
