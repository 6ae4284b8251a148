//! Stored reports: pages that drills and measurements wrote into one directory.
//!
//! **Owns** the rules for their names. **Called by** the control API and the console. **Invariants**: only regular files of the directory
//! itself are read, for every name that a request may have; the text of a page came from elsewhere: the console serves it without scripts. Every function
//! blocks.

use crate::api::StoredReport;
use crate::limits::{REPORT_LEN_MAX, REPORTS_MAX};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Result};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Directory of reports below the state directory.
pub(crate) const DIRECTORY: &str = "reports";
/// Bytes of a page that are searched for its heading.
const HEAD_LEN: u64 = 4096;

/// Whether a report may have this name: a plain name of an HTML page.
fn is_name(name: &str) -> bool {
    name.ends_with(".html") && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// A report and its metadata. Errors: `NotFound` also if it is no regular file.
fn find(dir: &Path, name: &str) -> Result<(File, Metadata)> {
    if !is_name(name) {
        return Err(ErrorKind::NotFound.into());
    }
    let path = dir.join(name);
    // The metadata of a symbolic link are its own.
    let metadata = std::fs::symlink_metadata(&path)?;
    match metadata.is_file() && metadata.len() <= REPORT_LEN_MAX {
        true => Ok((File::open(path)?, metadata)),
        false => Err(ErrorKind::NotFound.into()),
    }
}

/// The text between the tags of the page's title.
fn title(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    let mut text = title.trim().to_owned();
    for (escaped, plain) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(escaped, plain);
    }
    (!text.is_empty()).then_some(text)
}

fn describe(dir: &Path, name: String) -> Result<StoredReport> {
    let (file, metadata) = find(dir, &name)?;
    let mut head = Vec::new();
    file.take(HEAD_LEN).read_to_end(&mut head)?;
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
    Ok(StoredReport {
        title: title(&String::from_utf8_lossy(&head)).unwrap_or_else(|| name.clone()),
        size: metadata.len(),
        modified_ms: modified.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        name,
    })
}

/// The reports of a directory, newest first; none if there is no directory. Errors: the directory cannot be read.
pub(crate) fn list(dir: &Path) -> Result<Vec<StoredReport>> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let names = names.filter(|name| is_name(name)).take(REPORTS_MAX);
    let mut all: Vec<_> = names.filter_map(|n| describe(dir, n).ok()).collect();
    all.sort_by(|a, b| (b.modified_ms, &a.name).cmp(&(a.modified_ms, &b.name)));
    Ok(all)
}

/// The page of a report. Errors: `NotFound`, or it cannot be read.
pub(crate) fn page(dir: &Path, name: &str) -> Result<Vec<u8>> {
    let (file, _) = find(dir, name)?;
    let mut bytes = Vec::new();
    file.take(REPORT_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_pages_of_the_directory_are_reports() {
        let place = tempfile::tempdir().expect("a directory");
        let dir = place.path().join("reports");
        assert!(list(&dir).expect("no directory").is_empty());
        fs::create_dir(&dir).expect("made");
        fs::write(place.path().join("secret.html"), "secret").expect("written");
        fs::write(
            dir.join("drill.html"),
            "<html><title>Drill: a &amp;lt; b</title>",
        )
        .expect("written");
        fs::write(dir.join("plain.html"), "no title").expect("written");
        fs::write(dir.join("notes.txt"), "no page").expect("written");
        fs::create_dir(dir.join("dir.html")).expect("made");
        symlink(place.path().join("secret.html"), dir.join("link.html")).expect("linked");
        let all = list(&dir).expect("listed");
        let mut titles: Vec<_> = all.iter().map(|r| r.title.as_str()).collect();
        titles.sort_unstable();
        assert_eq!(titles, ["Drill: a &lt; b", "plain.html"]);
        assert_eq!(page(&dir, "plain.html").expect("read"), b"no title");
        for bad in [
            "../secret.html",
            "link.html",
            "dir.html",
            "notes.txt",
            "none.html",
            "",
            ".html",
        ] {
            assert!(page(&dir, bad).is_err(), "{bad}");
        }
    }
}
