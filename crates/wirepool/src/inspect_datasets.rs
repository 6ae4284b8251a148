//! Lists of datasets of `wirepool inspect`, as text and as JSON.
//!
//! **Called by** `inspect`. **Invariants**: as for its other output.

use crate::inspect::Said;
use crate::inspect_text::{hex, human, limit, said, shown};
use crate::table::{table, text};
use pool::format::{DatasetClass, DatasetProperty, Settings};
use pool::inspect::{Contents, Findings, SeenDataset};
use serde_json::{Value as Json, json};

/// The name of a class.
pub(crate) fn class_name(class: DatasetClass) -> &'static str {
    match class {
        DatasetClass::Volume => "volume",
        DatasetClass::Snapshot => "snapshot of a volume",
        DatasetClass::Filesystem => "filesystem",
        DatasetClass::FilesystemSnapshot => "snapshot of a filesystem",
    }
}

/// The own values of a dataset or of the pool, by property.
fn settings_json(settings: &Settings) -> Json {
    let own = DatasetProperty::all().filter_map(|property| {
        let setting = settings.get(property)?;
        let source = if setting.is_received {
            "received"
        } else {
            "local"
        };
        let value = json!({"value": property.show(setting.value), "source": source});
        Some((property.name().to_owned(), value))
    });
    Json::Object(own.collect())
}

fn dataset_json(seen: &SeenDataset) -> Json {
    let (id, name, d) = (seen.id.0, &seen.name, &seen.dataset);
    let holds = seen.holds.iter();
    let holds = holds.map(|hold| json!({"tag": hold.tag, "created_ns": hold.created}));
    json!({"id": id, "name": name, "class": class_name(d.class), "size": d.size, "block_size": d.block_size,
        "record_size": d.record_size, "referenced": seen.root.referenced,
        "logical": seen.root.logical, "compression": d.compression.to_string(),
        "checksum": d.checksum.to_string(),
        "allocated": seen.root.allocated, "list": d.list.0, "holds": holds.collect::<Vec<_>>(),
        "birth": d.birth.0,
        "created_ns": d.created, "sync": format!("{:?}", d.sync).to_lowercase(),
        "of": d.of.map(|id| id.0), "previous": d.previous.map(|id| id.0),
        "origin": d.origin.map(|id| id.0), "quota": d.quota, "reservation": d.reservation,
        "settings": settings_json(&d.settings), "guid": hex(d.guid)})
}

/// The datasets of some classes.
pub(crate) fn datasets(
    contents: &Contents,
    is_shown: impl Fn(DatasetClass) -> bool,
    findings: &Findings,
) -> Said {
    let header = [
        "ID", "NAME", "CLASS", "SIZE", "REFER", "LOGICAL", "ALLOC", "BLOCK", "RECORD", "COMPRESS",
        "CHECKSUM", "SYNC", "BIRTH", "LIST", "QUOTA", "RESERV", "HOLDS", "ORIGIN",
    ];
    let mut t = table(&header, &[0, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16]);
    let mut list = Vec::new();
    for seen in contents
        .datasets
        .values()
        .filter(|d| is_shown(d.dataset.class))
    {
        let d = &seen.dataset;
        let origin = d.origin.and_then(|id| contents.datasets.get(&id));
        t.add_row([
            seen.id.0.to_string(),
            shown(&seen.name),
            class_name(d.class).to_owned(),
            human(d.size),
            human(seen.root.referenced),
            human(seen.root.logical),
            human(seen.root.allocated),
            d.block_size.to_string(),
            d.record_size.to_string(),
            d.compression.to_string(),
            d.checksum.to_string(),
            format!("{:?}", d.sync).to_lowercase(),
            d.birth.0.to_string(),
            d.list.0.to_string(),
            limit(d.quota),
            limit(d.reservation),
            seen.holds.len().to_string(),
            origin.map_or("-".into(), |o| shown(&o.name)),
        ]);
        list.push(dataset_json(seen));
    }
    let mut out = text(&t);
    out.push_str("as of the checkpoint; later changes are in the journal\n");
    let on = contents
        .properties
        .iter()
        .map(|p| format!("{p:?}").to_lowercase());
    let on: Vec<_> = on.collect();
    if !on.is_empty() {
        out += &format!("on: {}\n", on.join(", "));
    }
    let settings = settings_json(&contents.settings);
    let json = json!({"datasets": list, "on": on, "settings": settings});
    said(out, json, findings)
}
