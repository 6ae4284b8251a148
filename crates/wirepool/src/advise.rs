//! `wirepool pool advise`: sizes of a special class, a log, a cache, and of records.
//!
//! **Called by** `pools`. **Invariants**: the judgement is [`server::advice`]; a directory is read on this machine, and its files are not changed.

mod directory;

use crate::ask::Ask;
use crate::columns::{human, micros, rows};
use anyhow::{Result, bail};
use clap::Subcommand;
use server::advice::{
    CacheAdvice, CacheSize, ClassAdvice, LogAdvice, RecordSizeAdvice, SpecialAdvice, Threshold,
    cache, log, record_sizes, special,
};
use server::api::{Accesses, DatasetSizes, ListPools, Pool, PoolSizes};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Advice about a class of devices, or about sizes of records.
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
    /// Whether a log would make durable writes faster, by the times of the pool's disks and by the waits of clients for durable data.
    Log {
        /// The pool.
        pool: String,
    },
    /// Whether a cache device would answer reads, and of which size, by the bytes that were read between two reads of a record.
    Cache {
        /// The pool.
        pool: String,
    },
    /// Sizes of records for the requests that clients made since the pool was opened.
    Recordsize {
        /// The pool.
        pool: String,
    },
}

/// Runs one of `wirepool pool advise special`, `log`, `cache`, `recordsize`.
pub(crate) fn advise(ask: &Ask, command: AdviseCommand) -> Result<String> {
    match command {
        AdviseCommand::Special { pool, directory } => for_special(ask, pool, directory.as_deref()),
        AdviseCommand::Log { pool } => {
            let advice = log(&one(ask, &pool)?);
            let add = format!("wirepool pool add {pool} log mirror DISK DISK");
            ask.print(&advice, |advice| log_text(advice, &add))
        }
        AdviseCommand::Cache { pool } => {
            let sizes = ask.client.ask(&PoolSizes { name: pool.clone() })?;
            let advice = cache(&one(ask, &pool)?, &sizes.reads);
            let add = format!("wirepool pool add {pool} cache DISK");
            ask.print(&advice, |advice| cache_sizes(advice, &add))
        }
        AdviseCommand::Recordsize { pool } => {
            let sizes = ask.client.ask(&PoolSizes { name: pool })?;
            ask.print(&record_sizes(&sizes), |advice| records(advice))
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

fn log_text(advice: &LogAdvice, add: &str) -> String {
    let mut out = text("log", &advice.advice, add);
    let waits = &advice.waits;
    if waits.count > 0 {
        let _ = writeln!(
            out,
            "waits of clients for durable data: {} since the pool was opened, {:.1} a second, {} at the median, {} at 99 %",
            waits.count,
            advice.waits_a_second,
            micros(waits.p50_us),
            micros(waits.p99_us)
        );
        let _ = writeln!(
            out,
            "the journal takes {} a day; a log also takes the contents of small durable writes",
            human(advice.journal_a_day)
        );
    }
    out
}

fn cache_sizes(advice: &CacheAdvice, add: &str) -> String {
    let mut out = text("cache", &advice.advice, add);
    if !advice.sizes.is_empty() {
        out += &rows(&advice.sizes)
            .right("size", |s: &CacheSize| human(s.size))
            .right("reads answered", |s| format!("{:.1} %", s.answered_percent))
            .text();
    }
    out
}

fn records(advice: &[RecordSizeAdvice]) -> String {
    let part = |short: u64, all: u64| match all {
        0 => "-".to_owned(),
        _ => format!("{} %", short * 100 / all),
    };
    let of = |part: fn(&Accesses) -> (u64, u64)| move |a: &RecordSizeAdvice| part(&a.accesses);
    let (reads, writes) = (
        of(|a| (a.short_reads, a.reads)),
        of(|a| (a.short_overwrites, a.writes)),
    );
    let advised = |a: &RecordSizeAdvice| match a.advised {
        Some(size) => human(size.into()),
        None => "as it is".to_owned(),
    };
    let mut out = rows(advice)
        .left("dataset", |a| a.dataset.clone())
        .right("recordsize", |a| human(a.record_size.into()))
        .right("reads", |a| reads(a).1.to_string())
        .right("short", |a| part(reads(a).0, reads(a).1))
        .right("writes", |a| writes(a).1.to_string())
        .right("short overwrites", |a| part(writes(a).0, writes(a).1))
        .left("advice", advised)
        .text();
    if advice.iter().any(|a| a.advised.is_some()) {
        out += "a new recordsize counts for new files: wirepool set recordsize=SIZE DATASET; a volume gets it when it is created\n";
    }
    out
}

fn for_special(ask: &Ask, name: String, directory: Option<&Path>) -> Result<String> {
    let mut report = ask.client.ask(&PoolSizes { name })?;
    if let Some(path) = directory {
        let blocks = directory::blocks(path, report.sector)?;
        report.datasets = vec![DatasetSizes {
            name: path.display().to_string(),
            blocks: Some(blocks),
            record_size: 0,
            accesses: Accesses::default(),
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
