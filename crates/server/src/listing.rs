//! Parts of long lists, and the server's state in short: answers whose size does not grow with volumes, exports and sessions.
//!
//! **Owns** filter, order and section of a list. **Called by** the control API, for the web console, which asks every two seconds.
//! **Invariants**: an answer has at most [`ROWS_MAX`] rows, with the fields that were asked for; a row is the object's own answer of the
//! control API, with the few fields that its list adds.

use crate::api::{
    DiskState, ExportRow, HeldObject, ListEvents, ListRows, PoolHistory, RowList, Rows, Summary,
    Writes,
};
use crate::control::Control;
use crate::limits::{ROWS_MAX, SUMMARY_ENTRIES_MAX};
use crate::server::Server;
use crate::wear::COMMAND_AGE;
use crate::{Error, Result, recent_log};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

impl Control {
    /// The state of the server in short. Errors: `Unavailable`.
    pub(crate) async fn summary(&self) -> Result<Summary> {
        let (mut summary, exports) = self
            .server
            .call(|server| async move { (server.summary().await, server.exports()) })
            .await?;
        summary.sessions = self.sessions().len();
        let protocols = self.server.protocols();
        summary.exports = protocols.all().map(|p| p.rows(&exports).len()).sum();
        summary.told = protocols.all().flat_map(|p| p.told()).collect();
        let own = self.facts.warnings.iter().cloned();
        summary.warnings.splice(0..0, own);
        summary.more_warnings = summary.warnings.len().saturating_sub(SUMMARY_ENTRIES_MAX);
        summary.warnings.truncate(SUMMARY_ENTRIES_MAX);
        Ok(summary)
    }

    /// Written bytes of pools and the wear of their disks, without datasets. Errors: `Unavailable`.
    pub(crate) async fn wear_of_pools(&self) -> Result<Writes> {
        let mut writes = self.writes(COMMAND_AGE).await?;
        for pool in &mut writes.pools {
            pool.datasets.clear();
        }
        Ok(writes)
    }

    /// See [`ListRows`]. Errors: `Invalid`, `NoDataset`, `NoPool`, `Unavailable`.
    pub(crate) async fn rows(&self, request: ListRows) -> Result<Rows> {
        if !(1..=ROWS_MAX).contains(&request.count) {
            let message = format!("a part of a list has 1 to {ROWS_MAX} rows");
            return Err(Error::Invalid(message));
        }
        let all = self.all_rows(&request).await?;
        let mut part = part(all, &request);
        if request.list == RowList::Exports {
            part.rows.iter_mut().for_each(shorten_clients);
        }
        Ok(part)
    }

    /// All rows of a list.
    async fn all_rows(&self, request: &ListRows) -> Result<Vec<Value>> {
        let of = request.of.clone();
        let named = |rows: Vec<Value>| match &of {
            Some(name) => rows.into_iter().filter(|r| r["name"] == **name).collect(),
            None => rows,
        };
        let shard = &self.server;
        Ok(match request.list {
            RowList::Disks => named(values(shard.call(|s| async move { s.disks() }).await?)),
            RowList::Volumes => named(values(shard.call(|s| async move { s.volumes() }).await?)),
            RowList::Filesystems => {
                let found = shard.call(|s| async move { s.filesystems() }).await?;
                named(filesystems(values(found), &self.export_rows().await?))
            }
            RowList::Exports => named(values(self.export_rows().await?)),
            RowList::Sessions => values(self.summaries()),
            RowList::Snapshots => {
                // the console asks every two seconds, and not for this
                let is_wanted = |field: &String| field == "used" || field == "used_at_most";
                let counted = request.fields.is_empty() || request.fields.iter().any(is_wanted);
                let of = of.clone();
                let found = shard.call(move |s| async move { s.snapshot_views(of, counted).await });
                snapshots(values(found.await??))
            }
            RowList::Events => {
                let list = ListEvents {
                    pool: of.clone(),
                    after: 0,
                };
                let mut rows = values(shard.call(move |s| async move { s.events(&list) }).await?);
                rows.reverse();
                rows
            }
            RowList::Log => values(recent_log::newest_first()),
            RowList::History => {
                let name = of.clone().ok_or_else(|| {
                    Error::Invalid("the history is that of a pool: name it in `of`".to_owned())
                })?;
                let history =
                    shard.call(|s| async move { s.pool_history(PoolHistory { name }).await });
                let mut rows = values(history.await??);
                rows.reverse();
                rows
            }
            RowList::Written => {
                let (writes, _) = shard.call(|s| async move { s.writes() }).await?;
                let pools = writes.pools.into_iter();
                let pools = pools.filter(|p| of.as_ref().is_none_or(|name| *name == p.name));
                values(pools.flat_map(|p| p.datasets).collect())
            }
        })
    }

