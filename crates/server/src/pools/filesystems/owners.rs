//! Space of users and groups in filesystems, and their quotas.
//!
//! **Called by** the control API, on the server's shard, and by the requests for properties. **Invariants**: those of
//! [`crate::change`]; the C library looks names up on a helper thread; a number needs no lookup.

use super::mounts::blocking;
use crate::api::{GetProperties, ListOwnerSpace, OwnerKind, OwnerSpace, Property, PropertySource};
use crate::pools::change::failed;
use crate::pools::convert::{limit, limit_text};
use crate::pools::entry::{filesystems_of, full_name};
use crate::pools::names::{names, split};
use crate::server::Server;
use crate::{Error, Result};
use backend::file::FileError;
use nfs::identity::{Accounts, SystemAccounts};
use pool::FileStore;
use pool::format::filesystem::FileOwner;

/// A property such as `userquota@ann`.
pub(crate) struct OwnerProperty {
    /// Whether it is the quota; otherwise the used space.
    is_quota: bool,
    kind: OwnerKind,
    /// Name or number.
    owner: String,
}

impl OwnerProperty {
    /// The property with this name; `None` if the name is none of these.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (property, owner) = name.split_once('@')?;
        let (is_quota, kind) = match property {
            "userquota" => (true, OwnerKind::User),
            "groupquota" => (true, OwnerKind::Group),
            "userused" => (false, OwnerKind::User),
            "groupused" => (false, OwnerKind::Group),
            _ => return None,
        };
        let owner = owner.to_owned();
        Some(Self {
            is_quota,
            kind,
            owner,
        })
    }

    /// The user or group. Errors: `Invalid` if there is none of this name.
    async fn owner(&self) -> Result<FileOwner> {
        let of_number = |number| match self.kind {
            OwnerKind::User => FileOwner::User(number),
            OwnerKind::Group => FileOwner::Group(number),
        };
        if let Ok(number) = self.owner.parse() {
            return Ok(of_number(number));
        }
        let (kind, name) = (self.kind, self.owner.clone());
        let found = blocking(move || match kind {
            OwnerKind::User => SystemAccounts.uid(&name),
            OwnerKind::Group => SystemAccounts.gid(&name),
        });
        let word = match kind {
            OwnerKind::User => "user",
            OwnerKind::Group => "group",
        };
        let name = &self.owner;
        match found.await? {
            Ok(Some(number)) => Ok(of_number(number)),
            Ok(None) => Err(Error::Invalid(format!(
                "the server's machine has no {word} {name:?}: use its number"
            ))),
            Err(e) => Err(Error::Invalid(format!(
                "the {word} {name:?} cannot be looked up: {}: use its number",
                e.0
            ))),
        }
    }
}

/// The error of a request about the space of owners.
fn owners_failed(full: &str, e: FileError) -> Error {
    let pool = full.split('/').next().unwrap_or(full);
    match e {
        FileError::NoSpace | FileError::Quota => {
            failed(pool, format!("{full:?}: there is no space for a quota"))
        }
        e => failed(pool, format!("{full:?}: {e}")),
    }
}

/// Space and quotas of all owners. Errors: `Pool`; `Conflict` if the files are not counted, and cannot be.
async fn spaces(store: &FileStore, full: &str) -> Result<Vec<pool::OwnerSpace>> {
    let counted = store.count_owners().await;
    let found = store.owner_spaces().await;
    match (found.map_err(|e| owners_failed(full, e))?, counted) {
        (Some(found), _) => Ok(found),
        (None, Err(FileError::ReadOnly)) | (None, Ok(())) => Err(Error::Conflict(format!(
            "{full:?}: its files are not counted by owner: this cannot be done in a snapshot, or a read-only pool"
        ))),
        (None, Err(e)) => Err(owners_failed(full, e)),
    }
}

