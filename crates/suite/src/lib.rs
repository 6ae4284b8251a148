//! The suite: tables of performance goals, measured together with other servers in one run.
//!
//! | module | owns |
//! |---|---|
//! | `extent` | the command line: which rows, how long, where |
//! | `rows` | the table of all rows: name, work, goal |
//! | `goal`, `point` | goals in words and numbers, measurements, their medians |
//! | `table` | the order of rounds, and a table in text |
//! | `bench` | files, processors and progress that all tables share |
//! | `block`, `nfs`, `pool` | servers and targets of the rows |
//! | `peers` | the other servers: `qemu-storage-daemon`, `tgt`, `nfs-ganesha` |
//!
//! **Called by** `wirepool-suite` and a test of `wirepool`. **Invariants**: servers are pinned to one processor and clients to another, if
//! there are two; rounds alternate; a missed goal is a result, not a failure; a failed measurement is reported, never guessed.

#![forbid(unsafe_code)]

mod bench;
mod block;
mod extent;
mod goal;
mod nfs;
mod peers;
mod point;
mod pool;
mod rows;
mod table;

pub use extent::Extent;
pub use table::measure;
