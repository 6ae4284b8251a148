//! Live changes of targets, made in the configuration's text.
//!
//! **Called by** live changes. **Invariants**: those of all edits.

use super::{ChapNames, LunConfig};
use crate::config::edit::{Edit, remove, set_list, set_text, tables};
use iscsi::portal::{Acl, Redirect};
use iscsi::wire::IscsiName;
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// New CHAP names of discovery sessions, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryEdit(pub Option<ChapNames>);

impl Edit for DiscoveryEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let iscsi = document.entry("iscsi").or_insert(Item::Table(Table::new()));
        if let Some(iscsi) = iscsi.as_table_mut() {
            let keys = ["discovery_chap", "discovery_chap_mutual"];
            set_chap(iscsi, keys, self.0.as_ref());
        }
    }
}

/// A change of the target of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetEdit(pub IscsiName, pub TargetChange);

/// One change of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetChange {
    /// A new target without logical units.
    Add,
    /// The target was removed with its logical units.
    Remove,
    /// A new logical unit.
    AddLun(LunConfig),
    /// A logical unit was removed.
    RemoveLun(u16),
    /// New list of initiators.
    SetInitiators(Acl),
    /// CHAP names, if any.
    SetChap(Option<ChapNames>),
    /// New redirection, if any.
    SetMoved(Option<Redirect>),
}

/// Whether the table is that of `iqn`; case is ignored.
fn is_of(table: &Table, iqn: &IscsiName) -> bool {
    let name = table.get("iqn").and_then(Item::as_str);
    name.is_some_and(|n| n.eq_ignore_ascii_case(iqn.as_str()))
}

fn target<'a>(document: &'a mut DocumentMut, iqn: &IscsiName) -> Option<&'a mut Table> {
    tables(document.as_table_mut(), "target")?
        .iter_mut()
        .find(|t| is_of(t, iqn))
}

impl Edit for TargetEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let TargetEdit(iqn, change) = self;
        match change {
            TargetChange::Add => {
                if let Some(targets) = tables(document.as_table_mut(), "target") {
                    let mut table = Table::new();
                    table["iqn"] = value(iqn.as_str());
                    table["initiators"] = value(Array::new());
                    targets.push(table);
                }
            }
            TargetChange::Remove => remove(document.as_table_mut(), "target", |t| is_of(t, iqn)),
            other => {
                if let Some(table) = target(document, iqn) {
                    other.apply_to(table);
                }
            }
        }
    }
}

impl TargetChange {
    fn apply_to(&self, target: &mut Table) {
        match self {
            TargetChange::Add | TargetChange::Remove => {}
            TargetChange::AddLun(lun) => {
                if let Some(luns) = tables(target, "lun") {
                    luns.push(lun_table(lun));
                }
            }
            TargetChange::RemoveLun(lun) => {
                let number = Some(i64::from(*lun));
                remove(target, "lun", |l| {
                    l.get("lun").and_then(Item::as_integer) == number
                });
            }
            TargetChange::SetInitiators(acl) => {
                let wanted: Vec<&str> = match acl {
                    Acl::Any => vec!["any"],
                    Acl::List(names) => names.iter().map(IscsiName::as_str).collect(),
                };
                set_list(target, "initiators", &wanted);
            }
            TargetChange::SetChap(names) => {
                set_chap(target, ["chap", "chap_mutual"], names.as_ref())
            }
            TargetChange::SetMoved(moved) => {
                set_text(target, "moved_to", moved.as_ref().map(|m| &*m.address));
                target.remove("moved_permanently");
                if moved.as_ref().is_some_and(|m| m.permanently) {
                    target["moved_permanently"] = value(true);
                }
            }
        }
    }
}

/// Sets the CHAP names under two keys: the initiators' and ours.
fn set_chap(table: &mut Table, keys: [&str; 2], names: Option<&ChapNames>) {
    let [initiator, target] = keys;
    set_text(table, initiator, names.map(|n| &*n.initiator));
    set_text(table, target, names.and_then(|n| n.target.as_deref()));
}

fn lun_table(lun: &LunConfig) -> Table {
    let mut table = Table::new();
    table["lun"] = value(i64::from(lun.lun));
    table["disk"] = value(&lun.disk);
    table["uuid"] = value(lun.uuid.to_string());
    if lun.read_only {
        table["read_only"] = value(true);
    }
    if let Some(percent) = lun.threshold {
        table["threshold"] = value(i64::from(percent));
    }
    table
}
