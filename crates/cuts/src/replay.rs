//! Replay of the log of a real run, with power cuts.
//!
//! **Owns** the course of the replay. **Called by** `main`. **Invariants**: at a cut the media have all entries up to
//! a flush; of the entries up to the next flush they have first none, then a part that the seed chooses. The last
//! mark before that next flush decides which writes must be there. Cuts are spread evenly over the run from the mark
//! `begin` on.

use anyhow::{Context, Result, bail, ensure};
use cuts::known::Known;
use cuts::log::{Kind, Log, LogEntry};
use cuts::medium::{Medium, Write};
use cuts::verdict::{self, Expected};
use io::rng::Prng;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// The mark from which on the pool exists.
const BEGIN: &str = "begin";
/// First character of a mark for a snapshot.
const SNAPSHOT: char = '@';
/// Byte that discarded blocks read as; not zero.
const ANYTHING: u8 = 0xdb;
/// The replay stops after this many failed cuts.
const FAILURES_MAX: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The log, or an image of its device
    log: PathBuf,
    /// The file that `write` left
    #[arg(long)]
    known: PathBuf,
    /// A directory for the disks after each cut
    #[arg(long)]
    dir: PathBuf,
    /// Number of disks of one size into which the logged device is divided
    #[arg(long, default_value_t = 2)]
    disks: u64,
    /// Bytes of each disk
    #[arg(long)]
    size: u64,
    /// The volume that was written
    #[arg(long, default_value = "vm1")]
    volume: String,
    /// Maximum number of cuts; evenly spread if there are more flushes
    #[arg(long, default_value_t = u64::MAX)]
    cuts: u64,
    /// Minimum number of cuts; the replay fails with fewer
    #[arg(long, default_value_t = 1)]
    cuts_min: u64,
    /// Seed that decides the state of unconfirmed writes
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// A place in the log where the power may go, and the state that must be there then.
struct Cut {
    /// The entries that are on the media.
    durable: usize,
    /// The entries that may be on the media, in part.
    pending: Range<usize>,
    mark: u64,
    snapshots: usize,
}

/// The cuts of a log, in order.
struct Course {
    cuts: Vec<Cut>,
    snapshots: Vec<String>,
    discards: u64,
    discarded: u64,
}

/// Finds the cuts. An entry confirms if it flushes the entries before it, or went through to the medium itself.
fn course(entries: &[LogEntry]) -> Result<Course> {
    let mut course = Course {
        cuts: Vec::new(),
        snapshots: Vec::new(),
        discards: 0,
        discarded: 0,
    };
    let (mut mark, mut durable, mut begun) = (0, 0, false);
    for (at, entry) in entries.iter().enumerate() {
        match &entry.kind {
            Kind::Mark(text) if text == BEGIN => begun = true,
            Kind::Mark(text) if text.starts_with(SNAPSHOT) => {
                course.snapshots.push(text[1..].to_owned());
            }
            Kind::Mark(text) => mark = text.parse().unwrap_or(mark),
            Kind::Discard => {
                course.discards += 1;
                course.discarded += entry.len;
            }
            Kind::Write(_) | Kind::Flush => {}
        }
        let bare = matches!(entry.kind, Kind::Flush) || entry.through;
        ensure!(
            !entry.flushes || bare,
            "entry {at} flushes and writes, and does not say what of it is on the medium"
        );
        if !entry.flushes && !entry.through {
            continue;
        }
        if begun {
            course.cuts.push(Cut {
                durable,
                pending: durable..at,
                mark,
                snapshots: course.snapshots.len(),
            });
        }
        durable = at + 1;
    }
    course.cuts.push(Cut {
        durable,
        pending: durable..entries.len(),
        mark,
        snapshots: course.snapshots.len(),
    });
    Ok(course)
}

/// The disks during the replay.
struct Media {
    log: Log,
    entries: Vec<LogEntry>,
    media: Vec<Medium>,
    size: u64,
}

impl Media {
    /// Blank disks of `size` bytes, one in each file.
    fn new(log: Log, entries: Vec<LogEntry>, paths: &[PathBuf], size: u64) -> Result<Self> {
        let media = paths.iter().map(|path| Medium::create(path, size));
        let media = media.collect::<std::io::Result<_>>()?;
        Ok(Self {
            log,
            entries,
            media,
            size,
        })
    }

