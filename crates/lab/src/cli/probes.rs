//! `wirepool ping` and `wirepool ioping`.

use super::coordinator::block_on;
use super::probe_args::{Ioping, Ping};
use super::probe_output::{deliver, is_live, say};
use crate::Result;
use crate::probe::ioping::way;
use crate::probe::verdict::Limit;
use crate::probe::{Interrupt, ioping, ioping_line, ioping_text, ping, ping_line, ping_text};

/// Runs `wirepool ping`. Returns whether every kind of request was answered.
pub(super) fn run_ping(args: &Ping, json: bool) -> Result<bool> {
    let interrupt = Interrupt::on_signals()?;
    let (plan, live) = (args.plan(), is_live(args.quiet, json));
    let result = block_on(async move {
        let each = |round: &_| {
            if live {
                say(&ping_line(round));
            }
        };
        ping::run(plan, &interrupt, each).await
    })?;
    deliver(&result, json, || ping_text(&result))?;
    let rungs = [&result.tcp, &result.keep_alive, &result.read];
    Ok(rungs.iter().all(|r| r.answered() > 0))
}

/// Runs `wirepool ioping`. Returns whether every request succeeded.
pub(super) fn run_ioping(args: &Ioping, json: bool) -> Result<bool> {
    let interrupt = Interrupt::on_signals()?;
    let (plan, live) = (args.plan(), is_live(args.quiet, json));
    let result = block_on(async move {
        let (name, size, operation) = (plan.target.clone(), plan.size, plan.operation);
        let each = |facts: &crate::targets::Facts, request: &_| {
            if live
                && !matches!(
                    request,
                    crate::probe::ioping::result::Request { number: 2.., .. }
                )
            {
                say(&format!(
                    "{name}: {}; {}",
                    facts.description,
                    way(facts).words()
                ));
            }
            if live {
                say(&ioping_line(&name, size, operation, request));
            }
        };
        ioping::run(plan, &interrupt, each).await
    })?;
    deliver(&result, json, || ioping_text(&result))?;
    Ok(result.verdict.limit != Limit::Loss)
}
