//! Properties of pools and volumes, by name.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: values and their sources come from the pool; setting
//! a property uses the request for that change, if there is one. Properties that datasets inherit are those of the pool's
//! table ([`DatasetProperty`]).

use super::change::failed;
use super::convert::{limit, limit_text, record_size, size};
use super::entry::full_name;
use super::filesystems::OwnerProperty;
use super::lineage::limits_failed;
use super::names::{is_at, names};
use super::view::compression_warning;
use crate::api::{
    self, GetProperties, InheritProperty, Property, PropertySource, ResizeVolume, SYNC_DISABLED,
    SetProperty, VolumeSync,
};
use crate::config::ExportedAs;
use crate::server::Server;
use crate::size::ByteSize;
use crate::word::word;
use crate::{Error, Result};
use pool::format::{
    DatasetKind, DatasetProperty, PoolProperty, Setting, TEXT_SIZE_MAX, TextProperty, TextSetting,
};
use pool::{Pool, Source};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Properties of volumes and pools that can be set and are not inherited.
const NOT_INHERITED: [&str; 5] = ["volsize", "quota", "reservation", "autotrim", "autoexpand"];

/// Properties of filesystems that only a creation sets.
const CREATION_ONLY: [&str; 1] = ["casesensitivity"];

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

    /// Adds the limits of a dataset with its snapshots.
    fn limits(&mut self, quota: u64, reservation: u64) {
        self.own("quota", limit_text(quota), true, quota == 0);
        self.own(
            "reservation",
            limit_text(reservation),
            true,
            reservation == 0,
        );
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

    /// Adds the properties of the pool's table: of a dataset, all that its class has; of a pool, all that its datasets inherit.
    fn of_table(&mut self, pool: &Pool, dataset: Option<(&str, DatasetKind)>) {
        let pool_name = pool.vdevs().name();
        for property in DatasetProperty::all() {
            let is_there = match dataset {
                Some((_, class)) => property.is_of(class),
                None => is_of_pools(property),
            };
            if !is_there {
                continue;
            }
            let dataset = dataset.map(|(name, _)| name);
            let Some((value, found)) = pool.property(dataset, property) else {
                continue;
            };
            let (source, from) = origin(&pool_name, found);
            let value = property.show(value).unwrap_or_default();
            let warns = property == DatasetProperty::Sync && value == word(VolumeSync::Disabled);
            let has_no_effect = match property {
                DatasetProperty::Compression => dataset
                    .and_then(|name| pool.volume(name))
                    .and_then(|volume| compression_warning(pool, &volume.dataset())),
                _ => None,
            };
            let is_size = match property {
                DatasetProperty::Refquota
                | DatasetProperty::Recordsize
                | DatasetProperty::SpecialSmallBlocks => true,
                DatasetProperty::Autodefrag => value.parse::<u64>().is_ok(),
                _ => false,
            };
            self.add(property.name(), value, is_size, source);
            if let Some(added) = self.all.last_mut() {
                added.inherited_from = from;
                added.warning = warns.then(|| SYNC_DISABLED.to_owned()).or(has_no_effect);
            }
        }
        for property in TextProperty::all() {
            if dataset.is_some_and(|(_, class)| !property.is_of(class)) {
                continue;
            }
            if let Some((text, found)) = pool.text(dataset.map(|(name, _)| name), property) {
                let (source, from) = origin(&pool_name, found);
                self.add(property.name(), text, false, source);
                if let Some(added) = self.all.last_mut() {
                    added.inherited_from = from;
                }
            }
        }
    }
}

/// The origin of a value, and the dataset or pool that it is inherited from.
fn origin(pool_name: &str, found: Source) -> (PropertySource, Option<String>) {
    match found {
        Source::Local => (PropertySource::Local, None),
        Source::Received => (PropertySource::Received, None),
        Source::Default => (PropertySource::Default, None),
        Source::FromPool => (PropertySource::Inherited, Some(pool_name.to_owned())),
        Source::Inherited(above) => (
            PropertySource::Inherited,
            Some(full_name(pool_name, &above)),
        ),
    }
}

/// The number that a request's text means as the value of a property. Errors: `Invalid`.
pub(super) fn bytes_or_value(property: DatasetProperty, text: &str) -> Result<u64> {
    if property == DatasetProperty::Refquota {
        return limit(text).map(|limit| limit.0);
    }
    let value = match property {
        DatasetProperty::Recordsize | DatasetProperty::SpecialSmallBlocks => {
            property.parse(&size(text)?.0.to_string())
        }
        DatasetProperty::Autodefrag if text.starts_with(|c: char| c.is_ascii_digit()) => {
            property.parse(&size(text)?.0.to_string())
        }
        _ => property.parse(text),
    };
    value.ok_or_else(|| {
        let (name, values) = (property.name(), property.values());
        Error::Invalid(format!("{name} is {values}, not {text:?}"))
    })
}