    /// The exports of all protocols. Errors: `Unavailable`.
    async fn export_rows(&self) -> Result<Vec<ExportRow>> {
        let mut exports = self.server.call(|s| async move { s.exports() }).await?;
        let sessions = self.sessions();
        let protocols = self.server.protocols();
        for protocol in protocols.all() {
            protocol.count_sessions(&sessions, &mut exports);
        }
        Ok(protocols.all().flat_map(|p| p.rows(&exports)).collect())
    }
}

impl Server {
    /// The part of the state in short that the server's shard knows; all warnings.
    async fn summary(&self) -> Summary {
        let shards = self.shards.status().await;
        let state = self.state.borrow();
        let (volumes, filesystems) = self.dataset_counts();
        let held = |name: &str, reason: &Option<String>| HeldObject {
            name: name.to_owned(),
            reason: reason.clone().unwrap_or_default(),
        };
        let disks = self.disks();
        let held_disks = disks.iter().filter(|d| d.state == DiskState::Held);
        let held_disks = held_disks.map(|d| held(&d.name, &d.reason));
        let silent = shards.iter().filter(|s| !s.answers);
        let silent = silent.map(|s| format!("shard {} does not answer", s.shard));
        let mut pools = state.pools();
        for pool in &mut pools {
            pool.more_damage |= pool.damage.len() > SUMMARY_ENTRIES_MAX;
            pool.damage.truncate(SUMMARY_ENTRIES_MAX);
            pool.sync_disabled.truncate(SUMMARY_ENTRIES_MAX);
        }
        Summary {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: state.server_state(),
            uptime_s: self.started.elapsed().as_secs(),
            listen: state.listening.addresses().to_vec(),
            told: Vec::new(),
            sessions: 0,
            disks: disks.len(),
            volumes,
            filesystems,
            exports: 0,
            pools,
            held_disks: held_disks.take(SUMMARY_ENTRIES_MAX).collect(),
            held_mounts: state.held_mounts().take(SUMMARY_ENTRIES_MAX).collect(),
            warnings: self.warnings(&state).into_iter().chain(silent).collect(),
            more_warnings: 0,
        }
    }
}

fn values<T: Serialize>(rows: Vec<T>) -> Vec<Value> {
    let rows = rows.iter().map(serde_json::to_value);
    rows.filter_map(std::result::Result::ok).collect()
}

/// Filesystems, with the path by which NFS clients mount them.
fn filesystems(mut rows: Vec<Value>, exports: &[ExportRow]) -> Vec<Value> {
    let whole = exports.iter().filter_map(|e| match &e.parts[..] {
        [part] if part.number.is_none() => Some((part.disk.as_str(), e.name.as_str())),
        _ => None,
    });
    let paths: BTreeMap<&str, &str> = whole.collect();
    for row in &mut rows {
        let path = row["name"].as_str().and_then(|name| paths.get(name));
        row["export"] = json!(path);
    }
    rows
}

/// Leaves the first clients of an export, and adds the number of the others.
fn shorten_clients(export: &mut Value) {
    if let Some(clients) = export["clients"].as_array_mut() {
        let more = clients.len().saturating_sub(SUMMARY_ENTRIES_MAX);
        clients.truncate(SUMMARY_ENTRIES_MAX);
        export["more_clients"] = json!(more);
    }
}

/// Snapshots, with their place among the others of their dataset, which the list has in the order of their creation.
fn snapshots(mut rows: Vec<Value>) -> Vec<Value> {
    let dataset = |row: &Value| {
        let name = row["name"].as_str().unwrap_or_default();
        name.split('@').next().unwrap_or_default().to_owned()
    };
    let mut seen = BTreeSet::new();
    for row in rows.iter_mut().rev() {
        row["newest"] = json!(seen.insert(dataset(row)));
        // A filesystem has no size of its own.
        row["is_volume"] = json!(row["size"].as_u64() > Some(0));
    }
    rows
}

/// The part of a list that a request asks for.
fn part(all: Vec<Value>, request: &ListRows) -> Rows {
    let total = all.len();
    let words = request.words.to_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    let has_words = |row: &Value| {
        let mut text = String::new();
        append_texts(row, &mut text);
        words.iter().all(|word| text.contains(word))
    };
    let mut rows: Vec<Value> = match words.is_empty() {
        true => all,
        false => all.into_iter().filter(has_words).collect(),
    };
    if let Some(field) = &request.sort {
        rows.sort_by(|a, b| {
            let order = compare(&a[field.as_str()], &b[field.as_str()]);
            if request.down { order.reverse() } else { order }
        });
    }
    let matching = rows.len();
    let rows = rows.into_iter().skip(request.first).take(request.count);
    Rows {
        total,
        matching,
        rows: rows.map(|row| only(row, &request.fields)).collect(),
    }
}

