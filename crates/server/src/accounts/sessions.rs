//! Sessions of browsers.
//!
//! **Owns** the tokens that were given out, by their SHA-256. **Called by** [`super::Accounts`]. **Invariants**: at most
//! [`BROWSERS_MAX`] sessions, the one that was used longest ago ends for a new one; a session ends [`BROWSER_IDLE_MAX`] after a person
//! used it, and [`BROWSER_LIFE_MAX`] after its begin.

use crate::api::UserRole;
use crate::limits::{BROWSER_IDLE_MAX, BROWSER_LIFE_MAX, BROWSERS_MAX};
use io::time::Instant;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;

/// The secret that a browser shows with each request: 64 hexadecimal digits.
#[derive(PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A user who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// The user's name.
    pub(crate) name: String,
    /// What the user may do.
    pub(crate) role: UserRole,
}

/// SHA-256 of a token.
type Mark = [u8; 32];

fn mark(token: &str) -> Mark {
    Sha256::digest(token.as_bytes()).into()
}

struct Browser {
    user: Visitor,
    began: Instant,
    used: Instant,
}

impl Browser {
    fn is_over(&self, now: Instant) -> bool {
        now.since(self.used) > BROWSER_IDLE_MAX || now.since(self.began) > BROWSER_LIFE_MAX
    }
}

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions(HashMap<Mark, Browser>);

impl Sessions {
    /// Begins a session.
    pub(super) fn begin(&mut self, user: &str, role: UserRole, now: Instant) -> Token {
        self.0.retain(|_, browser| !browser.is_over(now));
        if self.0.len() >= BROWSERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, b)| b.used);
            if let Some(oldest) = oldest.map(|(mark, _)| *mark) {
                self.0.remove(&oldest);
            }
        }
        let mut secret = [0; 32];
        io::rng::fill(&mut secret);
        let token = Token(secret.iter().map(|b| format!("{b:02x}")).collect());
        let browser = Browser {
            user: Visitor {
                name: user.to_owned(),
                role,
            },
            began: now,
            used: now,
        };
        self.0.insert(mark(token.text()), browser);
        token
    }

    /// The user of a session. `is_used` says that a person made the request.
    pub(super) fn find(&mut self, token: &str, is_used: bool, now: Instant) -> Option<Visitor> {
        let mark = mark(token);
        let browser = self.0.get_mut(&mark)?;
        if browser.is_over(now) {
            self.0.remove(&mark);
            return None;
        }
        if is_used {
            browser.used = now;
        }
        Some(browser.user.clone())
    }

    /// Ends a session.
    pub(super) fn end(&mut self, token: &str) {
        self.0.remove(&mark(token));
    }

    /// Ends the sessions of a user.
    pub(super) fn end_all(&mut self, user: &str) {
        self.0.retain(|_, browser| browser.user.name != user);
    }

    /// Number of sessions of a user.
    pub(super) fn count(&self, user: &str, now: Instant) -> usize {
        let all = self.0.values();
        all.filter(|b| b.user.name == user && !b.is_over(now))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_session_ends_with_idleness_age_user_and_logout() {
        let start = io::time::now();
        let mut sessions = Sessions::default();
        let token = sessions.begin("ann", UserRole::Admin, start);
        let user = |s: &mut Sessions, used, now| s.find(token.text(), used, now);
        let found = user(&mut sessions, true, start).expect("logged in");
        assert_eq!((found.name.as_str(), found.role), ("ann", UserRole::Admin));
        assert_eq!(sessions.find("0000", true, start), None);
        // Requests of a timer do not keep it.
        let idle = start + BROWSER_IDLE_MAX;
        assert!(user(&mut sessions, false, idle).is_some());
        assert!(user(&mut sessions, false, idle + Duration::from_secs(1)).is_none());

        let token = sessions.begin("ann", UserRole::Admin, start);
        let mut now = start;
        while now.since(start) <= BROWSER_LIFE_MAX {
            assert!(sessions.find(token.text(), true, now).is_some());
            now = now + BROWSER_IDLE_MAX;
        }
        assert!(sessions.find(token.text(), true, now).is_none());

        let (a, b) = (
            sessions.begin("ann", UserRole::Admin, start),
            sessions.begin("bob", UserRole::Reader, start),
        );
        assert_eq!(sessions.count("ann", start), 1);
        sessions.end_all("ann");
        assert!(sessions.find(a.text(), true, start).is_none());
        sessions.end(b.text());
        assert!(sessions.find(b.text(), true, start).is_none());
    }

    #[test]
    fn a_session_too_many_ends_the_one_that_was_used_longest_ago() {
        let start = io::time::now();
        let mut sessions = Sessions::default();
        let begin = |s: &mut Sessions, n: usize| {
            s.begin(
                "ann",
                UserRole::Admin,
                start + Duration::from_millis(n as u64),
            )
        };
        let tokens: Vec<Token> = (0..=BROWSERS_MAX)
            .map(|n| begin(&mut sessions, n))
            .collect();
        let now = start + Duration::from_secs(1);
        assert!(sessions.find(tokens[0].text(), true, now).is_none());
        assert!(sessions.find(tokens[1].text(), true, now).is_some());
        assert_eq!(sessions.count("ann", now), BROWSERS_MAX);
    }
}
