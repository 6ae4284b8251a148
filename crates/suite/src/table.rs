//! The order of the measurements, and their tables in text.

use crate::bench::Bench;
use crate::block::BlockServers;
use crate::extent::Extent;
use crate::goal::judge;
use crate::nfs::NfsServers;
use crate::peers;
use crate::point::{Point, Sample, median, summary};
use crate::pool::PoolTable;
use crate::rows::{Row, Table};
use lab::Result;
use lab::cli::block_on;
use lab::report::table::blank;
use lab::size::digits;
use std::fmt::Write;

/// The rounds of a column, by way.
type Column = Vec<(String, Vec<Point>)>;

/// Servers and targets of a table.
enum Contenders {
    Block(Box<BlockServers>),
    Nfs(Box<NfsServers>),
    Pool(Box<PoolTable>),
}

impl Contenders {
    async fn start(bench: &Bench, table: Table, rows: &[&Row], peer: bool) -> Result<Contenders> {
        Ok(match table {
            Table::Nvme | Table::Iscsi => Contenders::Block(Box::new(
                BlockServers::start(bench, table, rows, peer).await?,
            )),
            Table::Nfs => Contenders::Nfs(Box::new(NfsServers::start(bench, rows, peer).await?)),
            Table::Pool => Contenders::Pool(Box::default()),
        })
    }

    /// One round of a row.
    async fn round(&mut self, bench: &Bench, row: &Row, round: u32) -> Result<Vec<Sample>> {
        match self {
            Contenders::Block(block) => block.round(bench, row).await,
            Contenders::Nfs(nfs) => nfs.round(bench, row, round).await,
            Contenders::Pool(pool) => pool.round(bench, row, round).await,
        }
    }

    async fn stop(self) -> Result<()> {
        match self {
            Contenders::Block(block) => block.stop(),
            Contenders::Nfs(nfs) => nfs.stop(),
            Contenders::Pool(pool) => pool.stop().await,
        }
    }
}

/// Measures everything. Returns the tables in text. Errors: the row that could not be measured.
pub fn measure(extent: Extent) -> Result<String> {
    block_on(measure_all(extent.settled()))
}

async fn measure_all(extent: Extent) -> Result<String> {
    let chosen = extent.choose()?;
    let rows = chosen.iter().map(|(_, rows)| rows.len()).sum();
    let mut bench = Bench::new(extent, rows)?;
    let (mut out, mut missing) = (String::new(), Vec::new());
    for (table, rows) in &chosen {
        let lacks = peers::missing(*table);
        let with_peer = lacks.is_empty() && !bench.extent.no_peer;
        let text = measure_table(&mut bench, *table, rows, with_peer).await?;
        let _ = writeln!(out, "{text}");
        missing.extend(lacks);
    }
    bench.done();
    describe(&mut out, &bench, &missing);
    Ok(out)
}

async fn measure_table(
    bench: &mut Bench,
    table: Table,
    rows: &[&Row],
    with_peer: bool,
) -> Result<String> {
    let mut contenders = Contenders::start(bench, table, rows, with_peer).await?;
    let first = format!("{table:?} row");
    let mut head = vec![first.as_str(), "goal", "measured"];
    head.extend(table.columns());
    head.push("result");
    let mut text = blank(&head, head.len());
    for row in rows {
        bench.step(row);
        let mut columns = vec![Column::new(); table.columns().len()];
        let rounds = if row.is_once() {
            1
        } else {
            bench.extent.rounds
        };
        for round in 0..rounds {
            for sample in contenders.round(bench, row, round).await? {
                add(&mut columns[sample.column], sample);
            }
        }
        text.add_row(cells(row, &columns));
    }
    contenders.stop().await?;
    Ok(text.to_string())
}

fn add(column: &mut Column, sample: Sample) {
    match column.iter_mut().find(|(way, _)| *way == sample.way) {
        Some((_, points)) => points.push(sample.point),
        None => column.push((sample.way, vec![sample.point])),
    }
}

/// The cells of a row.
fn cells(row: &Row, columns: &[Column]) -> Vec<String> {
    let rate = |points: &[Point]| median(points, |p| p.rate).unwrap_or(0.0);
    let best = |column: &Column| {
        let ways = column.iter();
        let best = ways.max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)));
        best.cloned().unwrap_or_default()
    };
    let best: Vec<_> = columns.iter().map(best).collect();
    let (ours, other) = row.compared();
    let (measured, outcome) = judge(row.goal, &best[ours].1, &best[other].1);
    let goal = if row.goal.is_empty() { "–" } else { row.goal };
    let mut cells = vec![row.name.to_owned(), goal.to_owned(), measured];
    cells.extend(best.iter().map(|(way, points)| {
        let text = summary(points, row.block_size());
        if way.is_empty() {
            text
        } else {
            format!("{text} ({way})")
        }
    }));
    cells.push(outcome.text().into());
    cells
}

/// Describes the machine and the method.
fn describe(out: &mut String, bench: &Bench, missing: &[&str]) {
    let (m, e) = (&bench.machine, &bench.extent);
    let memory = m.memory >> 30;
    let _ = writeln!(
        out,
        "  {} × {}, {memory} GiB, Linux {}",
        m.processors, m.processor, m.kernel
    );
    let _ = writeln!(
        out,
        "  median of {} × {} s, in turn; IOPS or MiB/s, median latency, CPU per I/O in µs; x: of the other server, the local file, or the pool before; TCP cubic on our sockets",
        e.rounds,
        digits(e.runtime.as_secs_f64())
    );
    let pins = match bench.is_pinned() {
        true => "servers pinned to processor 0, clients to 1",
        false => "one processor: nothing is pinned",
    };
    let _ = writeln!(
        out,
        "  {pins}; only ratios carry over to another machine or hour"
    );
    if let Some(text) = m.busy() {
        let _ = writeln!(out, "  {text}");
    }
    if !missing.is_empty() && !e.no_peer {
        let missing = missing.join(", ");
        let _ = writeln!(
            out,
            "  no peer: {missing} missing (Debian's qemu-system-common, fio, tgt, nfs-ganesha and nfs-ganesha-vfs have them)"
        );
    }
}
