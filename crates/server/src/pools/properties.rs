//! Properties of pools and volumes, by name.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: values and their sources come from the pool; setting
//! a property uses the request for that change, if there is one. Properties that datasets inherit are those of the pool's
//! table ([`DatasetProperty`]).

use super::change::failed;
use super::entry::full_name;
use super::lineage::limits_failed;
use super::names::names;
use crate::api::{
    self, GetProperties, InheritProperty, Property, PropertySource, ResizeVolume, SYNC_DISABLED,
    SetProperty, VolumeSync,
};
use crate::server::Server;
use crate::size::ByteSize;
use crate::word::word;
use crate::{Error, Result};
use pool::format::{DatasetProperty, PoolProperty, Setting};
use pool::{Pool, Source};
use std::rc::Rc;

/// Properties of volumes and pools that can be set and are not inherited.
const NOT_INHERITED: [&str; 5] = ["volsize", "quota", "reservation", "autotrim", "autoexpand"];

struct Properties<'a> {
    name: &'a str,
    all: Vec<Property>,
}

impl Properties<'_> {
    /// Adds a property that cannot be set.
    fn push(&mut self, property: &str, value: impl ToString, is_size: bool) {
        self.add(property, value.to_string(), is_size, PropertySource::None);
    }

    fn size(&mut self, property: &str, bytes: u64) {
        self.push(property, bytes, true);
    }

    /// Adds a property that can be set and is not inherited.
    fn own(&mut self, property: &str, value: impl ToString, is_size: bool, is_default: bool) {
        let source = match is_default {
            true => PropertySource::Default,
            false => PropertySource::Local,
        };
        self.add(property, value.to_string(), is_size, source);
    }

    fn add(&mut self, property: &str, value: String, is_size: bool, source: PropertySource) {
        self.all.push(Property {
            name: self.name.to_owned(),
            property: property.to_owned(),
            value,
            is_size,
            settable: source != PropertySource::None,
            source,
            inherited_from: None,
            warning: None,
        });
    }

    /// Adds the properties that datasets inherit. Without a dataset, they are the pool's.
    fn inherited(&mut self, pool: &Pool, dataset: Option<&str>) {
        let pool_name = pool.vdevs().name();
        for property in DatasetProperty::all() {
            let Some((value, found)) = pool.property(dataset, property) else {
                continue;
            };
            let (source, from) = match found {
                Source::Local => (PropertySource::Local, None),
                Source::Received => (PropertySource::Received, None),
                Source::Default => (PropertySource::Default, None),
                Source::FromPool => (PropertySource::Inherited, Some(pool_name.clone())),
                Source::Inherited(above) => (
                    PropertySource::Inherited,
                    Some(full_name(&pool_name, &above)),
                ),
            };
            let value = property.show(value).unwrap_or_default();
            let warns = property == DatasetProperty::Sync && value == word(VolumeSync::Disabled);
            self.add(property.name(), value, false, source);
            if let Some(added) = self.all.last_mut() {
                added.inherited_from = from;
                added.warning = warns.then(|| SYNC_DISABLED.to_owned());
            }
        }
    }
}

fn size(value: &str) -> Result<ByteSize> {
    let parsed = value.parse();
    parsed.map_err(|e| Error::Invalid(format!("{value:?} is not a size: {e}")))
}

/// Compression ratio: bytes of records per stored byte, in the format of `zfs`.
fn ratio(logical: u64, stored: u64) -> String {
    match stored {
        0 => "1.00x".into(),
        _ => format!("{:.2}x", logical as f64 / stored as f64),
    }
}

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

fn of_pool(p: &api::Pool, pool: Option<&Pool>) -> Vec<Property> {
    let mut out = Properties {
        name: &p.name,
        all: Vec::new(),
    };
    out.push("guid", &p.guid, false);
    out.push(
        "health",
        p.health.map_or_else(|| word(p.state), word),
        false,
    );
    out.size("size", p.size);
    out.size("allocated", p.used);
    out.size("freeing", p.freeing);
    out.size("free", p.free);
    let percent = p.used.saturating_mul(100).checked_div(p.size).unwrap_or(0);
    out.push("capacity", percent, false);
    out.size("dirty", p.dirty);
    out.push("readonly", on(p.read_only), false);
    out.own("autotrim", on(p.autotrim), false, !p.autotrim);
    out.own("autoexpand", on(p.autoexpand), false, !p.autoexpand);
    if let Some(pool) = pool {
        out.inherited(pool, None);
    }
    out.all
}

