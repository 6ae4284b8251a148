//! Parts of the pool by themselves, each with a few tests: one program, since linking one takes longer than running them.

mod bench_runs;
mod cache_label;
mod disks;
mod format;
mod golden;
mod isal;
mod label;
mod large;
mod lost;
mod parity;
mod pool_tree;
mod rebuild;
mod space;
mod spare;
mod stages;
mod sweeps;
mod uberblock;
mod writes;
