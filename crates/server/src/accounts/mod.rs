//! Users of the web console: passwords, logins, sessions of browsers.
//!
//! **Owns** [`Accounts`]. **Called by** the control API, which manages users, and by the console, which logs them in. **Invariants**: a
//! password is stored as its Argon2id hash only; one hash is computed at a time, on a thread that may block; a session's
//! token is stored as its SHA-256 only, in memory, so that a restart logs all browsers out; failed logins are counted by address and
//! user (decisions 0410 and 0343).

mod attempts;
mod password;
mod sessions;
mod users;

use crate::api::{ConsoleUser, UserRole};
use crate::limits::{CONSOLE_USER_LEN_MAX, LOGINS_WAITING_MAX};
use crate::{Error, Result};
use attempts::Attempts;
use io::sync::lock;
use sessions::Sessions;
pub(crate) use sessions::{Token, Visitor};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
pub(crate) use users::DIRECTORY as CONSOLE_DIRECTORY;
use users::Users;

/// Why a browser is not logged in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No user has this name and password.
    Wrong,
    /// Too many logins failed: the next one may be tried after this time.
    Later(Duration),
    /// The server cannot check it now.
    Unavailable,
}

/// Users, their sessions, and failed logins. Clones are the same.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<Inner>);

struct Inner {
    users: Users,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    /// Permit to compute one hash.
    hashing: Semaphore,
    /// Permits to wait for it.
    waiting: Semaphore,
}

impl Accounts {
    /// The users that are stored in this state directory.
    pub(crate) fn new(state_dir: &Path) -> Accounts {
        Accounts(Arc::new(Inner {
            users: Users::new(state_dir),
            sessions: Mutex::default(),
            attempts: Mutex::default(),
            hashing: Semaphore::new(1),
            waiting: Semaphore::new(LOGINS_WAITING_MAX),
        }))
    }

    /// The users, by name. Errors: `File`.
    pub(crate) async fn list(&self) -> Result<Vec<ConsoleUser>> {
        let users = self.work(|a| a.users.list()).await?;
        let sessions = lock(&self.0.sessions);
        let now = io::time::now();
        let all = users
            .into_iter()
            .map(|(name, changed_ms, role)| ConsoleUser {
                sessions: sessions.count(&name, now),
                name,
                changed_ms,
                role,
            });
        Ok(all.collect())
    }

    /// Adds a user. Errors: `Invalid`, `Conflict` if it exists, `File`.
    pub(crate) async fn add(
        &self,
        name: String,
        password: String,
        role: UserRole,
    ) -> Result<ConsoleUser> {
        let added = name.clone();
        self.hashed(move |a| a.users.add(&name, &password, role))
            .await?;
        self.one(added).await
    }

    /// Sets a password, and ends the user's sessions. Errors: `Invalid`, `NoUser`, `File`.
    pub(crate) async fn set_password(&self, name: String, password: String) -> Result<ConsoleUser> {
        let changed = name.clone();
        self.hashed(move |a| a.users.set(&name, &password)).await?;
        lock(&self.0.sessions).end_all(&changed);
        lock(&self.0.attempts).unlock(&changed);
        self.one(changed).await
    }

    /// Forgets the failed logins of a user. Errors: `NoUser`, `File`.
    pub(crate) async fn unlock(&self, name: String) -> Result<()> {
        let user = self.one(name).await?;
        lock(&self.0.attempts).unlock(&user.name);
        Ok(())
    }

    /// Removes a user, and ends its sessions. Errors: `NoUser`, `File`.
    pub(crate) async fn remove(&self, name: String) -> Result<()> {
        let removed = name.clone();
        self.work(move |a| a.users.remove(&name)).await?;
        lock(&self.0.sessions).end_all(&removed);
        Ok(())
    }

    async fn one(&self, name: String) -> Result<ConsoleUser> {
        let all = self.list().await?;
        let found = all.into_iter().find(|user| user.name == name);
        found.ok_or(Error::NoUser(name))
    }

    /// Begins a session of this user.
    pub(crate) async fn log_in(
        &self,
        address: IpAddr,
        name: String,
        password: String,
    ) -> std::result::Result<Token, Refusal> {
        let Ok(_place) = self.0.waiting.try_acquire() else {
            return Err(Refusal::Unavailable);
        };
        // No user has a longer name; the tables of failures keep its beginning.
        let name: String = name.chars().take(CONSOLE_USER_LEN_MAX + 1).collect();
        let now = io::time::now();
        lock(&self.0.attempts)
            .begin(address, &name, now)
            .map_err(Refusal::Later)?;
        let user = name.clone();
        let right = self.hashed(move |a| a.users.check(&name, &password));
        match right.await {
            Ok(Some(role)) => {
                let now = io::time::now();
                lock(&self.0.attempts).succeeded(address, &user, now);
                Ok(lock(&self.0.sessions).begin(&user, role, now))
            }
            Ok(None) => {
                tracing::warn!(%address, user, "a login to the console failed");
                Err(Refusal::Wrong)
            }
            Err(error) => {
                tracing::error!(%error, "a login to the console cannot be checked");
                Err(Refusal::Unavailable)
            }
        }
    }

    /// The user of a session. `is_used` says that a person made the request, not a timer: the session stays for longer.
    pub(crate) fn user_of(&self, token: &str, is_used: bool) -> Option<Visitor> {
        lock(&self.0.sessions).find(token, is_used, io::time::now())
    }

    /// Ends a session.
    pub(crate) fn log_out(&self, token: &str) {
        lock(&self.0.sessions).end(token);
    }

    /// Runs work that computes a hash.
    async fn hashed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed.
        let _permit = self.0.hashing.acquire().await.ok();
        self.work(work).await
    }

    /// Runs work that blocks.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or(Err(Error::Unavailable("ending")))
    }
}