impl Server {
    /// See [`ListOwnerSpace`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoFilesystem`, `NoSnapshot`, `Pool`.
    pub async fn owner_space(&self, request: ListOwnerSpace) -> Result<Vec<OwnerSpace>> {
        let full = request.name;
        let store = self.readable_filesystem(&full)?;
        let kind = request.owners;
        let spaces = spaces(&store, &full).await?.into_iter();
        let spaces = spaces.filter_map(|space| {
            let id = match (space.owner, kind) {
                (FileOwner::User(id), OwnerKind::User) => id,
                (FileOwner::Group(id), OwnerKind::Group) => id,
                _ => return None,
            };
            Some(OwnerSpace {
                id,
                name: None,
                used: space.used,
                quota: space.quota,
            })
        });
        let mut spaces: Vec<_> = spaces.collect();
        blocking(move || {
            for space in &mut spaces {
                let name = match kind {
                    OwnerKind::User => SystemAccounts.user_name(space.id),
                    OwnerKind::Group => SystemAccounts.group_name(space.id),
                };
                // without the name service, numbers are shown
                space.name = name.ok().flatten();
            }
            spaces
        })
        .await
    }

    /// A filesystem, or a snapshot of one, of an open pool.
    pub(super) fn readable_filesystem(&self, full: &str) -> Result<FileStore> {
        let (filesystem, snapshot) = match full.contains('@') {
            true => {
                let (filesystem, snapshot) = split(full)?;
                (filesystem, Some(snapshot))
            }
            false => (full, None),
        };
        self.filesystem_to_mount(filesystem)?;
        let (pool_name, name) = names(filesystem)?;
        let pool = self.readable_pool(pool_name)?;
        match snapshot {
            Some(snapshot) => pool
                .filesystem_snapshot(name, snapshot)
                .ok_or_else(|| Error::NoSnapshot(full.to_owned())),
            None => pool
                .filesystem(name)
                .ok_or_else(|| Error::NoFilesystem(full.to_owned())),
        }
    }

    /// Sets a quota of a user or group. Errors: `Invalid`, `Conflict`, `NoPool`, `NoFilesystem`, `Pool`.
    pub(in crate::pools) async fn set_owner_quota(
        &self,
        full: &str,
        property: OwnerProperty,
        value: &str,
    ) -> Result<()> {
        if !property.is_quota {
            let text =
                "the used space of a user or group cannot be set: set userquota@ or groupquota@";
            return Err(Error::Invalid(text.into()));
        }
        let bytes = limit(value)?.0;
        let owner = property.owner().await?;
        let _turn = self.turn().await?;
        let (_, store) = self.filesystem_named(full)?;
        let counted = store.count_owners().await;
        counted.map_err(|e| owners_failed(full, e))?;
        let set = store.set_owner_quota(owner, bytes).await;
        set.map_err(|e| owners_failed(full, e))
    }

    /// The properties of users and groups that are asked for, of the filesystems that are asked for. Errors: `Invalid`,
    /// `Conflict`, `Pool`.
    pub(in crate::pools) async fn owner_properties(
        &self,
        request: &GetProperties,
    ) -> Result<Vec<Property>> {
        let asked = request.properties.iter();
        let asked = asked.filter_map(|name| Some((name, OwnerProperty::named(name)?)));
        let mut found = Vec::new();
        for (name, property) in asked {
            let owner = property.owner().await?;
            for (full, store) in self.stores() {
                if !request.names.is_empty() && !request.names.contains(&full) {
                    continue;
                }
                let all = spaces(&store, &full).await?;
                let space = all.iter().find(|space| space.owner == owner);
                let (used, quota) = space.map_or((0, 0), |space| (space.used, space.quota));
                let (value, source) = match (property.is_quota, quota) {
                    (false, _) => (used.to_string(), PropertySource::None),
                    (true, 0) => (limit_text(0), PropertySource::Default),
                    (true, quota) => (limit_text(quota), PropertySource::Local),
                };
                found.push(Property {
                    name: full,
                    property: name.clone(),
                    value,
                    is_size: true,
                    settable: property.is_quota,
                    source,
                    inherited_from: None,
                    warning: None,
                });
            }
        }
        Ok(found)
    }

    /// All filesystems of open pools.
    fn stores(&self) -> Vec<(String, FileStore)> {
        let state = self.state.borrow();
        let mut all = Vec::new();
        for (pool_name, pool) in state.pools.all_open() {
            for of in filesystems_of(pool) {
                let name = of.dataset().name;
                let full = full_name(pool_name, &name);
                all.extend(pool.filesystem(&name).map(|store| (full, store)));
            }
        }
        all
    }
}
