//! `wirepool setup`: from an installed server to the first export.
//!
//! **Owns** its command line and the order: look, ask, plan, consent, do. **Called by** `commands`. **Invariants**: nothing is changed
//! before the plan is shown and consented to; no contents of a disk are destroyed.

mod answers;
mod choose;
pub(crate) mod dialogue;
mod disks;
mod facts;
mod gather;
mod layout;
mod perform;
mod plan;
mod protocol;

use crate::ask::{Ask, exact, print};
use answers::Answers;
use anyhow::{Result, bail};
use clap::Args;
use dialogue::Dialogue;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  wirepool setup                       asks, shows the plan, and does it after a yes
  wirepool setup --dry-run             asks, and only shows the plan
  wirepool setup --disk /dev/sdb --disk /dev/sdc --size 500G --listen 10.0.0.1 --client any --yes
  wirepool setup --answers site.toml   shows the plan without questions; with --yes it is done

A file of answers has the flags as keys:
  pool = \"tank\"
  disk = [\"/dev/sdb\", \"/dev/sdc\"]
  layout = \"mirror\"
  protocol = \"nvme\"
  name = \"vm1\"
  size = \"500G\"
  listen = [\"10.0.0.1\"]
  client = [\"any\"]
  os = \"debian\"

Disks that are mounted, have partitions, a signature or a pool's label are refused. With a pool that exists, setup adds an export to it.";

/// Set up disks, pool, network and the first export: shows a plan first.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Setup {
    #[command(flatten)]
    answers: Answers,
    /// Take answers from this file, and ask nothing.
    #[arg(long = "answers", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only show the plan.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Ask nothing, and do it.
    #[arg(short, long)]
    yes: bool,
    /// The command that restarts the server.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "systemctl restart wirepool"
    )]
    restart: String,
}

/// Runs it.
pub(crate) fn run(ask: &Ask, args: Setup) -> Result<String> {
    if ask.json && args.yes {
        bail!("--json prints the plan and does nothing: leave --yes out");
    }
    let is_attended = args.file.is_none() && !args.yes && !ask.json;
    let file = args.file.as_deref().map(Answers::read).transpose()?;
    let answers = args.answers.or(file.unwrap_or_default());
    let facts = gather::gather(ask)?;
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout());
    let mut dialogue = match is_attended {
        true => Dialogue::with(&mut input, &mut output),
        false => Dialogue::silent(),
    };
    let version = &facts.version;
    let config = facts.config.path().display();
    dialogue.say(&format!(
        "Setup of wirepool {version} with {config}. Nothing is changed before the plan is confirmed.\n"
    ))?;
    let choices = choose::choose(&facts, &answers, &mut dialogue)?;
    let plan = plan::plan(&facts, &choices, &args.restart)?;
    if ask.json {
        return Ok(exact(&serde_json::to_string_pretty(&plan)?));
    }
    print(&plan.text())?;
    if args.dry_run {
        return Ok("a dry run: nothing was changed\n".to_owned());
    }
    if !args.yes && !dialogue.consents("Do it")? {
        let how = match is_attended {
            true => "",
            false => "; --yes does it",
        };
        return Ok(format!("nothing was changed{how}\n"));
    }
    perform::perform(&facts, &plan)?;
    Ok("done: the lines above are for the clients\n".to_owned())
}
