//! Rows of a pool's volume over NVMe/TCP, compared with a raw file on the same disk without network.
//!
//! **Owns** the server of these rows. **Called by** [`mod@super::table`]. **Invariants**: one engine drives both sides,
//! and its rounds alternate; the raw file makes writes durable with the fastest of the engine's methods, which the
//! row names.

use super::bench::{Bench, Line, NAME, VOLUME, file, refused, uncached};
use crate::engine::Setup;
use crate::served::{ServeConfig, Served, ServedDisk};
use crate::stats::Spread;
use crate::suite::goal::Outcome;
use crate::suite::lab::Steps;
use crate::suite::point::{Point, median, point};
use crate::targets::Address;
use crate::workload::{Sync, Workload};
use crate::{Result, size};

/// A row.
struct Row {
    name: &'static str,
    mode: &'static str,
    depth: u32,
}

const ROWS: [Row; 4] = [
    Row {
        name: "remote 4K randwrite sync Q1",
        mode: "randwrite",
        depth: 1,
    },
    Row {
        name: "remote 4K randwrite sync Q32",
        mode: "randwrite",
        depth: 32,
    },
    Row {
        name: "remote 4K randread Q1",
        mode: "randread",
        depth: 1,
    },
    Row {
        name: "remote 4K randread Q32",
        mode: "randread",
        depth: 32,
    },
];

/// Names of the rows.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The methods with which the raw file does a row, with their names.
fn ways(row: &Row) -> Vec<(Sync, &'static str)> {
    match row.mode {
        "randwrite" => vec![
            (Sync::Fua, "O_DSYNC"),
            (
                Sync::FlushEvery(row.depth),
                "one flush for a queue of writes",
            ),
        ],
        _ => vec![(Sync::None, "")],
    }
}

impl Bench<'_> {
    /// All rows.
    pub(super) async fn remote(
        &self,
        steps: &mut Steps<'_>,
        setup: &Setup,
        cpus: &str,
    ) -> Result<Vec<Line>> {
        let raw = super::load::Target::Raw(file(&self.raw(), self.extent.bytes).await?);
        raw.fill(self.extent.bytes).await?;
        drop(raw);
        let pool = self.create(uncached()).await?;
        drop(self.volume(&pool, self.extent.bytes).await?);
        let devices = pool.vdevs().clone();
        pool.close().await.map_err(refused)?;
        // The server is another host.
        devices.export().await.map_err(refused)?;
        drop(devices);
        let config = ServeConfig {
            pools: vec![(NAME.into(), vec![self.disk()])],
            ..ServeConfig::of(vec![ServedDisk::Volume(format!("{NAME}/{VOLUME}"))], cpus)
        };
        let served = Served::start(&config).await?;
        let mut lines = Vec::new();
        for row in &ROWS {
            if steps.next(row.name) {
                lines.push(self.remote_row(row, setup, &served).await?);
            }
        }
        served.stop()?;
        Ok(lines)
    }

    async fn remote_row(&self, row: &Row, setup: &Setup, served: &Served) -> Result<Line> {
        let raw = Address::File {
            path: self.raw(),
            buffered: false,
            shared: false,
        };
        let base = Workload {
            depth: row.depth,
            runtime: self.extent.runtime,
            ramp: self.extent.runtime / 5,
            ..Workload::default()
        }
        .with_mode(row.mode)?;
        let ways = ways(row);
        let mut raws: Vec<Vec<Point>> = vec![Vec::new(); ways.len()];
        let mut volumes = Vec::new();
        for _ in 0..self.extent.rounds {
            for (points, (sync, _)) in raws.iter_mut().zip(&ways) {
                let w = Workload {
                    sync: *sync,
                    ..base.clone()
                };
                points.push(point(&raw, &w, setup, None).await?);
            }
            let w = Workload {
                sync: ways[0].0,
                ..base.clone()
            };
            let address = served.address(1, false);
            volumes.push(point(&address, &w, setup, Some(served.pid())).await?);
        }
        let rate = |points: &[Point]| median(points, |p| Some(p.iops)).unwrap_or(0.0);
        let best = raws.iter().zip(&ways);
        let best = best.max_by(|(a, _), (b, _)| rate(a).total_cmp(&rate(b)));
        let (raw, (_, way)) = best.expect("there is a way");
        let ratios: Vec<f64> = raw
            .iter()
            .zip(&volumes)
            .map(|(raw, v)| v.iops / raw.iops)
            .collect();
        let ratios = Spread::of(&ratios);
        let mut measured = format!(
            "{:.2} ({:.2}–{:.2}); {} to {}",
            ratios.median,
            ratios.min,
            ratios.max,
            size::count(rate(raw)),
            size::count(rate(&volumes))
        );
        if !way.is_empty() {
            measured += &format!(", raw: {way}");
        }
        Ok(Line {
            name: row.name.into(),
            goal: "–".into(),
            measured,
            scores: [None, None],
            outcome: Outcome::NoGoal,
        })
    }
}
