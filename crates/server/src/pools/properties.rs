//! Properties of pools and volumes, by name.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: values come from the pool; setting a
//! property uses the request for that change, if there is one.

use super::change::failed;
use super::lineage::limits_failed;
use super::names::names;
use super::volumes::{checksum, compression};
use crate::api::{
    self, GetProperties, Property, ResizeVolume, SYNC_DISABLED, SetProperty, VolumeSync,
};
use crate::server::Server;
use crate::size::ByteSize;
use crate::word::word;
use crate::{Error, Result};
use pool::format::{Dataset, PoolProperty, Sync};
use std::rc::Rc;

/// Properties of volumes and pools that can be set.
const SETTABLE: [&str; 8] = [
    "volsize",
    "sync",
    "compression",
    "checksum",
    "quota",
    "reservation",
    "autotrim",
    "autoexpand",
];

struct Properties<'a> {
    name: &'a str,
    all: Vec<Property>,
}

impl Properties<'_> {
    fn push(&mut self, property: &str, value: impl ToString, is_size: bool) {
        self.all.push(Property {
            name: self.name.to_owned(),
            property: property.to_owned(),
            value: value.to_string(),
            is_size,
            settable: SETTABLE.contains(&property),
            warning: None,
        });
    }

    fn size(&mut self, property: &str, bytes: u64) {
        self.push(property, bytes, true);
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

fn of_pool(p: &api::Pool) -> Vec<Property> {
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
    out.push("autotrim", on(p.autotrim), false);
    out.push("autoexpand", on(p.autoexpand), false);
    out.all
}

fn of_volume(v: &api::Volume) -> Vec<Property> {
    let mut out = Properties {
        name: &v.name,
        all: Vec::new(),
    };
    out.push("type", "volume", false);
    out.push("creation", v.created_ms, false);
    out.size("used", v.used);
    out.size("volsize", v.size);
    out.size("volblocksize", v.block_size.into());
    out.size("recordsize", v.record_size.into());
    out.size("referenced", v.referenced);
    out.size("logicalused", v.logical);
    out.push("compressratio", ratio(v.logical, v.referenced), false);
    out.push("compression", &v.compression, false);
    out.push("checksum", &v.checksum, false);
    out.push("sync", word(v.sync), false);
    if let Some(sync) = out
        .all
        .last_mut()
        .filter(|_| v.sync == VolumeSync::Disabled)
    {
        sync.warning = Some(SYNC_DISABLED.to_owned());
    }
    out.size("quota", v.quota);
    out.size("reservation", v.reservation);
    out.push("exported", v.exported_as.name().unwrap_or("-"), false);
    out.all
}

impl Server {
    /// See [`GetProperties`]. Errors: `NoPool`, `NoVolume`, `Invalid` if nothing has such a property.
    pub fn properties(&self, request: &GetProperties) -> Result<Vec<Property>> {
        let mut all: Vec<Property> = self.pools().iter().flat_map(of_pool).collect();
        all.extend(self.volumes().iter().flat_map(of_volume));
        for name in &request.names {
            if !all.iter().any(|p| p.name == *name) {
                return Err(match name.contains('/') {
                    true => Error::NoVolume(name.clone()),
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
            "sync" => {
                let sync = sync(&request.value)?;
                self.change_volume(&name, |d| d.sync = sync).await?;
                if sync == Sync::Disabled {
                    tracing::warn!(volume = name, "{SYNC_DISABLED}");
                }
            }
            "compression" => {
                let compression = compression(&request.value)?;
                let change = |d: &mut Dataset| d.compression = compression;
                self.change_volume(&name, change).await?;
            }
            "checksum" => {
                let checksum = checksum(&request.value)?;
                self.change_volume(&name, |d| d.checksum = checksum).await?;
            }
            _ => {
                let text = format!(
                    "{property:?} cannot be set; these can: {}",
                    SETTABLE.join(", ")
                );
                return Err(Error::Invalid(text));
            }
        }
        let get = GetProperties {
            names: vec![name.clone()],
            properties: vec![property],
        };
        let mut found = self.properties(&get)?;
        found.pop().ok_or(Error::NoVolume(name))
    }

    async fn set_limits(
        &self,
        full: &str,
        quota: Option<ByteSize>,
        reservation: Option<ByteSize>,
    ) -> Result<()> {
        let _turn = self.turn().await?;
        let (pool, volume) = self.volume_named(full)?;
        let (pool_name, name) = names(full)?;
        let now = volume.dataset();
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

    async fn change_volume(&self, full: &str, change: impl Fn(&mut Dataset)) -> Result<()> {
        let _turn = self.turn().await?;
        let (pool, _) = self.volume_named(full)?;
        let (pool_name, name) = names(full)?;
        let changed = pool.change_volume(name, change).await;
        changed.map_err(|e| Error::Pool {
            name: pool_name.to_owned(),
            reason: e.to_string(),
        })?;
        self.announce(full);
        Ok(())
    }
}

fn sync(value: &str) -> Result<Sync> {
    match value {
        "standard" => Ok(Sync::Standard),
        "always" => Ok(Sync::Always),
        "disabled" => Ok(Sync::Disabled),
        _ => {
            let text = format!("sync is standard, always or disabled, not {value:?}");
            Err(Error::Invalid(text))
        }
    }
}
