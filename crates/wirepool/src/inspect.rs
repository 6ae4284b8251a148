//! `wirepool inspect`: offline reader of a pool's disks.
//!
//! **Owns** its arguments and messages. **Called by** `main`. **Invariants**: disks are opened read-only, and refused
//! while they are in use, because a changing pool gives wrong results; exit code 0 without damage, 1 with damage or
//! if the disks cannot be read.

use crate::ask::print;
use crate::inspect_text as words;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use io::disk::{Disk, OpenOptions};
use io::{Runtime, RuntimeConfig};
use pool::format::{DatasetKind, KIND_RECORD, Key, Kind, ObjectId, POOL_TREE, VOLUME_OBJECT};
use pool::inspect::{Contents, Findings, Image};
use pool::tree::Root;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

const EXAMPLES: &str = "\
Examples:
  wirepool inspect verify a.img b.img                   everything against everything; each damage is a line
  wirepool inspect labels /dev/nvme0n1                  what each copy of its label says
  wirepool inspect uberblocks a.img b.img               the checkpoints that are still known
  wirepool inspect journal a.img b.img                  what came since, where it ends and why
  wirepool inspect space a.img b.img                    who uses how much, against the allocator's bitmaps
  wirepool inspect trees a.img b.img --tree vm1@monday --from 0 --to 16   records of a snapshot
  wirepool inspect verify a.img b.img --uberblock 17    as of an older checkpoint

Give all disks of the pool. Nothing is ever written. Disks that a server has are refused: what changes meanwhile would
look like damage. Lines that begin with `note:` are what a power cut may leave, and opening the pool settles.

Exit codes: 0 nothing wrong, 1 damage found or refused, 2 wrong command line.";

/// The part of the pool to inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    /// The copies of each disk's label, and defects of bad ones.
    Labels,
    /// The rings of uberblocks.
    Uberblocks,
    /// The journal's batches, its end, and the reason for the end.
    Journal,
    /// Each tree's levels, nodes, entries and bytes; or a range of keys of one (--tree).
    Trees,
    /// Space by dataset, and whether it adds up.
    Space,
    /// Volumes with their properties.
    Volumes,
    /// Filesystems with their properties.
    Filesystems,
    /// Snapshots of volumes and filesystems with their properties.
    Snapshots,
    /// Everything, with every checksum on every member of every mirror.
    Verify,
}

/// Inspect a pool's disks without a server. Nothing is written.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// The part to inspect.
    view: View,
    /// The pool's disks: block devices or image files.
    #[arg(required = true)]
    disks: Vec<PathBuf>,
    /// Use the uberblock with this sequence instead of the newest.
    #[arg(long, value_name = "SEQ")]
    uberblock: Option<u64>,
    /// With `trees`: only this tree: a volume, a filesystem, a snapshot (vm1@monday), `pool` or `lists`.
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// With --tree: the first key, a record's number or OBJECT:KIND:OFFSET in hexadecimal.
    #[arg(long, value_name = "KEY", requires = "tree")]
    from: Option<String>,
    /// With --tree: the end of the range, exclusive.
    #[arg(long, value_name = "KEY", requires = "tree")]
    to: Option<String>,
}

/// The output, and whether there is damage.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) json: serde_json::Value,
    pub(crate) damaged: bool,
}