/// The error for a property that was not set.
fn set_failed(pool_name: &str, full: &str, e: pool::Error) -> Error {
    match e {
        pool::Error::NoProperty(_) => Error::Invalid(format!("{full:?}: {e}")),
        pool::Error::NotFound => Error::NoVolume(full.to_owned()),
        e => failed(pool_name, e),
    }
}

/// Whether datasets can inherit a property from a pool. A pool has a property `readonly` of its own, which is no filesystem's.
fn is_of_pools(property: DatasetProperty) -> bool {
    property.is_inherited() && property != DatasetProperty::Readonly
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
        out.of_table(pool, None);
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
        out.of_table(pool, Some((name, DatasetKind::Volume)));
    }
    out.limits(v.quota, v.reservation);
    out.push("exported", v.exported_as.name().unwrap_or("-"), false);
    out.all
}

/// The error for a property that cannot be set.
pub(super) fn unknown(property: &str) -> Error {
    if CREATION_ONLY.contains(&property) {
        let text = format!("{property} is set when the filesystem is created, and never changes");
        return Error::Invalid(text);
    }
    let own = NOT_INHERITED.into_iter();
    let all: Vec<&str> = own
        .chain(DatasetProperty::all().map(DatasetProperty::name))
        .chain(TextProperty::all().map(TextProperty::name))
        .collect();
    Error::Invalid(format!(
        "{property:?} cannot be set; these can: {}",
        all.join(", ")
    ))
}