/// Appends all texts of a row, in lower case, each on a line.
fn append_texts(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(&text.to_lowercase());
            out.push('\n');
        }
        Value::Array(all) => all.iter().for_each(|v| append_texts(v, out)),
        Value::Object(all) => all.values().for_each(|v| append_texts(v, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The order of two values: numbers by value, texts with numbers in them as people count.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            a.total_cmp(&b)
        }
        (Value::String(a), Value::String(b)) => counted(a).cmp(&counted(b)),
        // Values that are unknown come first.
        _ => (!a.is_null()).cmp(&!b.is_null()),
    }
}

/// A text as parts that compare as people count: `vm9` before `vm10`.
fn counted(text: &str) -> Vec<(u64, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count().min(18);
        let (number, after) = rest.split_at(digits);
        let others = after.bytes().take_while(|b| !b.is_ascii_digit()).count();
        let (word, after) = after.split_at(others);
        out.push((number.parse().unwrap_or(0), word.to_lowercase()));
        rest = after;
    }
    out
}

/// A row with these fields only; with all if none is named.
fn only(row: Value, fields: &[String]) -> Value {
    match row {
        Value::Object(mut all) if !fields.is_empty() => {
            let kept = fields.iter();
            let kept = kept.filter_map(|f| all.remove_entry(f.as_str()));
            Value::Object(kept.collect::<BTreeMap<_, _>>().into_iter().collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(fields: &[&str]) -> ListRows {
        let mut request: ListRows =
            serde_json::from_value(json!({"list": "volumes"})).expect("valid");
        request.fields = fields.iter().map(|f| (*f).to_owned()).collect();
        request
    }

    fn rows() -> Vec<Value> {
        let row = |n: u64| {
            json!({"name": format!("tank/vm{n}"), "size": 1000 - n, "origin": null,
                "hosts": [{"nqn": format!("Host{n}")}]})
        };
        (1..=100).map(row).collect()
    }

    fn names(rows: &Rows) -> Vec<&str> {
        rows.rows
            .iter()
            .filter_map(|r| r["name"].as_str())
            .collect()
    }

    #[test]
    fn a_part_has_its_rows_and_fields_and_counts_the_others() {
        let request = ListRows {
            first: 98,
            ..list(&["name", "none"])
        };
        let found = part(rows(), &request);
        assert_eq!((found.total, found.matching), (100, 100));
        assert_eq!(
            found.rows,
            [json!({"name": "tank/vm99"}), json!({"name": "tank/vm100"})]
        );
        let beyond = part(
            rows(),
            &ListRows {
                first: 500,
                ..list(&[])
            },
        );
        assert_eq!((beyond.matching, beyond.rows.len()), (100, 0));
    }

    #[test]
    fn words_are_found_in_any_text_and_case() {
        let request = ListRows {
            words: "host7 TANK".into(),
            ..list(&[])
        };
        let found = part(rows(), &request);
        assert_eq!((found.total, found.matching), (100, 11));
        assert_eq!(names(&found)[..2], ["tank/vm7", "tank/vm70"]);
    }

    #[test]
    fn rows_are_in_the_order_of_a_field() {
        let by = |field: &str, down| ListRows {
            sort: Some(field.into()),
            down,
            count: 3,
            ..list(&[])
        };
        let found = part(rows(), &by("name", true));
        assert_eq!(names(&found), ["tank/vm100", "tank/vm99", "tank/vm98"]);
        let found = part(rows(), &by("size", false));
        assert_eq!(names(&found), ["tank/vm100", "tank/vm99", "tank/vm98"]);
        // A field that no row has leaves the order of the list.
        let found = part(rows(), &by("origin", false));
        assert_eq!(names(&found), ["tank/vm1", "tank/vm2", "tank/vm3"]);
    }

    #[test]
    fn the_newest_snapshot_of_each_dataset_is_marked() {
        let row = |name: &str, size: u64| json!({"name": name, "size": size});
        let all = vec![row("t/a@1", 5), row("t/a@2", 5), row("t/f@1", 0)];
        let marks = |r: &Value| (r["newest"] == true, r["is_volume"] == true);
        let marked: Vec<_> = snapshots(all).iter().map(marks).collect();
        assert_eq!(marked, [(false, true), (true, true), (true, false)]);
    }
}
