//! What a report looks like: for people, for programs, for a browser.
//!
//! **Called by** the command line, the demo and the suite. **Invariants**: every form tells the verdict of each row;
//! none makes up a number that was not measured.

pub mod csv;
pub mod field;
pub mod fio;
pub mod html;
mod svg;
pub mod table;
