//! Cost of parity: `cargo bench -p wirepool-pool --bench parity`.
//!
//! Microseconds for each KiB of data, of computing parity and of reconstructing as many data columns as there is parity.

use std::hint::black_box;
use std::time::Instant;

use pool::vdev::parity::{Columns, PARITY_MAX};

/// Runs each case over `rows` rows of columns of `unit` bytes.
pub(crate) fn run(unit: usize, rows: usize) {
    println!(
        "{:>12} {:>16} {:>16}",
        "columns", "compute µs/KiB", "rebuild µs/KiB"
    );
    for parity in 1..=PARITY_MAX {
        let data = 8;
        let column = |n: usize| (0..unit).map(|at| (at * 31 + n * 7) as u8).collect();
        let mut row = Columns::new((0..data + parity).map(column).collect(), data);
        let kib = (rows * data * unit) as f64 / 1024.0;
        let began = Instant::now();
        for _ in 0..rows {
            black_box(&mut row).compute();
        }
        let computed = began.elapsed().as_secs_f64() * 1e6 / kib;
        let missing: Vec<usize> = (0..parity).collect();
        let began = Instant::now();
        for _ in 0..rows {
            assert!(black_box(&mut row).reconstruct(&missing));
        }
        let rebuilt = began.elapsed().as_secs_f64() * 1e6 / kib;
        println!(
            "{:>12} {computed:>16.3} {rebuilt:>16.3}",
            format!("{data}+{parity}")
        );
    }
}

#[allow(dead_code, reason = "the tests call `run` themselves")]
fn main() {
    run(16 << 10, 4000);
}
