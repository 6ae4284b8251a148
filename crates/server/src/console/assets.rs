//! The files of the console, embedded in the program.
//!
//! **Owns** the list of files and their compressed form. **Called by** [`super::pages`]. **Invariants**: all files together have at most
//! `ZIPPED_MAX` bytes when compressed, which a test checks; nothing is fetched from another server.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::sync::OnceLock;

/// One file.
pub(super) struct Asset {
    path: &'static str,
    /// Its media type.
    pub(super) kind: &'static str,
    /// Its contents.
    pub(super) bytes: &'static [u8],
    /// Its contents, compressed by gzip.
    pub(super) zipped: Vec<u8>,
    /// Its version, quoted.
    pub(super) etag: String,
}

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        const FILES: &[(&str, &str, &[u8])] = &[
            $((
                concat!("/", $name),
                $kind,
                include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/", $name)),
            )),*
        ];
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

files! {
    "index.html" HTML,
    "style.css" CSS,
    "icon.svg" SVG,
    "main.js" JS,
    "api.js" JS,
    "call.js" JS,
    "dom.js" JS,
    "format.js" JS,
    "health.js" JS,
    "chart.js" JS,
    "table.js" JS,
    "dialog.js" JS,
    "actions.js" JS,
    "jobs.js" JS,
    "overview.js" JS,
    "classes.js" JS,
    "pools.js" JS,
    "datasets.js" JS,
    "exports.js" JS,
    "sessions.js" JS,
    "insight.js" JS,
}

fn all() -> &'static [Asset] {
    static ALL: OnceLock<Vec<Asset>> = OnceLock::new();
    ALL.get_or_init(|| FILES.iter().map(prepare).collect())
}

fn prepare((path, kind, bytes): &(&'static str, &'static str, &'static [u8])) -> Asset {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zipped = encoder.write_all(bytes).and_then(|()| encoder.finish());
    let digest = Sha256::digest(bytes);
    let version: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    Asset {
        path,
        kind,
        bytes,
        zipped: zipped.expect("memory takes all bytes"),
        etag: format!("\"{version}\""),
    }
}

/// The file at this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    let path = if path == "/" { "/index.html" } else { path };
    all().iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Most bytes of all files, compressed.
    const ZIPPED_MAX: usize = 60 << 10;

    #[test]
    fn the_console_is_small() {
        let zipped: usize = all().iter().map(|a| a.zipped.len()).sum();
        println!("the console has {zipped} bytes compressed");
        assert!(zipped <= ZIPPED_MAX, "{zipped}");
    }

    #[test]
    fn every_file_is_embedded_and_named_by_the_page() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let found = std::fs::read_dir(dir).expect("the files");
        let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("listed").file_name();
        let found: BTreeSet<_> = found
            .map(|e| name(e).into_string().expect("a name"))
            .collect();
        let embedded: BTreeSet<_> = FILES
            .iter()
            .map(|(path, ..)| path[1..].to_owned())
            .collect();
        assert_eq!(found, embedded);
        let page = find("/").expect("embedded");
        let page = std::str::from_utf8(page.bytes).expect("text");
        for (path, ..) in FILES.iter().filter(|(path, ..)| *path != "/index.html") {
            assert!(
                page.contains(&format!("\"{path}\"")),
                "{path} is not preloaded"
            );
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_markup() {
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).expect("text");
            for word in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
            ] {
                let known = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!known.contains(word), "{path} has {word}");
            }
        }
    }
}