/// Inspects and prints.
pub(crate) fn run(args: Inspect, json: bool) -> Result<ExitCode> {
    let runtime = Runtime::new(RuntimeConfig::default()).context("io_uring")?;
    let said = runtime.block_on(look(args))?;
    if json {
        print(&crate::ask::exact(&format!("{:#}", said.json)))?;
    } else {
        print(&said.text)?;
    }
    Ok(if said.damaged {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn look(args: Inspect) -> Result<Said> {
    let mut disks = Vec::with_capacity(args.disks.len());
    for path in &args.disks {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        match Disk::open(path, options).await {
            Ok(disk) => disks.push(disk),
            Err(io::Error::Busy(_)) => bail!(
                "{} is in use: what changes meanwhile would look like damage. Stop the server, or \
                 `wirepool pool export` the pool first",
                words::path(path)
            ),
            Err(e) => return Err(anyhow!(e).context(words::path(path))),
        }
    }
    let image = Image::open(disks).await?;
    let mut findings = Findings::default();
    if args.view == View::Labels {
        image.check_disks(&mut findings);
        return Ok(words::labels(&image, &findings));
    }
    let uberblock = image.uberblock(args.uberblock)?;
    if args.view == View::Uberblocks {
        return Ok(words::uberblocks(&image, uberblock.sequence));
    }
    if args.view == View::Journal {
        return Ok(words::journal(&image.journal(&uberblock).await));
    }
    let contents = image.contents(uberblock, &mut findings).await?;
    match args.view {
        View::Volumes => {
            let is_shown = |class| class == DatasetKind::Volume;
            Ok(words::datasets(&contents, is_shown, &findings))
        }
        View::Filesystems => {
            let is_shown = |class| class == DatasetKind::Filesystem;
            Ok(words::datasets(&contents, is_shown, &findings))
        }
        View::Snapshots => Ok(words::datasets(
            &contents,
            DatasetKind::is_snapshot,
            &findings,
        )),
        View::Trees => trees(&image, &contents, &args, findings).await,
        _ => verify(&image, &contents, args.view, findings).await,
    }
}

async fn verify(
    image: &Rc<Image>,
    contents: &Contents,
    view: View,
    mut findings: Findings,
) -> Result<Said> {
    let everything = view == View::Verify;
    if everything {
        image.check_disks(&mut findings);
    }
    let journal = image.journal(&contents.uberblock).await;
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bytes} of {total_bytes} [{bar:40}] {eta}")?;
    bar.set_style(style.progress_chars("=> "));
    let found = image.verify(contents, &journal, everything, |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    let mut found = found.await;
    bar.finish_and_clear();
    findings.damage.append(&mut found.findings.damage);
    findings.notes.append(&mut found.findings.notes);
    findings.more += found.findings.more;
    found.findings = findings;
    Ok(words::account(image, contents, &found, everything))
}

/// All trees, by name.
fn roots(contents: &Contents) -> Vec<(String, u64, Root)> {
    let own = ("pool".to_owned(), POOL_TREE.0, contents.uberblock.root);
    let lists = ("lists".to_owned(), pool::format::DEAD_TREE.0, contents.dead);
    let datasets = contents.datasets.values();
    let datasets = datasets.map(|d| (d.name.clone(), d.id.0, d.root.root));
    [own, lists].into_iter().chain(datasets).collect()
}

async fn trees(
    image: &Rc<Image>,
    contents: &Contents,
    args: &Inspect,
    mut findings: Findings,
) -> Result<Said> {
    let mut roots = roots(contents);
    if let Some(name) = &args.tree {
        roots.retain(|(n, ..)| n == name);
        if roots.is_empty() {
            bail!(
                "there is no tree {name}: take a volume, a filesystem, a snapshot such as vm1@monday, pool or lists"
            );
        }
    }
    if args.from.is_some() || args.to.is_some() {
        let (name, _, root) = &roots[0];
        let keys = keys(args)?;
        let found = image.entries(*root, keys, name, &mut findings).await;
        return Ok(words::entries(found, &findings));
    }
    let mut stats = Vec::with_capacity(roots.len());
    for (name, id, root) in roots {
        let weighed = image.stats(root, &name, &mut findings).await;
        stats.push((name, id, weighed));
    }
    Ok(words::trees(&stats, &findings))
}

fn keys(args: &Inspect) -> Result<Range<Key>> {
    let parse = |text: &Option<String>, other| text.as_ref().map_or(Ok(other), |t| key(t));
    Ok(parse(&args.from, Key::START)?..parse(&args.to, Key::END)?)
}

fn key(text: &str) -> Result<Key> {
    let wrong = || format!("{text:?} is not a key: use a record's number, or OBJECT:KIND:OFFSET");
    let (object, kind, offset) = match *text.split(':').collect::<Vec<_>>() {
        [record] => (
            VOLUME_OBJECT,
            KIND_RECORD,
            record.parse().with_context(wrong)?,
        ),
        [object, kind, offset] => (
            ObjectId(u64::from_str_radix(object, 16).with_context(wrong)?),
            Kind(u8::from_str_radix(kind, 16).with_context(wrong)?),
            u64::from_str_radix(offset, 16).with_context(wrong)?,
        ),
        _ => bail!("{}", wrong()),
    };
    if offset >= Key::OFFSET_END {
        bail!("{}", wrong());
    }
    Ok(Key::new(object, kind, offset))
}
