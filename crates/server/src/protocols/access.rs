//! Access lists and numbers of exports: changes and warnings.
//!
//! **Called by** the protocols. **Invariants**: a list is the names of clients, or `None` for any client.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The words of a protocol in messages about its exports.
pub(crate) struct Words {
    /// An export: `subsystem`.
    pub(crate) export: &'static str,
    /// A client: `host`.
    pub(crate) client: &'static str,
    /// The name of a client: `a host's NQN`.
    pub(crate) client_name: &'static str,
    /// What clients do with an export: `connect to`.
    pub(crate) verb: &'static str,
    /// A disk in an export: `namespace`.
    pub(crate) unit: &'static str,
    /// The command that adds a disk to an export of this name.
    pub(crate) add_unit: fn(&str) -> String,
}

impl Words {
    /// The list with more names, or any client if `any` is one of the names. Errors: `Conflict` if any client is allowed
    /// already and the names are narrower; those of `parse`.
    pub(crate) fn allow<N: Ord>(
        &self,
        export: &str,
        now: Option<BTreeSet<N>>,
        names: &[String],
        parse: impl Fn(&str) -> Result<N>,
    ) -> Result<Option<BTreeSet<N>>> {
        let is_any = |name: &&String| *name == "any";
        let named = || names.iter().filter(|n| !is_any(n));
        let Some(mut list) = now else {
            if named().next().is_none() {
                return Ok(None);
            }
            return Err(self.allows_any(export));
        };
        for name in named() {
            list.insert(parse(name)?);
        }
        Ok(names.iter().all(|n| !is_any(&n)).then_some(list))
    }

    /// The refusal to change single names of an export that allows any client.
    fn allows_any(&self, export: &str) -> Error {
        let Words { client, verb, .. } = self;
        Error::Conflict(format!(
            "any {client} may {verb} {export}: `wirepool host deny {export} any` first, then allow each {client} by name"
        ))
    }

    /// The list without a name, or an empty list if `any` was allowed and is denied. Errors: `Conflict` if the name is not
    /// on the list; those of `parse`.
    pub(crate) fn deny<N: Ord>(
        &self,
        export: &str,
        now: Option<BTreeSet<N>>,
        name: &str,
        parse: impl Fn(&str) -> Result<N>,
    ) -> Result<BTreeSet<N>> {
        let Some(mut list) = now else {
            if name == "any" {
                return Ok(BTreeSet::new());
            }
            return Err(self.allows_any(export));
        };
        if name == "any" || !list.remove(&parse(name)?) {
            return Err(Error::Conflict(format!(
                "{name} is not on the {} list of {export}",
                self.client
            )));
        }
        Ok(list)
    }

    /// The requested number for a disk in an export, if it is free, or the lowest free one. Errors: `Conflict`.
    pub(crate) fn free_number(
        &self,
        export: &str,
        wanted: Option<u32>,
        mut allowed: RangeInclusive<u32>,
        is_taken: impl Fn(u32) -> bool,
    ) -> Result<u32> {
        let (kind, unit) = (self.export, self.unit);
        match wanted {
            Some(number) if is_taken(number) => Err(Error::Conflict(format!(
                "the {kind} {export} has a {unit} {number} already"
            ))),
            Some(number) => Ok(number),
            None => {
                let count = allowed.clone().count();
                let free = allowed.find(|number| !is_taken(*number));
                free.ok_or_else(|| {
                    Error::Conflict(format!("the {kind} {export} has all {count} {unit}s"))
                })
            }
        }
    }

    /// Warnings about an export without clients or disks.
    pub(crate) fn warnings(
        &self,
        export: &str,
        has_clients: bool,
        has_units: bool,
    ) -> impl Iterator<Item = String> {
        let no_client = (!has_clients).then(|| {
            format!(
                "{export} lets no {} in: `wirepool host allow {export} any`, or {}",
                self.client, self.client_name
            )
        });
        let no_unit = (!has_units).then(|| {
            let add = (self.add_unit)(export);
            format!("{export} has no {}: `{add}`", self.unit)
        });
        no_client.into_iter().chain(no_unit)
    }
}
