//! Rows of a raidz2 of ten members: eight units of data and two of parity in a row.
//!
//! **Invariants**: the members are files in memory, because ten files on one disk would share its speed; bytes of members are counted by the
//! pool for each member, parity included; overwrites are measured after the pool has aged by the passes that [`crate::Extent::overwrites`] says.

use super::load::{DEPTH, OTHER, OURS, Plan, Target};
use super::place::{PoolFiles, VOLUME, create_pool, file, refused, uncached};
use crate::point::{Point, Sample, sample, us};
use crate::rows::{Act, BLOCK, LARGE, M1, Raidz};
use io::linux::process_cpu_time;
use lab::{Error, Result};
use pool::vdev::parity::Columns;
use pool::vdev::{Layout, VdevSpec};
use pool::{NewVolume, Pool};
use std::path::PathBuf;
use std::time::Duration;

/// Data units of a row.
const DATA: u64 = 8;
/// Parity units of a row.
const PARITY: u64 = 2;
/// Smallest member, bytes.
const MEMBER_MIN: u64 = 64 << 20;
/// Bytes of the sequential requests.
const SEQUENTIAL: u64 = M1 as u64;
/// Sequential requests in flight.
const SEQUENTIAL_DEPTH: u64 = 4;
/// Bytes of a unit whose parity is computed.
const UNIT: usize = 16 << 10;
/// Rows whose parity is computed.
const ROWS: usize = 4000;
/// A limit for loads that end after a number of requests.
const LONG: Duration = Duration::from_secs(3600);

/// Bytes that the members were given, parity included.
fn given(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|vdev| &vdev.members);
    members.map(|m| m.counters.written.total()).sum()
}

/// Processor time of the parity of a KiB of data, µs.
fn parity() -> Sample {
    let column = |n: usize| (0..UNIT).map(|at| (at * 31 + n * 7) as u8).collect();
    let columns = (0..(DATA + PARITY) as usize).map(column).collect();
    let mut row = Columns::new(columns, DATA as usize);
    let me = std::process::id();
    let spent = || process_cpu_time(me).unwrap_or_default();
    let before = spent();
    for _ in 0..ROWS {
        std::hint::black_box(&mut row).compute();
    }
    let kib = (ROWS * UNIT) as f64 * DATA as f64 / 1024.0;
    let cpu = us(spent().saturating_sub(before)) / kib;
    let point = Point {
        cpu_us: Some(cpu),
        ..Point::default()
    };
    sample(OURS, point)
}

impl PoolFiles<'_> {
    pub(super) async fn raidz(&self, row: Raidz) -> Result<Vec<Sample>> {
        let samples = match row {
            Raidz::Stored => self.stored().await,
            Raidz::Overwritten(percent) => self.overwritten(percent).await,
            Raidz::Sequential(act) => self.sequential(act).await,
            Raidz::Parity => Ok(vec![parity()]),
        };
        for path in self.members().filter(|path| path.exists()) {
            std::fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        samples
    }

    fn members(&self) -> impl Iterator<Item = PathBuf> {
        (0..DATA + PARITY).map(|n| self.disk().with_file_name(format!("member{n}.img")))
    }

    fn member_size(&self) -> u64 {
        (self.bench.extent.size / 4).max(MEMBER_MIN) / LARGE * LARGE
    }

    async fn create_raidz(&self) -> Result<Pool> {
        let mut members = Vec::new();
        for path in self.members() {
            members.push(file(&path, self.member_size()).await?);
        }
        let parity = PARITY as u8;
        let vdev = VdevSpec::new(Layout::Raidz { parity }, members);
        create_pool(vec![vdev], None, uncached()).await
    }

    /// Raw bytes that are used for each byte of records of 4 KiB.
    async fn stored(&self) -> Result<Vec<Sample>> {
        let pool = self.create_raidz().await?;
        let before = pool.space();
        let size = before.size / 2 / LARGE * LARGE;
        drop(self.volume(&pool, size).await?);
        let data = pool.space().used - before.used;
        pool.close().await.map_err(refused)?;
        let raw = data as f64 * (DATA + PARITY) as f64 / DATA as f64;
        let point = Point {
            written: Some(raw / size as f64),
            ..Point::default()
        };
        Ok(vec![sample(OURS, point)])
    }

    /// Bytes that the members get for each byte of random overwrites, of which `percent` of the space is live.
    async fn overwritten(&self, percent: u64) -> Result<Vec<Sample>> {
        let pool = self.create_raidz().await?;
        let size = pool.space().size * percent / 100 / LARGE * LARGE;
        let volume = self.volume(&pool, size).await?;
        let passes = |most| Plan {
            most,
            ..Plan::small(Act::Write, DEPTH, size)
        };
        let (ageing, measured) = self.bench.extent.overwrites(size / BLOCK);
        if ageing > 0 {
            volume.measure(passes(ageing), LONG, 1).await?;
        }
        let before = given(&pool);
        let point = volume.measure(passes(measured), LONG, 2).await?;
        let written = (given(&pool) - before) as f64 / (measured * BLOCK) as f64;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let point = Point {
            written: Some(written),
            ..point
        };
        Ok(vec![sample(OURS, point)])
    }

    /// Sequential requests to all members, raw, and to a volume.
    async fn sequential(&self, act: Act) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let mut samples = Vec::new();
        let plan = |bytes, depth, region| Plan {
            bytes,
            depth,
            is_sequential: true,
            ..Plan::small(act, depth, region)
        };
        let mut raw = Vec::new();
        for path in self.members() {
            let target = Target::Raw(file(&path, self.member_size()).await?);
            target.fill(self.member_size()).await?;
            raw.push(target);
        }
        for round in 0..extent.rounds {
            let plan = plan(SEQUENTIAL / DATA, 1, self.member_size());
            let begin = |target: &Target| target.begin(plan, u64::from(round));
            let running: Vec<_> = raw.iter().map(begin).collect();
            io::time::sleep(extent.runtime).await;
            let mut bytes = 0.0;
            for load in running {
                bytes += load.end().await?.bytes_per_s.unwrap_or_default();
            }
            let point = Point {
                bytes_per_s: Some(bytes),
                ..Point::default()
            };
            samples.push(sample(OTHER, point));
        }
        drop(raw);
        let pool = self.create_raidz().await?;
        let size = pool.space().size / 4 / SEQUENTIAL * SEQUENTIAL;
        let new = NewVolume {
            record_size: LARGE as u32,
            ..NewVolume::new(VOLUME, size)
        };
        let volume = Target::Volume(pool.create_volume(new).await.map_err(refused)?);
        volume.fill(size).await?;
        for round in 0..extent.rounds {
            let plan = plan(SEQUENTIAL, SEQUENTIAL_DEPTH, size);
            let point = volume
                .measure(plan, extent.runtime, u64::from(round))
                .await?;
            samples.push(sample(OURS, point));
        }
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok(samples)
    }
}
