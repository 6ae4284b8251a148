//! `wirepool bench verify`.

use super::args::VerifyArgs;
use super::bench::check_overwrite;
use super::coordinator::block_on;
use crate::engine::Setup;
use crate::limits::VERIFY_BLOCKS_MAX;
use crate::size::size;
use crate::targets::{Address, AnyTarget, OpenAs, Target};
use crate::terminal::print;
use crate::verify::Outcome;
use crate::verify::check::Shape;
use crate::verify::journal::{self, Header, Journal};
use crate::verify::run::{self, Plan};
use crate::{Error, Result};
use io::printable::printable;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Default size of the region, bytes.
const REGION: u64 = 256 << 20;
/// Percentages of FUA writes, and of reads.
const FUA_PERCENT: u8 = 25;
const READ_PERCENT: u8 = 30;

pub(super) fn verify(args: VerifyArgs) -> Result<()> {
    let (json, state) = (args.json, args.state.clone());
    let out = match (&args.target, &state) {
        (Some(_), _) => block_on(async move { write_and_check(args).await }),
        (None, Some(path)) => check_again(path.clone(), args),
        (None, None) => Err(Error::usage(
            "verify",
            "expected a target, or --state with the file of an earlier run",
        )),
    };
    if let (Err(e), Some(path)) = (&out, &state)
        && path.exists()
        && !matches!(e, Error::Usage { .. })
    {
        eprintln!(
            "the state is in {0}: check it with wirepool bench verify --state {0}",
            path.display()
        );
    }
    let out = out?;
    let text = if json {
        let text = serde_json::to_string_pretty(&out).unwrap_or_default();
        io::printable::json(&text).into_owned() + "\n"
    } else {
        in_words(&out)
    };
    print(&text)?;
    if out.wrong > 0 {
        Err(Error::Mismatch(out.wrong))
    } else {
        Ok(())
    }
}

async fn write_and_check(args: VerifyArgs) -> Result<Outcome> {
    let address = args
        .target
        .clone()
        .ok_or_else(|| Error::usage("verify", "expected a target"))?;
    if !args.overwrite {
        check_overwrite(&address, args.create.is_some())?;
    }
    let target = AnyTarget::open(
        &address,
        OpenAs {
            writable: true,
            create: args.create,
        },
    )
    .await?;
    let facts = target.facts();
    let block_size = args.bs.unwrap_or_else(|| facts.block_size.max(4096));
    if !block_size.is_multiple_of(facts.block_size) || block_size > facts.transfer_max {
        let why = format!(
            "expected a multiple of {}, at most {}",
            facts.block_size,
            size(facts.transfer_max.into())
        );
        return Err(Error::usage(format!("block size {block_size}"), why));
    }
    let region = args.region.unwrap_or(REGION).min(facts.size);
    let blocks = region / u64::from(block_size);
    if blocks < u64::from(args.jobs) || blocks > VERIFY_BLOCKS_MAX {
        let why = format!(
            "expected {} to {VERIFY_BLOCKS_MAX} blocks of {block_size} bytes",
            args.jobs
        );
        return Err(Error::usage(format!("region {}", size(region)), why));
    }
    let seed = args.seed.unwrap_or_else(io::rng::u64);
    let header = Header {
        address: address.to_string(),
        seed,
        block_size,
        blocks,
        jobs: args.jobs,
    };
    let journal = match &args.state {
        Some(path) => Journal::create(path, &header)?,
        None => Journal::none(),
    };
    eprintln!(
        "verifying {} blocks of {} on {}, seed {seed:#x}",
        blocks,
        size(block_size.into()),
        printable(&address.to_string())
    );
    run::run(
        &target,
        &plan(&args, &header),
        &Setup::default(),
        Arc::new(journal),
    )
    .await
}

fn check_again(path: std::path::PathBuf, args: VerifyArgs) -> Result<Outcome> {
    let (header, ledgers) = journal::read(&path)?;
    block_on(async move {
        let address = now_at(&path, &header, args.at.clone())?;
        let target = AnyTarget::open(&address, OpenAs::default()).await?;
        let needed = header.blocks * u64::from(header.block_size);
        if target.facts().size < needed {
            let why = format!(
                "{} are there, {} were written",
                size(target.facts().size),
                size(needed)
            );
            return Err(Error::target(&address, why));
        }
        eprintln!(
            "checking {} blocks of {} on {}",
            header.blocks,
            size(header.block_size.into()),
            printable(&address.to_string())
        );
        run::check(&target, &plan(&args, &header), &Setup::default(), ledgers).await
    })
}

/// The address in the state file, or the given one.
fn now_at(path: &Path, header: &Header, at: Option<Address>) -> Result<Address> {
    match at {
        Some(a) => Ok(a),
        None => header
            .address
            .parse()
            .map_err(|e: Error| Error::contents(path, e)),
    }
}

fn plan(args: &VerifyArgs, h: &Header) -> Plan {
    Plan {
        shape: Shape {
            seed: h.seed,
            block_size: h.block_size,
        },
        blocks: h.blocks,
        jobs: h.jobs,
        depth: args.depth,
        runtime: args.runtime,
        read_percent: READ_PERCENT,
        fua_percent: FUA_PERCENT,
        flush_every: args.flush_every,
        lossy: args.lossy,
    }
}

fn in_words(o: &Outcome) -> String {
    let mut out = String::new();
    for m in &o.mismatches {
        let _ = writeln!(out, "WRONG {m}");
    }
    if o.wrong > o.mismatches.len() as u64 {
        let _ = writeln!(out, "… and {} more", o.wrong - o.mismatches.len() as u64);
    }
    let verdict = if o.wrong == 0 {
        "everything is as it must be".to_owned()
    } else {
        format!("{} WRONG", o.wrong)
    };
    let _ = writeln!(
        out,
        "{} writes ({} FUA), {} flushes, {} blocks checked, {} never written durably, {} reconnections: {verdict}",
        o.writes, o.durable, o.flushes, o.checked, o.unknown, o.reconnects
    );
    out
}
