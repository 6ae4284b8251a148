//! `wirepool bench report`.

use super::coordinator::block_on;
use super::report_args::ReportArgs;
use crate::Result;
use crate::plan::Machine;
use crate::report::overview::input::{read, recognize};
use crate::report::overview::{Overview, render};
use crate::terminal::write;
use serde_json::Value;

/// Facts of this machine and its server, in the form of the JSON of commands.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Outputs of commands.
    pub outputs: Vec<Value>,
    /// Reasons why an output is missing.
    pub missing: Vec<String>,
}

/// Writes the page. Errors: `File`; `Contents` for a file that no command printed.
pub(super) fn report(args: &ReportArgs, examine: impl FnOnce() -> Surroundings) -> Result<()> {
    let stored = args.files.iter().map(|path| read(path));
    let mut inputs = stored.collect::<Result<Vec<_>>>()?;
    let surroundings = match args.stored_only {
        true => Surroundings::default(),
        false => examine(),
    };
    let mut missing = surroundings.missing;
    for output in surroundings.outputs {
        match recognize(output) {
            Ok(input) => inputs.push(input),
            Err(why) => missing.push(why),
        }
    }
    let at_ms = block_on(async { Ok(io::time::wall_clock_ms()) })?;
    let page = render(&Overview {
        title: args.title.clone(),
        machine: Machine::here(),
        at_ms,
        inputs,
        missing,
    });
    write(&args.html, &page)
}