fn of_volume(v: &api::Volume, pool: Option<&Pool>) -> Vec<Property> {
    let mut out = Properties {
        name: &v.name,
        all: Vec::new(),
    };
    out.push("type", "volume", false);
    out.push("creation", v.created_ms, false);
    out.size("used", v.used);
    out.own("volsize", v.size, true, false);
    out.size("volblocksize", v.block_size.into());
    out.size("recordsize", v.record_size.into());
    out.size("referenced", v.referenced);
    out.size("logicalused", v.logical);
    out.push("compressratio", ratio(v.logical, v.referenced), false);
    if let (Some(pool), Ok((_, name))) = (pool, names(&v.name)) {
        out.inherited(pool, Some(name));
    }
    out.own("quota", v.quota, true, v.quota == 0);
    out.own("reservation", v.reservation, true, v.reservation == 0);
    out.push("exported", v.exported_as.name().unwrap_or("-"), false);
    out.all
}

fn unknown(property: &str) -> Error {
    let own = NOT_INHERITED.into_iter();
    let all: Vec<&str> = own
        .chain(DatasetProperty::all().map(DatasetProperty::name))
        .collect();
    Error::Invalid(format!(
        "{property:?} cannot be set; these can: {}",
        all.join(", ")
    ))
}

fn of_filesystem(f: &api::Filesystem, pool: Option<&Pool>) -> Vec<Property> {
    let mut out = Properties {
        name: &f.name,
        all: Vec::new(),
    };
    out.push("type", "filesystem", false);
    out.push("creation", f.created_ms, false);
    out.size("used", f.used);
    out.size("available", f.available);
    out.size("recordsize", f.record_size.into());
    out.size("referenced", f.referenced);
    out.size("logicalused", f.logical);
    out.push("compressratio", ratio(f.logical, f.referenced), false);
    if let (Some(pool), Ok((_, name))) = (pool, names(&f.name)) {
        out.inherited(pool, Some(name));
    }
    out.own("quota", f.quota, true, f.quota == 0);
    out.own("reservation", f.reservation, true, f.reservation == 0);
    let mounted = f
        .mount
        .as_ref()
        .filter(|m| m.state == api::DiskState::Online);
    out.push(
        "mounted",
        if mounted.is_some() { "yes" } else { "no" },
        false,
    );
    let at = f.mount.as_ref().map(|m| m.at.display().to_string());
    out.push("mountpoint", at.unwrap_or("none".into()), false);
    out.all
}

impl Server {
    /// See [`GetProperties`]. Errors: `NoPool`, `NoVolume`, `Invalid` if nothing has such a property.
    pub fn properties(&self, request: &GetProperties) -> Result<Vec<Property>> {
        let mut all = Vec::new();
        for pool in self.pools() {
            all.extend(of_pool(&pool, self.open_pool(&pool.name).as_deref()));
        }
        for volume in self.volumes() {
            let (pool, _) = names(&volume.name)?;
            all.extend(of_volume(&volume, self.open_pool(pool).as_deref()));
        }
        for filesystem in self.filesystems() {
            let (pool, _) = names(&filesystem.name)?;
            all.extend(of_filesystem(&filesystem, self.open_pool(pool).as_deref()));
        }
        for name in &request.names {
            if !all.iter().any(|p| p.name == *name) {
                return Err(match name.contains('/') {
                    true => Error::NoDataset(name.clone()),
                    false => Error::NoPool(name.clone()),
                });
            }
        }
        all.retain(|p| request.names.is_empty() || request.names.contains(&p.name));
        for property in &request.properties {
            if !all.iter().any(|p| p.property == *property) {
                let text = format!("no such property {property:?}: see `wirepool get all`");
                return Err(Error::Invalid(text));
            }
        }
        all.retain(|p| request.properties.is_empty() || request.properties.contains(&p.property));
        Ok(all)
    }

