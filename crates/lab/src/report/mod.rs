//! Report formats: for people, for programs, for a browser.
//!
//! **Called by** the command line, the demo, the suite, the probes and the drills. **Invariants**: every format has the verdict of each row;
//! none has a number that was not measured; names from a target are escaped.

pub mod csv;
pub mod field;
pub mod fio;
mod frame;
pub mod html;
pub mod overview;
pub mod page;
mod printable;
mod svg;
pub mod table;
pub mod timeline;
pub mod wrap;
