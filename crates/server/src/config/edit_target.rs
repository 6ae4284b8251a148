//! Live changes of targets, made in the configuration's text.
//!
//! **Called by** [`super::Edit`]. **Invariants**: those of all edits.

use super::LunConfig;
use super::edit::{remove, set_entries, tables};
use iscsi::target::Acl;
use iscsi::wire::IscsiName;
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// One change of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetEdit {
    /// It is new, without logical units.
    Add,
    /// It is no longer there, nor are its logical units.
    Remove,
    /// A new logical unit.
    AddLun(LunConfig),
    /// A logical unit is no longer there.
    RemoveLun(u16),
    /// Who may log in.
    SetInitiators(Acl),
    /// The name with which initiators prove themselves, if they have to.
    SetChap(Option<String>),
}

/// Names are the same whatever the case of their letters.
fn is_of(table: &Table, iqn: &IscsiName) -> bool {
    let name = table.get("iqn").and_then(Item::as_str);
    name.is_some_and(|n| n.eq_ignore_ascii_case(iqn.as_str()))
}

fn target<'a>(document: &'a mut DocumentMut, iqn: &IscsiName) -> Option<&'a mut Table> {
    tables(document.as_table_mut(), "target")?
        .iter_mut()
        .find(|t| is_of(t, iqn))
}

impl TargetEdit {
    pub(super) fn apply(&self, document: &mut DocumentMut, iqn: &IscsiName) {
        match self {
            TargetEdit::Add => {
                if let Some(targets) = tables(document.as_table_mut(), "target") {
                    let mut table = Table::new();
                    table["iqn"] = value(iqn.as_str());
                    table["initiators"] = value(Array::new());
                    targets.push(table);
                }
            }
            TargetEdit::Remove => remove(document.as_table_mut(), "target", |t| is_of(t, iqn)),
            other => {
                if let Some(table) = target(document, iqn) {
                    other.apply_to(table);
                }
            }
        }
    }

    fn apply_to(&self, target: &mut Table) {
        match self {
            TargetEdit::Add | TargetEdit::Remove => {}
            TargetEdit::AddLun(lun) => {
                if let Some(luns) = tables(target, "lun") {
                    luns.push(lun_table(lun));
                }
            }
            TargetEdit::RemoveLun(lun) => {
                let number = Some(i64::from(*lun));
                remove(target, "lun", |l| {
                    l.get("lun").and_then(Item::as_integer) == number
                });
            }
            TargetEdit::SetInitiators(acl) => {
                let wanted: Vec<&str> = match acl {
                    Acl::Any => vec!["any"],
                    Acl::List(names) => names.iter().map(IscsiName::as_str).collect(),
                };
                let item = target.entry("initiators").or_insert(value(Array::new()));
                if let Some(list) = item.as_array_mut() {
                    set_entries(list, &wanted);
                }
            }
            TargetEdit::SetChap(Some(user)) => target["chap"] = value(user),
            TargetEdit::SetChap(None) => {
                target.remove("chap");
            }
        }
    }
}

fn lun_table(lun: &LunConfig) -> Table {
    let mut table = Table::new();
    table["lun"] = value(i64::from(lun.lun));
    table["disk"] = value(&lun.disk);
    table["uuid"] = value(lun.uuid.to_string());
    if lun.read_only {
        table["read_only"] = value(true);
    }
    table
}
