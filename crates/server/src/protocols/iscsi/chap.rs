//! Live changes of CHAP.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of all changes (see
//! [`crate::change`]); secrets are on the disk before the configuration refers to them, and are restored if the
//! configuration cannot be written.

use super::config::{ChapNames, DiscoveryEdit, TargetChange};
use super::limits::CHAP_SECRET_LEN;
use super::secret::{Realm, SecretFile, Whose};
use crate::api::{Chap, Done, IscsiTarget, SecretText, SetChap, SetDiscoveryChap};
use crate::config::ConfigFile;
use crate::server::Server;
use crate::{Error, Result};
use iscsi::wire::IscsiName;

pub(super) fn target_name(text: &str) -> Result<IscsiName> {
    IscsiName::new(text)
        .map_err(|e| Error::Invalid(format!("{text:?} does not name a target: {e}")))
}

/// The realm of a target.
pub(super) fn realm(iqn: &IscsiName) -> Realm {
    Realm::Target(iqn.clone())
}

fn check_secret(SecretText(secret): &SecretText) -> Result<()> {
    if CHAP_SECRET_LEN.contains(&secret.len()) && !secret.chars().any(char::is_control) {
        return Ok(());
    }
    let (least, most) = CHAP_SECRET_LEN.into_inner();
    Err(Error::Invalid(format!(
        "a CHAP secret has {least} to {most} bytes without control characters; Windows takes 16 at most"
    )))
}

/// The names for the configuration. Errors: `Invalid`.
pub(super) fn names(chap: &Chap) -> Result<ChapNames> {
    check_secret(&chap.secret)?;
    if let Some(ours) = &chap.mutual {
        check_secret(&ours.secret)?;
        if ours.secret == chap.secret {
            let message =
                "the secrets of the two directions must not be the same (RFC 7143 12.1.3)";
            return Err(Error::Invalid(message.to_owned()));
        }
    }
    Ok(ChapNames {
        initiator: chap.user.clone(),
        target: chap.mutual.as_ref().map(|m| m.user.clone()),
    })
}

impl Server {
    /// See [`SetChap`]. Errors: `Invalid`, `NoTarget`, `File`; nothing has changed then. The same holds for the
    /// other.
    pub async fn set_chap(&self, request: SetChap) -> Result<IscsiTarget> {
        let _turn = self.turn().await?;
        let iqn = target_name(&request.iqn)?;
        self.target_view(&iqn)?;
        let names = request.chap.as_ref().map(names).transpose()?;
        let new = self.edited_target(&iqn, vec![TargetChange::SetChap(names)])?;
        self.store_with_secrets(&realm(&iqn), new, request.chap.as_ref())
            .await?;
        self.apply_access(&iqn);
        self.forget_secrets(&realm(&iqn), request.chap.as_ref())
            .await;
        self.target_view(&iqn)
    }

    /// See [`SetDiscoveryChap`].
    pub async fn set_discovery_chap(&self, request: SetDiscoveryChap) -> Result<Done> {
        let _turn = self.turn().await?;
        let names = request.chap.as_ref().map(names).transpose()?;
        let new = self.edited(&[&DiscoveryEdit(names)])?;
        self.store_with_secrets(&Realm::Discovery, new, request.chap.as_ref())
            .await?;
        self.protocols
            .iscsi
            .apply_discovery(&self.state.borrow().file);
        self.forget_secrets(&Realm::Discovery, request.chap.as_ref())
            .await;
        Ok(Done {})
    }

    fn secret_file(&self, realm: &Realm, whose: Whose) -> Option<SecretFile> {
        let state = self.state.borrow();
        let dir = &state.file.config().server.state_dir;
        let stored = state.file.is_stored();
        stored.then(|| SecretFile::of(dir, realm, whose))
    }

    /// Writes new secrets, if there are any, and then the configuration.
    pub(super) async fn store_with_secrets(
        &self,
        realm: &Realm,
        new: ConfigFile,
        chap: Option<&Chap>,
    ) -> Result<()> {
        let ours = chap.and_then(|c| c.mutual.as_ref());
        let secrets = [
            (Whose::Initiators, chap.map(|c| &c.secret)),
            (Whose::Ours, ours.map(|o| &o.secret)),
        ];
        let mut before = Vec::new();
        let mut result = Ok(());
        for (whose, secret) in secrets {
            let Some(SecretText(secret)) = secret else {
                continue;
            };
            let file = self.secret_file(realm, whose).ok_or_else(|| {
                Error::Conflict("this server has no state directory for secrets".to_owned())
            })?;
            let (written, secret) = (file.clone(), secret.clone());
            let old = blocking(&file, move || {
                let old = written.bytes()?;
                written.write(secret.as_bytes())?;
                Ok(old)
            });
            match old.await {
                Ok(old) => before.push((file, old)),
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        if result.is_ok() {
            result = self.store(new).await;
        }
        if result.is_err() {
            for (file, old) in before {
                let restored = file.clone();
                blocking(&file, move || restored.restore(old.as_deref())).await?;
            }
        }
        result
    }

    /// Deletes the secrets that `chap` does not need.
    pub(super) async fn forget_secrets(&self, realm: &Realm, chap: Option<&Chap>) {
        let ours = chap.is_some_and(|c| c.mutual.is_some());
        for (whose, used) in [(Whose::Initiators, chap.is_some()), (Whose::Ours, ours)] {
            let Some(file) = self.secret_file(realm, whose).filter(|_| !used) else {
                continue;
            };
            let gone = file.clone();
            if let Err(e) = blocking(&file, move || gone.remove()).await {
                tracing::warn!(%realm, error = %e, "an unused secret could not be deleted");
            }
        }
    }
}

/// Runs an operation on a secret's file. Errors: `File`.
async fn blocking<T: Send + 'static>(
    file: &SecretFile,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let done = io::blocking(work).await.map_err(|source| Error::Start {
        what: "a helper thread",
        source,
    })?;
    done.map_err(|source| Error::File {
        what: "keep a secret in",
        path: file.path().to_path_buf(),
        source,
    })
}