/// Whether names of a filesystem that differ only in case are the same. `None` if that cannot be read.
async fn case_sensitivity(full: &str, pool: Option<&Pool>) -> Option<Property> {
    let (_, name) = names(full).ok()?;
    let store = pool?.filesystem(name)?;
    let is_insensitive = store.is_case_insensitive().await.ok()?;
    let mut out = Properties {
        name: full,
        all: Vec::new(),
    };
    let value = match is_insensitive {
        true => "insensitive",
        false => "sensitive",
    };
    out.push("casesensitivity", value, false);
    out.all.pop()
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
    out.size("referenced", f.referenced);
    out.size("logicalused", f.logical);
    out.push("compressratio", ratio(f.logical, f.referenced), false);
    if let (Some(pool), Ok((_, name))) = (pool, names(&f.name)) {
        out.of_table(pool, Some((name, DatasetKind::Filesystem)));
    }
    out.limits(f.quota, f.reservation);
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
    pub async fn properties(&self, request: &GetProperties) -> Result<Vec<Property>> {
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
            let pool = self.open_pool(pool);
            all.extend(of_filesystem(&filesystem, pool.as_deref()));
            all.extend(case_sensitivity(&filesystem.name, pool.as_deref()).await);
        }
        all.extend(self.owner_properties(request).await?);
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
                let quota = limit(&request.value)?;
                self.set_limits(&name, Some(quota), None).await?;
            }
            "reservation" => {
                let reservation = limit(&request.value)?;
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
            other if let Some(text) = TextProperty::named(other) => {
                let setting = self.text_setting(request.value)?;
                self.set_own_text(&name, text, Some(setting)).await?;
            }
            other if let Some(of_owner) = OwnerProperty::named(other) => {
                self.set_owner_quota(&name, of_owner, &request.value)
                    .await?;
            }
            other => {
                let inherited = DatasetProperty::named(other).ok_or_else(|| unknown(other))?;
                let value = bytes_or_value(inherited, &request.value)?;
                let setting = Setting {
                    value,
                    is_received: false,
                };
                let is_removed = inherited == DatasetProperty::Refquota && value == 0;
                let setting = (!is_removed).then_some(setting);
                self.set_own(&name, inherited, setting).await?;
            }
        }
        self.property(name, property).await
    }

    /// See [`InheritProperty`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoVolume`, `Pool`.
    pub async fn inherit_property(self: &Rc<Self>, request: InheritProperty) -> Result<Property> {
        let InheritProperty { name, property } = request;
        if let Some(text) = TextProperty::named(&property) {
            self.set_own_text(&name, text, None).await?;
            return self.property(name, property).await;
        }
        let inherited = DatasetProperty::named(&property).filter(|p| p.is_inherited());
        let Some(inherited) = inherited else {
            let all = DatasetProperty::all().filter(|p| p.is_inherited());
            let texts = TextProperty::all().map(TextProperty::name);
            let all: Vec<_> = all.map(DatasetProperty::name).chain(texts).collect();
            return Err(Error::Invalid(format!(
                "{property:?} is not inherited; these are: {}",
                all.join(", ")
            )));
        };
        self.set_own(&name, inherited, None).await?;
        self.property(name, property).await
    }

    async fn property(&self, name: String, property: String) -> Result<Property> {
        let get = GetProperties {
            names: vec![name.clone()],
            properties: vec![property],
        };
        let mut found = self.properties(&get).await?;
        let mut found = found.pop().ok_or(Error::NoDataset(name))?;
        if found.property == TextProperty::Sharenfs.name() && found.value != "off" {
            let export = self.state.borrow().file.config().exported_as(&found.name);
            let warning = |export: ExportedAs| {
                format!("it is exported as {export}, which counts, not this property")
            };
            found.warning = export.map(warning);
        }
        Ok(found)
    }

    /// A text for `sharenfs`. Errors: `Invalid`.
    pub(super) fn text_setting(&self, text: String) -> Result<TextSetting> {
        let mut exports = self.protocols.filesystem_exports();
        let checked = exports.try_for_each(|e| e.check_share(&text));
        checked.map_err(|reason| Error::Invalid(format!("sharenfs: {reason}")))?;
        if !TextProperty::is_text(&text) {
            return Err(Error::Invalid(format!(
                "sharenfs has at most {TEXT_SIZE_MAX} bytes: export the filesystem with `wirepool export nfs`, which takes more clients"
            )));
        }
        Ok(TextSetting {
            text,
            is_received: false,
        })
    }

    /// Sets a text of a filesystem or pool, and makes the exports follow; without a setting, it is inherited from now on.
    async fn set_own_text(
        self: &Rc<Self>,
        full: &str,
        property: TextProperty,
        setting: Option<TextSetting>,
    ) -> Result<()> {
        let _turn = self.turn().await?;
        let (pool, pool_name, dataset) = self.settable(full)?;
        let set = pool.set_text(dataset, property, setting).await;
        set.map_err(|e| set_failed(pool_name, full, e))?;
        self.follow_shares().await;
        Ok(())
    }

    /// The pool of a dataset or pool of this name, the pool's name, and the dataset's.
    fn settable<'a>(&self, full: &'a str) -> Result<(Rc<Pool>, &'a str, Option<&'a str>)> {
        Ok(match full.contains('/') {
            true => {
                let (pool, _) = self.dataset_named(full)?;
                let (pool_name, name) = names(full)?;
                (pool, pool_name, Some(name))
            }
            false => (self.pool_named(full)?, full, None),
        })
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
        let (pool, pool_name, dataset) = self.settable(full)?;
        if dataset.is_none() && !is_of_pools(property) {
            let name = property.name();
            let text =
                format!("{full:?}: {name} cannot be set on a pool: set it on its filesystems");
            return Err(Error::Invalid(text));
        }
        if property == DatasetProperty::Recordsize
            && let Some(setting) = setting
        {
            record_size(ByteSize(setting.value), pool.vdevs().sector())?;
        }
        let disabled = self.sync_disabled(full);
        if property == DatasetProperty::Readonly {
            // writes that only the kernel has would be refused
            for heir in self.filesystems().iter().filter(|f| is_at(&f.name, full)) {
                self.sync_mount(&heir.name).await?;
            }
        }
        let set = pool.set_own(dataset, property, setting).await;
        set.map_err(|e| set_failed(pool_name, full, e))?;
        for heir in self.sync_disabled(full).difference(&disabled) {
            tracing::warn!(dataset = heir, "{SYNC_DISABLED}");
        }
        for heir in self.volumes().iter().filter(|v| is_at(&v.name, full)) {
            self.announce(&heir.name);
        }
        Ok(())
    }

    /// The datasets at and below a name whose `sync` is disabled.
    fn sync_disabled(&self, top: &str) -> BTreeSet<String> {
        let volumes = self.volumes().into_iter().map(|v| (v.name, v.sync));
        let filesystems = self.filesystems().into_iter().map(|f| (f.name, f.sync));
        let all = volumes.chain(filesystems);
        let found = all.filter(|(name, sync)| *sync == VolumeSync::Disabled && is_at(name, top));
        found.map(|(name, _)| name).collect()
    }
}
