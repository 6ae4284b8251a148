//! Rows of a volume compared with a raw file of the same size on the same disk.
//!
//! **Invariants**: rounds alternate; a ratio is of one round; the raw file is measured with its fastest method, which
//! the row names.

use super::bench::{Bench, Line, file, refused, uncached};
use super::btrfs;
use super::load::{LARGE, Plan, Score, Target, Work};
use crate::Result;
use crate::size::digits;
use crate::stats::Spread;
use crate::suite::goal::Outcome;
use crate::suite::lab::Steps;
use crate::suite::point;
use io::disk::{Disk, OpenOptions};

/// Rows that are computed from [`ASYNC`].
const PROCESSOR: &str = "processor time";
const BTRFS: &str = "btrfs";
/// The row of the page cache, with an fsync at the end.
const PAGE_CACHE: &str = "page cache";
/// Goal for the processor time of a write above the raw file's, µs.
const CPU_ABOVE_RAW: f64 = 6.0;
/// The rate of asynchronous writes, in times btrfs.
const TIMES_BTRFS: f64 = 10.0;

/// A row compared with the raw file, with its goal as a share of the raw rate.
struct Row {
    name: &'static str,
    work: Work,
    /// None: random requests of 4 KiB.
    sequential: Option<u64>,
    depth: u64,
    share: f64,
}

const fn small(name: &'static str, work: Work, depth: u64, share: f64) -> Row {
    Row {
        name,
        work,
        sequential: None,
        depth,
        share,
    }
}

const fn large(name: &'static str, work: Work, share: f64) -> Row {
    Row {
        name,
        work,
        sequential: Some(LARGE),
        depth: 8,
        share,
    }
}

const PLANS: [Row; 7] = [
    small("4K randwrite sync Q1", Work::SyncWrite, 1, 0.95),
    small("4K randwrite sync Q32", Work::SyncWrite, 32, 0.9),
    small(ASYNC, Work::Write, 32, 1.5),
    small("4K randread Q1", Work::Read, 1, 0.9),
    small("4K randread Q32", Work::Read, 32, 0.9),
    large("128K write Q8", Work::Write, 0.9),
    large("128K read Q8", Work::Read, 0.9),
];
/// The row from which other rows are computed.
const ASYNC: &str = "4K randwrite async Q32";

/// Names of the rows.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    PLANS
        .iter()
        .map(|row| row.name)
        .chain([PROCESSOR, PAGE_CACHE, BTRFS])
}

/// The row from which a row is computed.
pub(in crate::suite) fn needed(row: &str) -> Option<&'static str> {
    [PROCESSOR, PAGE_CACHE, BTRFS]
        .contains(&row)
        .then_some(ASYNC)
}

/// The rounds of one side of a row.
fn median(scores: &[Score]) -> Option<Score> {
    Some(Score {
        rate: point::median(scores, |s| Some(s.rate))?,
        cpu_us: point::median(scores, |s| Some(s.cpu_us))?,
        ..*scores.first()?
    })
}

