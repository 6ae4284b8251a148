//! The console's client of the control API, made of the API's own description.
//!
//! **Owns** the form of `console/api.js`. **Called by** its own test. **Invariants**: every request that the console passes on has a
//! function, and the file is current: a changed description without it fails. `WIREPOOL_BLESS=1` writes it.

use crate::control::openapi;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;

const HEAD: &str = "// Requests of the control API. Made of its description: WIREPOOL_BLESS=1 cargo nextest run -p wirepool-server \
    the_client_is_current\n\nimport { request as r } from \"/call.js\";\n\n";

/// `ListPools` as `listPools`.
fn function(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

/// The fields of a request: required, and optional.
fn fields(document: &Value, operation: &Value) -> (Vec<String>, Vec<String>) {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let named = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next());
    let schema = named.map_or(schema, |name| &document["components"]["schemas"][name]);
    let required = schema["required"].as_array().into_iter().flatten();
    let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
    let empty = Map::new();
    let all = schema["properties"].as_object().unwrap_or(&empty).keys();
    all.cloned()
        .partition(|name| required.contains(name.as_str()))
}

/// The client's file.
fn client(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    let list = |names: &[String]| serde_json::to_string(names).expect("texts");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if path.starts_with("/v1/console/") {
            continue;
        }
        for (method, operation) in methods.as_object().expect("methods") {
            let (required, optional) = fields(document, operation);
            let name = function(operation["operationId"].as_str().expect("a name"));
            let _ = write!(
                out,
                "export const {name} = r(\"{}\", \"{path}\"",
                method.to_uppercase()
            );
            match (required.is_empty(), optional.is_empty()) {
                (true, true) => {}
                (_, true) => {
                    let _ = write!(out, ", {}", list(&required));
                }
                _ => {
                    let _ = write!(out, ", {}, {}", list(&required), list(&optional));
                }
            }
            out.push_str(");\n");
        }
    }
    out
}

#[test]
fn the_client_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/console/api.js");
    let made = client(&openapi());
    if std::env::var_os("WIREPOOL_BLESS").is_some() {
        std::fs::write(path, &made).expect("written");
    }
    let stored = std::fs::read_to_string(path).expect("console/api.js");
    assert!(
        stored == made,
        "console/api.js is not current: see its first line"
    );
}
