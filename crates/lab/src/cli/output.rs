//! Output of a report.

use super::args::OutputArgs;
use crate::plan::Report;
use crate::report::{csv, field, fio, html, table};
use crate::{Error, Result};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Prints the report and writes the requested files. Errors: `File`.
pub(super) fn deliver(report: &Report, to: &OutputArgs) -> Result<()> {
    if to.json {
        print(&format!("{:#}\n", fio::render(report)))?;
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

/// Prints to standard output; a reader that exits early is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::file(Path::new("standard output"))(e))
        }
        _ => Ok(()),
    }
}

/// Writes a file and reports its path.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file(path))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
