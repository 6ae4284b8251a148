//! Output of a report.

use super::args::OutputArgs;
use crate::Result;
use crate::plan::Report;
use crate::report::{csv, field, fio, html, table};
use crate::terminal::{print, write};

/// Prints the report and writes the requested files. Errors: `File`.
pub(super) fn deliver(report: &Report, to: &OutputArgs) -> Result<()> {
    if to.json {
        print(&fio::text(report))?;
    } else {
        print(&table::render(report, report.targets.len() == 1))?;
        if to.field {
            print(&format!("\n{}", field::render()))?;
        }
    }
    if let Some(path) = &to.csv {
        write(path, &csv::render(report))?;
    }
    if let Some(path) = &to.html {
        write(path, &html::render(report))?;
    }
    Ok(())
}
