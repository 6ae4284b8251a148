//! Creation of filesystems, with properties and missing parents.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a filesystem has all of its
//! properties from its first moment.

use crate::api::{self, CreateFilesystem, SYNC_DISABLED, VolumeSync};
use crate::limits::FILESYSTEMS_MAX;
use crate::pools::convert::{limit, record_size, size};
use crate::pools::entry::{filesystems_of, full_name};
use crate::pools::lineage::limits_failed;
use crate::pools::names::names;
use crate::pools::properties::{bytes_or_value, unknown};
use crate::pools::snapshots::failed;
use crate::pools::volumes::{checksum, compression, own_properties};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use pool::filesystem::NewFileSystem;
use pool::format::{DatasetKind, DatasetProperty, TextProperty};
use pool::{NewFilesystem, Pool};

/// Properties of a creation that the request has a field for.
fn take_fields(request: &mut CreateFilesystem) -> Result<()> {
    for (name, value) in std::mem::take(&mut request.properties) {
        match name.as_str() {
            "recordsize" => request.record_size = Some(size(&value)?),
            "quota" => request.quota = Some(limit(&value)?),
            "reservation" => request.reservation = Some(limit(&value)?),
            "casesensitivity" => {
                request.case_insensitive = match value.as_str() {
                    "sensitive" => false,
                    "insensitive" => true,
                    _ => {
                        let text =
                            format!("casesensitivity is sensitive or insensitive, not {value:?}");
                        return Err(Error::Invalid(text));
                    }
                }
            }
            _ => drop(request.properties.insert(name, value)),
        }
    }
    Ok(())
}

/// The other properties of a creation.
fn values(request: &CreateFilesystem) -> Result<Vec<(DatasetProperty, u64)>> {
    let value = |(name, value): (&String, &String)| {
        let property = DatasetProperty::named(name).ok_or_else(|| unknown(name))?;
        match property.is_of(DatasetKind::Filesystem) {
            true => Ok((property, bytes_or_value(property, value)?)),
            false => Err(unknown(name)),
        }
    };
    request.properties.iter().map(value).collect()
}

impl Server {
    /// See [`CreateFilesystem`]. Errors: `Invalid`, `Conflict`, `NoPool`, `Pool`.
    pub async fn create_filesystem(
        &self,
        mut request: CreateFilesystem,
    ) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let full = request.name.clone();
        let (pool_name, name) = names(&full)?;
        let pool = self.pool_named(pool_name)?;
        take_fields(&mut request)?;
        let share = request.properties.remove(TextProperty::Sharenfs.name());
        let share = share.map(|text| self.text_setting(text)).transpose()?;
        let new = self.new_filesystem(&request, name, pool.vdevs().sector())?;
        if request.parents {
            if pool.filesystem(name).is_some() {
                return self.filesystem_view(&full);
            }
            self.create_parents(&pool, pool_name, name).await?;
        }
        check_count(&pool, pool_name)?;
        let mut own = own_properties(
            request.sync,
            request.compression.as_ref(),
            request.checksum.as_ref(),
        );
        own.extend(request.record_size.map(|_| DatasetProperty::Recordsize));
        let made = pool.create_filesystem_with(new, &own).await;
        made.map_err(|e| failed(pool_name, &full, e))?;
        let limit = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
        let (quota, reservation) = (limit(request.quota), limit(request.reservation));
        let set = pool.set_limits(name, quota, reservation).await;
        let mut set = set.map_err(|e| limits_failed(pool_name, &full, e));
        if let (Ok(()), Some(share)) = (&set, share) {
            let shared = pool.set_text(Some(name), TextProperty::Sharenfs, Some(share));
            set = shared.await.map_err(|e| failed(pool_name, &full, e));
        }
        if let Err(e) = set {
            let _unmade = pool.destroy_volume(name).await;
            return Err(e);
        }
        self.shares_changed();
        let sync = request.properties.get(DatasetProperty::Sync.name());
        if request.sync == Some(VolumeSync::Disabled) || sync.is_some_and(|s| s == "disabled") {
            tracing::warn!(filesystem = full, "{SYNC_DISABLED}");
        }
        self.filesystem_view(&full)
    }

    /// Creates the missing filesystems above a name.
    async fn create_parents(&self, pool: &Pool, pool_name: &str, name: &str) -> Result<()> {
        let ends = name.match_indices('/').map(|(end, _)| end);
        for above in ends.map(|end| &name[..end]) {
            if pool.filesystem(above).is_some() {
                continue;
            }
            check_count(pool, pool_name)?;
            let new = NewFilesystem {
                root: self.new_root(false),
                ..NewFilesystem::new(above)
            };
            let made = pool.create_filesystem(new).await;
            made.map_err(|e| failed(pool_name, &full_name(pool_name, above), e))?;
        }
        Ok(())
    }

    /// The root directory of a new filesystem, which belongs to the server's user.
    fn new_root(&self, is_case_insensitive: bool) -> NewFileSystem {
        let (uid, gid) = match self.state_dir() {
            Some(_) => io::linux::user_and_group(),
            None => (0, 0),
        };
        NewFileSystem {
            is_case_insensitive,
            uid,
            gid,
            ..NewFileSystem::default()
        }
    }

    /// The properties of a new filesystem. Errors: `Invalid`.
    fn new_filesystem(
        &self,
        request: &CreateFilesystem,
        name: &str,
        sector: u32,
    ) -> Result<NewFilesystem> {
        let mut new = NewFilesystem::new(name);
        if let Some(size) = request.record_size {
            new.record_size = record_size(size, sector)?;
        }
        new.sync = request.sync.unwrap_or_default().into();
        if let Some(text) = &request.compression {
            new.compression = compression(text)?;
        }
        if let Some(text) = &request.checksum {
            new.checksum = checksum(text)?;
        }
        new.values = values(request)?;
        new.root = self.new_root(request.case_insensitive);
        Ok(new)
    }
}

/// Errors: `Conflict` if a pool has the most filesystems that it may have.
fn check_count(pool: &Pool, pool_name: &str) -> Result<()> {
    match filesystems_of(pool).len() >= FILESYSTEMS_MAX {
        true => Err(Error::Conflict(format!(
            "the pool {pool_name:?} has {FILESYSTEMS_MAX} filesystems: destroy one first"
        ))),
        false => Ok(()),
    }
}
