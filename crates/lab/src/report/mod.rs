//! Report formats: for people, for programs, for a browser.
//!
//! **Called by** the command line, the demo, the suite and the probes. **Invariants**: every format has the verdict of each row;
//! none has a number that was not measured; names from a target are escaped.

pub mod csv;
pub mod field;
pub mod fio;
mod frame;
pub mod html;
pub mod overview;
mod printable;
mod svg;
pub mod table;
pub mod wrap;
