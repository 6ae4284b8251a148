//! Report formats: for people, for programs, for a browser.
//!
//! **Called by** the command line, the demo and the suite. **Invariants**: every format has the verdict of each row;
//! none has a number that was not measured; names from a target are escaped.

pub mod csv;
pub mod field;
pub mod fio;
pub mod html;
mod printable;
mod svg;
pub mod table;
pub mod wrap;
