//! Tests of the configuration file.

mod edits;
mod sections;
mod targets;
