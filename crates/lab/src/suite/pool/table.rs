//! The rows of the pool in their order, as a table.

use super::bench::{Bench, file};
use super::load::{Score, Target};
use super::{alone, beside, remote};
use crate::Result;
use crate::report::table::blank;
use crate::size::digits;
use crate::suite::lab::Lab;

/// Names of its rows.
pub(in crate::suite) fn rows() -> Vec<&'static str> {
    let with_network = remote::rows();
    beside::rows()
        .chain(with_network)
        .chain(alone::ROWS)
        .collect()
}

/// All rows as a table. Errors: the row that could not be measured.
pub(in crate::suite) async fn table(lab: &mut Lab<'_>) -> Result<String> {
    let bench = Bench {
        extent: lab.extent,
        place: lab.place,
        memory: lab.memory,
    };
    let disk = Target::Raw(file(&bench.disk(), bench.disk_size()).await?);
    disk.fill(bench.disk_size()).await?;
    drop(disk);
    let mut lines = Vec::new();
    if beside::rows().any(|row| lab.steps.wanted.contains(&row)) {
        lines = bench.beside(&mut lab.steps).await?;
    }
    if remote::rows().any(|row| lab.steps.wanted.contains(&row)) {
        let (setup, cpus) = (lab.setup.clone(), lab.processors().0);
        lines.extend(bench.remote(&mut lab.steps, &setup, cpus).await?);
    }
    lines.extend(bench.alone(&mut lab.steps).await?);
    let head = [
        "pool row", "goal", "measured", "raw file", "volume", "result",
    ];
    let mut t = blank(&head, 9);
    for line in lines {
        let [raw, volume] = line.scores.map(|s| s.map_or("–".into(), summary));
        let result = line.outcome.text().into();
        t.add_row([line.name, line.goal, line.measured, raw, volume, result]);
    }
    Ok(t.to_string())
}

/// Rate and processor time, short.
fn summary(score: Score) -> String {
    let cpu = digits(score.cpu_us);
    format!("{}, CPU {cpu}", crate::size::count(score.rate))
}
