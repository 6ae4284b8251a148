//! `wirepool bench report`: one page of machine, doctor, probes, results, stages and published results.
//!
//! **Called by** the command line. **Invariants**: the page needs nothing from elsewhere; it shows only numbers that are in its
//! inputs; every text of an input is escaped; an input that is missing is named.
//!
//! | module | owns |
//! |---|---|
//! | [`input`] | stored JSON of commands, recognized by its keys |
//! | `page` | the order of the sections |
//! | `probes` | ping, ioping and the TCP probe |
//! | `runs` | results of `bench run`, `matrix` and `compare`; local against remote; published results |
//! | `server` | the doctor's findings, stages of requests |

pub mod input;
mod page;
mod probes;
mod runs;
mod server;

pub use page::{Overview, render};