    /// The write of an entry, and the number of its disk.
    fn write(&self, entry: &LogEntry) -> Result<Option<(usize, Write)>> {
        let Some(bytes) = self.log.bytes(entry, ANYTHING)? else {
            return Ok(None);
        };
        let (disk, offset) = (entry.offset / self.size, entry.offset % self.size);
        let inside = (disk as usize) < self.media.len() && offset + entry.len <= self.size;
        ensure!(inside, "{entry:?} is not on one disk");
        Ok(Some((disk as usize, Write { offset, bytes })))
    }

    fn apply(&self, range: Range<usize>) -> Result<()> {
        for entry in &self.entries[range] {
            if let Some((disk, write)) = self.write(entry)? {
                self.media[disk].apply(&write)?;
            }
        }
        Ok(())
    }

    fn has_writes(&self, range: Range<usize>) -> bool {
        self.entries[range].iter().any(|entry| entry.len > 0)
    }

    /// The writes of a range of entries, by disk.
    fn writes(&self, range: Range<usize>) -> Result<Vec<Vec<Write>>> {
        let mut writes = vec![Vec::new(); self.media.len()];
        for entry in &self.entries[range] {
            if let Some((disk, write)) = self.write(entry)? {
                writes[disk].push(write);
            }
        }
        Ok(writes)
    }
}

/// Cuts the power twice, and undoes it: first all writes without a flush are lost, then a part of them. An error
/// means that the media cannot be used; defects of the pool are in the verdict.
async fn look(
    media: &Media,
    cut: &Cut,
    paths: &[PathBuf],
    expected: Expected<'_>,
    rng: &mut Prng,
) -> Result<Result<()>> {
    let all_lost = verdict::opens(paths, expected).await;
    if all_lost.is_err() {
        return Ok(all_lost.context("with all lost that no flush covers"));
    }
    let mut before = Vec::new();
    for (medium, writes) in media.media.iter().zip(media.writes(cut.pending.clone())?) {
        before.push(medium.cut(&writes, rng)?);
    }
    let verdict = match verdict::opens(paths, expected).await {
        Ok(()) => verdict::is_sound(paths).await,
        wrong => wrong,
    };
    for (medium, before) in media.media.iter().zip(before) {
        medium.mend(before)?;
    }
    Ok(verdict)
}

/// Runs the replay, and prints the result in lines of PASS and FAIL.
pub(crate) async fn run(args: Args) -> Result<()> {
    ensure!(args.disks > 0 && args.size > 0, "no disks");
    let known =
        fs::read_to_string(&args.known).with_context(|| args.known.display().to_string())?;
    let known: Known = known.parse()?;
    let log = Log::open(&args.log)?;
    let entries = log.entries()?;
    let course = course(&entries)?;
    let paths: Vec<PathBuf> = (0..args.disks)
        .map(|disk| args.dir.join(format!("cut-{disk}.img")))
        .collect();
    let media = Media::new(log, entries, &paths, args.size)?;
    let all = course.cuts.len() as u64;
    let tried = all.min(args.cuts).max(1);
    println!(
        "the log: {} entries, {all} flushes since the pool was there, {} discards of {} KiB",
        media.entries.len(),
        course.discards,
        course.discarded >> 10
    );
    ensure!(all >= args.cuts_min, "only {all} flushes");
    let start = Instant::now();
    let mut rng = Prng::new(args.seed);
    let (mut durable, mut failures, mut torn) = (0, 0, 0);
    for number in 0..tried {
        // the last one is always among them
        let at = (number + 1) * all / tried - 1;
        let cut = &course.cuts[at as usize];
        media.apply(durable..cut.durable)?;
        durable = cut.durable;
        let expected = Expected {
            volume: &args.volume,
            known: &known,
            moment: cut.mark,
            snapshots: &course.snapshots[..cut.snapshots],
        };
        torn += u64::from(media.has_writes(cut.pending.clone()));
        let verdict = look(&media, cut, &paths, expected, &mut rng).await?;
        if let Err(e) = verdict {
            println!(
                "FAIL cut {at} of {all}, after entry {durable} and mark {}: {e:#}",
                cut.mark
            );
            failures += 1;
            if failures == FAILURES_MAX {
                break;
            }
        }
    }
    if failures > 0 {
        bail!("the pool is not whole at {failures} cuts");
    }
    println!(
        "PASS the pool is whole at {tried} of {all} flushes, {torn} with unflushed writes torn or lost ({:.1} s)",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
