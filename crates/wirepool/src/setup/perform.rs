//! Carries out a plan.
//!
//! **Called by** `setup`, after consent. **Invariants**: only the steps of the plan, in their order; a step that fails ends it; a server
//! that does not start with the new configuration gets the old one back.

use super::facts::Facts;
use super::plan::{Plan, Step, command};
use crate::ask::{Ask, print};
use anyhow::{Context, Result, bail};
use server::api::GetStatus;
use server::config::ConfigFile;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a restarted server may take to answer. Pools may have to replay their journals.
const START_WAIT_MAX: Duration = Duration::from_secs(120);
/// Time between two looks.
const START_POLL: Duration = Duration::from_millis(100);

/// Does all steps; each is printed before. Errors: the first step that fails; the ones before stay done.
pub(crate) fn perform(facts: &Facts, plan: &Plan) -> Result<()> {
    let mut current = facts.config.clone();
    for (i, step) in plan.steps.iter().enumerate() {
        let done = match step {
            Step::Config { path, after, .. } => {
                print(&format!("== change {}\n", path.display()))?;
                let stored = after.store(&facts.config);
                current = ConfigFile::clone(after);
                stored.map_err(Into::into)
            }
            Step::Restart { command } => {
                print(&format!("== {command}\n"))?;
                restart(facts, &current, command)
            }
            Step::Run { words } => {
                print(&format!("== {}\n", command(words)))?;
                run(&facts.control, words)
            }
        };
        done.with_context(|| {
            format!(
                "step {} of {} failed; the steps before it are done, and those after it are not",
                i + 1,
                plan.steps.len()
            )
        })?;
    }
    Ok(())
}

/// Runs a command of this program, with its output.
fn run(control: &Path, words: &[String]) -> Result<()> {
    let program = std::env::current_exe()?;
    let status = Command::new(program)
        .args(words)
        .env("WIREPOOL_CONTROL", control)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("{}: {status}", command(words));
    }
    Ok(())
}

/// Restarts the server. If it does not answer then, it gets the old configuration back and is restarted again.
fn restart(facts: &Facts, current: &ConfigFile, command: &str) -> Result<()> {
    let Err(e) = restarted(&facts.control, command) else {
        return Ok(());
    };
    facts
        .config
        .store(current)
        .context("the old configuration")?;
    let again = restarted(&facts.control, command);
    again.context("the server does not start with the old configuration either")?;
    Err(e.context(
        "the server did not start with the new configuration; it runs again with the old one",
    ))
}

fn restarted(control: &Path, command: &str) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("{command}: {status}");
    }
    let started = Instant::now();
    loop {
        let ask = Ask::new(Some(control.to_path_buf()), true);
        match ask.client.ask(&GetStatus {}) {
            Ok(_) => return Ok(()),
            Err(e) if started.elapsed() > START_WAIT_MAX => return Err(e),
            Err(_) => std::thread::sleep(START_POLL),
        }
    }
}
