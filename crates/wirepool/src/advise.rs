//! `wirepool pool advise`: sizes of a special class, a log and a cache.
//!
//! **Called by** `pools`. **Invariants**: the judgement is [`server::advice`]; a directory is read on this machine, and its files are not changed.

mod directory;

use crate::ask::Ask;
use crate::columns::{human, rows};
use anyhow::{Result, bail};
use clap::Subcommand;
use server::advice::{ClassAdvice, SpecialAdvice, Threshold, cache, log, special};
use server::api::{DatasetSizes, ListPools, Pool, PoolSizes};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Advice about a class of devices.
#[derive(Subcommand)]
pub(crate) enum AdviseCommand {
    /// Sizes of a special class by `special_small_blocks`, for the blocks that the pool has, or for a directory.
    #[command(after_help = "\
Examples:
  wirepool pool advise special tank              for the records and metadata that tank has now
  wirepool pool advise special tank /srv/old     for this directory, as if it were copied into tank")]
    Special {
        /// The pool.
        pool: String,
        /// A directory on this machine that is not in the pool yet; its files are read.
        directory: Option<PathBuf>,
    },
    /// Whether a log would make durable writes faster, by the times of the pool's disks.
    Log {
        /// The pool.
        pool: String,
    },
    /// Whether a cache device would answer reads, by the misses of the cache in memory.
    Cache {
        /// The pool.
        pool: String,
    },
}

/// Runs one of `wirepool pool advise special`, `log`, `cache`.
pub(crate) fn advise(ask: &Ask, command: AdviseCommand) -> Result<String> {
    match command {
        AdviseCommand::Special { pool, directory } => for_special(ask, pool, directory.as_deref()),
        AdviseCommand::Log { pool } => {
            let advice = log(&one(ask, &pool)?);
            let add = format!("wirepool pool add {pool} log mirror DISK DISK");
            ask.print(&advice, |advice| text("log", advice, &add))
        }
        AdviseCommand::Cache { pool } => {
            let advice = cache(&one(ask, &pool)?);
            let add = format!("wirepool pool add {pool} cache DISK");
            ask.print(&advice, |advice| text("cache", advice, &add))
        }
    }
}

/// The pool of this name.
fn one(ask: &Ask, name: &str) -> Result<Pool> {
    let pools = ask.client.ask(&ListPools {})?;
    match pools.into_iter().find(|p| p.name == name) {
        Some(pool) => Ok(pool),
        None => bail!("no such pool {name:?}: see `wirepool pool list`"),
    }
}

fn text(class: &str, advice: &ClassAdvice, add: &str) -> String {
    match advice.helps {
        true => format!(
            "a {class} would help: {}\n{} is enough: {add}\n",
            advice.reason,
            human(advice.size)
        ),
        false => format!("a {class} would not help: {}\n", advice.reason),
    }
}

fn for_special(ask: &Ask, name: String, directory: Option<&Path>) -> Result<String> {
    let mut report = ask.client.ask(&PoolSizes { name })?;
    if let Some(path) = directory {
        let blocks = directory::blocks(path, report.sector)?;
        report.datasets = vec![DatasetSizes {
            name: path.display().to_string(),
            blocks: Some(blocks),
        }];
    }
    ask.print(&special(&report), thresholds)
}

fn thresholds(advice: &SpecialAdvice) -> String {
    let threshold = |t: &Threshold| match t.special_small_blocks {
        0 => "0 (metadata)".to_owned(),
        bytes => human(bytes),
    };
    let mut text = rows(&advice.thresholds)
        .left("special_small_blocks", threshold)
        .right("small records", |t| t.records.to_string())
        .right("bytes with metadata", |t| human(t.bytes))
        .right("class at least", |t| human(t.class_size))
        .text();
    for name in &advice.not_counted {
        let _ = writeln!(
            text,
            "{name} is not in the sums: an earlier release wrote some of its records, and did not count them"
        );
    }
    text
}
