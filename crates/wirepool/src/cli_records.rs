//! What the command line takes about history, events, load and properties.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum RecordCommand {
    /// Show what was done to a pool.
    History {
        /// The pool.
        pool: String,
    },
    /// Show what happened to pools since the server started.
    Events {
        /// The pool; all by default.
        pool: Option<String>,
        /// Go on with what happens from now on, until Ctrl-C.
        #[arg(short, long)]
        follow: bool,
    },
    /// Show what pools' disks do: since the pools were opened, then per interval.
    #[command(after_help = "\
Examples:
  wirepool pool iostat -v tank          each disk, with how long it takes
  wirepool pool iostat 2                every two seconds, until Ctrl-C
  wirepool pool iostat tank 1 10        ten times")]
    Iostat {
        /// A pool, by default all; then seconds between two lines, and how many lines.
        #[arg(value_name = "[POOL] [INTERVAL [COUNT]]", num_args = 0..=3)]
        words: Vec<String>,
        /// Show each disk.
        #[arg(short, long)]
        verbose: bool,
    },
}
