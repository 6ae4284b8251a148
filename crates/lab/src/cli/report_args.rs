//! Command line of `wirepool bench report`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  wirepool bench compare file:/srv/d.img nvme-tcp://HOST:4420/NQN --points Q1T1,Q32T1 --json > compare.json
  wirepool ping nvme-tcp://HOST:4420/NQN --json > ping.json
  wirepool bench report compare.json ping.json --html report.html

The page also has the findings of wirepool doctor on this machine and, if a server runs here, the stages of its requests
(wirepool why); --stored-only leaves both out. Files may also be the JSON of ioping, probe run, doctor and why. docs/probes.md";

/// Make one self-contained page of machine, doctor, probes, results, stages and published results
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Files with the output of commands with --json
    pub(super) files: Vec<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(super) html: PathBuf,
    /// Heading of the page
    #[arg(long, default_value = "Wirepool report")]
    pub(super) title: String,
    /// Use only the files: neither examine this machine nor ask its server
    #[arg(long)]
    pub(super) stored_only: bool,
}
