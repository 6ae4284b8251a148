//! Facts of this machine and its server for `wirepool bench report`, as the commands print them with `--json`.
//!
//! **Called by** `main`. **Invariants**: nothing is changed; facts that cannot be had are named with the reason.

use crate::ask::Ask;
use crate::{doctor_command, why};
use lab::cli::Surroundings;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// How long the server is watched.
const WATCH: Duration = Duration::from_secs(3);

/// The doctor's report, and the stages of the server's requests.
pub(crate) fn examine(control: Option<PathBuf>) -> Surroundings {
    let mut found = Surroundings::default();
    add(
        &mut found,
        "doctor",
        Ok(doctor_command::report(control.clone())),
    );
    let stages = why::watch(&Ask::new(control, true), None, WATCH);
    add(&mut found, "stages of requests", stages);
    found
}

fn add<T: Serialize>(found: &mut Surroundings, name: &str, output: anyhow::Result<T>) {
    let value = output.and_then(|output| Ok(serde_json::to_value(output)?));
    match value {
        Ok(value) => found.outputs.push(value),
        Err(e) => found.missing.push(format!("{name}: {e:#}")),
    }
}
