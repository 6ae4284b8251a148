//! Live changes of the configuration, made in its text.
//!
//! **Called by** [`super::ConfigFile`], with the edits of disks, pools and protocols. **Invariants**: comments, order and
//! spelling of the other keys stay. An edit does not check: the edited text is parsed and checked as a whole.

use std::fmt::Debug;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, value};

/// One change.
pub trait Edit: Debug {
    /// Makes the change.
    fn apply(&self, document: &mut DocumentMut);
}

/// The array of tables under `key`, created if it does not exist; an array of inline tables becomes one.
pub(crate) fn tables<'a>(parent: &'a mut Table, key: &str) -> Option<&'a mut ArrayOfTables> {
    let item = parent
        .entry(key)
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let old = std::mem::take(item);
        *item = match old.into_array_of_tables() {
            Ok(tables) => Item::ArrayOfTables(tables),
            Err(other) => other,
        };
    }
    item.as_array_of_tables_mut()
}

pub(crate) fn is(table: &Table, key: &str, text: &str) -> bool {
    table.get(key).and_then(Item::as_str) == Some(text)
}

pub(crate) fn find<'a>(
    tables: &'a mut ArrayOfTables,
    key: &str,
    text: &str,
) -> Option<&'a mut Table> {
    tables.iter_mut().find(|t| is(t, key, text))
}

pub(crate) fn remove(parent: &mut Table, key: &str, same: impl Fn(&Table) -> bool) {
    if let Some(tables) = tables(parent, key) {
        tables.retain(|t| !same(t));
        if tables.is_empty() {
            parent.remove(key);
        }
    }
}

/// Replaces a value and keeps the comment behind it.
pub(crate) fn set(item: &mut Item, new: toml_edit::Value) {
    let decor = item.as_value().map(|v| v.decor().clone());
    *item = Item::Value(new);
    if let (Some(v), Some(d)) = (item.as_value_mut(), decor) {
        *v.decor_mut() = d;
    }
}

/// Sets the array under `key`, entry by entry: comments of the entries that remain stay.
pub(crate) fn set_list(table: &mut Table, key: &str, wanted: &[&str]) {
    let item = table.entry(key).or_insert(value(Array::new()));
    if let Some(list) = item.as_array_mut() {
        set_entries(list, wanted);
    }
}

/// Sets the text under `key`, or removes it.
pub(crate) fn set_text(table: &mut Table, key: &str, text: Option<&str>) {
    match text {
        Some(text) => table[key] = value(text),
        None => {
            table.remove(key);
        }
    }
}

/// Changes an array entry by entry, so that the comments of remaining entries stay.
fn set_entries(list: &mut Array, wanted: &[&str]) {
    for at in (0..list.len()).rev() {
        if !list
            .get(at)
            .and_then(toml_edit::Value::as_str)
            .is_some_and(|h| wanted.contains(&h))
        {
            remove_entry(list, at);
        }
    }
    for h in wanted {
        if !list.iter().any(|v| v.as_str() == Some(h)) {
            list.push(*h);
        }
    }
}

/// Removes an entry of an array and the comment behind it, which the text stores in front of the next entry.
fn remove_entry(list: &mut Array, at: usize) {
    let removed = list.remove(at);
    let before = removed
        .decor()
        .prefix()
        .and_then(RawString::as_str)
        .unwrap_or_default();
    let comment_before = before.split('\n').next().unwrap_or_default();
    let shift = |next: &str| {
        next.split_once('\n')
            .map(|(_, rest)| format!("{comment_before}\n{rest}"))
    };
    match list.get_mut(at).map(toml_edit::Value::decor_mut) {
        Some(decor) => {
            if let Some(prefix) = decor.prefix().and_then(RawString::as_str).and_then(shift) {
                decor.set_prefix(prefix);
            }
        }
        None => {
            if let Some(trailing) = list.trailing().as_str().and_then(shift) {
                list.set_trailing(trailing);
            }
        }
    }
}