impl Bench<'_> {
    /// All rows.
    pub(super) async fn beside(&self, steps: &mut Steps<'_>) -> Result<Vec<Line>> {
        let size = self.extent.bytes;
        let raw = Target::Raw(file(&self.raw(), size).await?);
        raw.fill(size).await?;
        let pool = self.create(uncached()).await?;
        let volume = self.volume(&pool, self.extent.bytes).await?;
        let mut lines = Vec::new();
        for row in &PLANS {
            if !steps.next(row.name) {
                continue;
            }
            let plan = Plan {
                work: row.work,
                bytes: row.sequential.unwrap_or(super::load::BLOCK),
                depth: row.depth,
                is_sequential: row.sequential.is_some(),
                region: size,
                most: u64::MAX,
            };
            lines.push(self.row(row, plan, [&raw, &volume]).await?);
        }
        drop(volume);
        pool.close().await.map_err(refused)?;
        let writes = lines.iter().find(|l| l.name == ASYNC);
        let scores = writes.map_or([None, None], |l| l.scores);
        if steps.next(PROCESSOR) {
            lines.push(above_raw(scores));
        }
        if steps.next(PAGE_CACHE) {
            let plan = Plan::small(Work::Write, 32, size);
            lines.push(self.beside_page_cache(plan, scores[1]).await?);
        }
        if steps.next(BTRFS) {
            let plan = Plan::small(Work::Write, 32, size);
            let other = btrfs::measure(self.place, plan, self.extent.runtime).await;
            lines.push(beside_btrfs(other, scores[1]));
        }
        Ok(lines)
    }

    /// A volume compared with the raw file, which does durable writes with each of its methods; the fastest one
    /// counts.
    async fn row(&self, row: &Row, plan: Plan, [raw, volume]: [&Target; 2]) -> Result<Line> {
        let ways: &[(Work, &str)] = match row.work {
            Work::SyncWrite => &Work::DURABLE,
            _ => &[(row.work, "")],
        };
        let mut raws = vec![Vec::new(); ways.len()];
        let mut volumes = Vec::new();
        for round in 0..self.extent.rounds {
            let seed = 1000 * u64::from(round);
            for (scores, (work, _)) in raws.iter_mut().zip(ways) {
                let plan = Plan {
                    work: *work,
                    ..plan
                };
                scores.push(raw.measure(plan, self.extent.runtime, seed).await?);
            }
            volumes.push(volume.measure(plan, self.extent.runtime, seed).await?);
        }
        let rate = |scores: &[Score]| median(scores).map_or(0.0, |s| s.rate);
        let best = raws.iter().zip(ways);
        let best = best.max_by(|(a, _), (b, _)| rate(a).total_cmp(&rate(b)));
        let (raw, (_, way)) = best.expect("there is a way");
        let ratios = raw.iter().zip(&volumes).map(|(raw, v)| v.rate / raw.rate);
        let ratios = Spread::of(&ratios.collect::<Vec<f64>>());
        let mut measured = format!("{:.2} ({:.2}–{:.2})", ratios.median, ratios.min, ratios.max);
        if !way.is_empty() {
            measured += &format!(", raw: {way}");
        }
        Ok(Line {
            name: row.name.into(),
            goal: format!("≥ {} of raw", row.share),
            measured,
            scores: [median(raw), median(&volumes)],
            outcome: Outcome::of(&[Some(ratios.median >= row.share)]),
        })
    }

    /// The same writes to a file of the same file system through the page cache, with an fsync at the end.
    async fn beside_page_cache(&self, plan: Plan, volume: Option<Score>) -> Result<Line> {
        let options = OpenOptions {
            create_size: Some(plan.region),
            buffered: true,
            ..OpenOptions::default()
        };
        let path = self.place.join("cached.img");
        let cached = Target::Raw(Disk::open(&path, options).await?);
        cached.fill(plan.region).await?;
        let mut scores = Vec::new();
        for round in 0..self.extent.rounds {
            let seed = 1000 * u64::from(round);
            scores.push(cached.measure(plan, self.extent.runtime, seed).await?);
        }
        drop(cached);
        std::fs::remove_file(&path).map_err(io::Error::from)?;
        let cached = median(&scores);
        let ratio = volume.zip(cached).map(|(v, c)| v.rate / c.rate);
        Ok(Line {
            name: "such writes, page cache and fsync".into(),
            goal: "–".into(),
            measured: ratio.map_or("?".into(), |r| format!("{r:.2} of the page cache")),
            scores: [cached, volume],
            outcome: Outcome::NoGoal,
        })
    }
}

/// Processor time of a write, above the raw file's.
fn above_raw(scores: [Option<Score>; 2]) -> Line {
    let [raw, volume] = scores.map(|s| s.map(|s| s.cpu_us));
    let above = raw.zip(volume).map(|(raw, volume)| volume - raw);
    Line {
        name: "CPU of such a write above raw".into(),
        goal: format!("≤ {CPU_ABOVE_RAW} µs"),
        measured: format!("{} µs", above.map_or("?".into(), digits)),
        scores: [None, None],
        outcome: Outcome::of(&[above.map(|us| us <= CPU_ABOVE_RAW)]),
    }
}

/// The same writes on btrfs.
fn beside_btrfs(btrfs: std::result::Result<Score, String>, volume: Option<Score>) -> Line {
    let times = btrfs.as_ref().ok().zip(volume);
    let times = times.map(|(btrfs, volume)| volume.rate / btrfs.rate);
    Line {
        name: "such writes, btrfs in a loop file".into(),
        goal: format!("≥ {TIMES_BTRFS}x btrfs"),
        measured: match (&btrfs, times) {
            (Err(why), _) => why.clone(),
            (_, times) => format!("{:.1}x", times.unwrap_or(0.0)),
        },
        scores: [btrfs.ok(), volume],
        outcome: Outcome::of(&[times.map(|t| t >= TIMES_BTRFS)]),
    }
}