    /// See [`SetProperty`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoVolume`, `Pool`.
    pub async fn set_property(self: &Rc<Self>, request: SetProperty) -> Result<Property> {
        let (name, property) = (request.name, request.property);
        match property.as_str() {
            "volsize" => {
                let resize = ResizeVolume {
                    name: name.clone(),
                    size: size(&request.value)?,
                    shrink: false,
                };
                self.resize_volume(resize).await?;
            }
            "quota" => {
                let quota = match request.value.as_str() {
                    "none" => ByteSize(0),
                    value => size(value)?,
                };
                self.set_limits(&name, Some(quota), None).await?;
            }
            "reservation" => {
                let reservation = size(&request.value)?;
                self.set_limits(&name, None, Some(reservation)).await?;
            }
            "autotrim" => {
                self.set_on(&name, PoolProperty::Autotrim, &request.value)
                    .await?;
            }
            "autoexpand" => {
                self.set_on(&name, PoolProperty::Autoexpand, &request.value)
                    .await?;
            }
            other => {
                let inherited = DatasetProperty::named(other).ok_or_else(|| unknown(other))?;
                let value = inherited.parse(&request.value).ok_or_else(|| {
                    let (values, given) = (inherited.values(), &request.value);
                    Error::Invalid(format!("{other} is {values}, not {given:?}"))
                })?;
                let setting = Setting {
                    value,
                    is_received: false,
                };
                self.set_own(&name, inherited, Some(setting)).await?;
            }
        }
        self.property(name, property)
    }

    /// See [`InheritProperty`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoVolume`, `Pool`.
    pub async fn inherit_property(self: &Rc<Self>, request: InheritProperty) -> Result<Property> {
        let InheritProperty { name, property } = request;
        let Some(inherited) = DatasetProperty::named(&property) else {
            let all: Vec<_> = DatasetProperty::all().map(DatasetProperty::name).collect();
            return Err(Error::Invalid(format!(
                "{property:?} is not inherited; these are: {}",
                all.join(", ")
            )));
        };
        self.set_own(&name, inherited, None).await?;
        self.property(name, property)
    }

    fn property(&self, name: String, property: String) -> Result<Property> {
        let get = GetProperties {
            names: vec![name.clone()],
            properties: vec![property],
        };
        let mut found = self.properties(&get)?;
        found.pop().ok_or(Error::NoDataset(name))
    }

    async fn set_limits(
        &self,
        full: &str,
        quota: Option<ByteSize>,
        reservation: Option<ByteSize>,
    ) -> Result<()> {
        let _turn = self.turn().await?;
        let (pool, class) = self.dataset_named(full)?;
        let (pool_name, name) = names(full)?;
        let now = match class.has_files() {
            true => self.filesystem_named(full)?.1.dataset(),
            false => self.volume_named(full)?.1.dataset(),
        };
        let quota = quota.map_or(now.quota, |q| q.0);
        let reservation = reservation.map_or(now.reservation, |r| r.0);
        let set = pool.set_limits(name, quota, reservation).await;
        set.map_err(|e| limits_failed(pool_name, full, e))
    }

    async fn set_on(&self, name: &str, property: PoolProperty, value: &str) -> Result<()> {
        let on = match value {
            "on" => true,
            "off" => false,
            _ => {
                let text = format!("{property:?} is on or off, not {value:?}").to_lowercase();
                return Err(Error::Invalid(text));
            }
        };
        let _turn = self.turn().await?;
        let pool = self.pool_named(name)?;
        let set = pool.set_property(property, on).await;
        set.map_err(|e| failed(name, e))?;
        self.wake_supervisor(name);
        Ok(())
    }

    /// Sets a property of a volume or pool; without a setting, it is inherited from now on.
    async fn set_own(
        &self,
        full: &str,
        property: DatasetProperty,
        setting: Option<Setting>,
    ) -> Result<()> {
        let _turn = self.turn().await?;
        let (pool, pool_name, dataset) = match full.contains('/') {
            true => {
                let (pool, _) = self.dataset_named(full)?;
                let (pool_name, name) = names(full)?;
                (pool, pool_name, Some(name))
            }
            false => (self.pool_named(full)?, full, None),
        };
        let set = pool.set_own(dataset, property, setting).await;
        set.map_err(|e| match e {
            pool::Error::NoProperty(_) => Error::Invalid(format!("{full:?}: {e}")),
            pool::Error::NotFound => Error::NoVolume(full.to_owned()),
            e => failed(pool_name, e),
        })?;
        for heir in self.volumes() {
            let is_disabled = heir.sync == VolumeSync::Disabled;
            let is_heir = heir.name == full || heir.name.starts_with(&format!("{full}/"));
            if is_heir && is_disabled && property == DatasetProperty::Sync {
                tracing::warn!(volume = heir.name, "{SYNC_DISABLED}");
            }
            if is_heir {
                self.announce(&heir.name);
            }
        }
        Ok(())
    }
}
