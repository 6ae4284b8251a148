//! `wirepool probe`.

use super::coordinator::block_on;
use super::network_args::{Probe, ProbeCommand};
use super::probe_output::{deliver, is_live, say};
use crate::Result;
use crate::probe::network::{render, run, serve};
use crate::probe::{Interrupt, verdict::Limit};

/// Runs `wirepool probe`. Returns whether a measurement has a result.
pub(super) fn run_probe(args: &Probe, json: bool) -> Result<bool> {
    let interrupt = Interrupt::on_signals()?;
    match &args.command {
        ProbeCommand::Serve(args) => {
            let plan = args.plan();
            block_on(async move { serve::serve(plan, &interrupt, say).await })?;
            Ok(true)
        }
        ProbeCommand::Run(args) => {
            let (plan, live) = (args.plan()?, is_live(false, json));
            let result = block_on(async move {
                let each = |line: &str| {
                    if live {
                        say(line);
                    }
                };
                run::run(plan, &interrupt, each).await
            })?;
            deliver(&result, json, || render(&result))?;
            Ok(result.verdict.limit != Limit::Mixed)
        }
    }
}
