//! The copy of the source tree that has all mutants.
//!
//! **Owns** everything below `target/mutants/tree`. **Invariants**: a file is written only if its bytes change, so that
//! the next build compiles only what changed.

use super::list::{Edit, Mutant};
use crate::repo;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the switch lives: the crate that every other one uses.
const SWITCH_FILE: &str = "crates/io/src/lib.rs";

/// Whether a mutant is chosen, by its number in the environment.
const SWITCH: &str = r#"
/// Whether this run has the mutant of this number.
pub fn mutant(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("WIREPOOL_MUTANT").ok()?.parse().ok();
    *CHOSEN.get_or_init(|| chosen().unwrap_or(0)) == number
}
"#;

/// The texts of all files that differ from the tree below `root`, by path.
///
/// # Errors
/// A mutant's file cannot be read, or has its text not exactly once.
pub(super) fn edits(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>> {
    let read = |file: &str| {
        let text = std::fs::read_to_string(root.join(file));
        text.with_context(|| format!("reading {file}"))
    };
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    texts.insert(SWITCH_FILE.into(), read(SWITCH_FILE)? + SWITCH);
    let places = || {
        let of_one = |(number, mutant): (usize, &'_ Mutant)| {
            let places = mutant.edits.clone().into_iter();
            let name = mutant.name.clone();
            places.map(move |edit| (number, name.clone(), edit))
        };
        (1..).zip(mutants).flat_map(of_one)
    };
    for (_, name, Edit { file, text, .. }) in places() {
        let found = read(&file)?.matches(&text).count();
        let is_once = found == 1;
        ensure!(
            is_once,
            "mutant {name}: {file} has its text {found} times: {text}"
        );
    }
    for (number, name, edit) in places() {
        let text = match texts.remove(&edit.file) {
            Some(text) => text,
            None => read(&edit.file)?,
        };
        let is_free = text.matches(&edit.text).count() == 1;
        ensure!(is_free, "mutant {name} overlaps another");
        let text = text.replacen(&edit.text, &edit.switched(number), 1);
        texts.insert(edit.file, text);
    }
    Ok(texts)
}

/// Makes the copy. Returns its root.
pub(super) fn copy(root: &Path, mutants: &[Mutant]) -> Result<PathBuf> {
    let mut edits = edits(root, mutants)?;
    let to = repo::target().join("mutants/tree");
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .args([
            "Cargo.toml",
            "Cargo.lock",
            "rust-toolchain.toml",
            "crates",
            "xtask",
        ])
        .current_dir(root)
        .output()?;
    let names = String::from_utf8(output.stdout).context("file names are UTF-8")?;
    let names: Vec<&str> = names.split('\0').filter(|n| !n.is_empty()).collect();
    ensure!(!names.is_empty(), "git names no source file");
    let mut written = BTreeSet::new();
    for name in names {
        let bytes = match edits.remove(name) {
            Some(text) => text.into_bytes(),
            None => match std::fs::read(root.join(name)) {
                Ok(bytes) => bytes,
                // deleted, and still in the index
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e).with_context(|| format!("reading {name}")),
            },
        };
        write_if_new(&to.join(name), &bytes)?;
        written.insert(to.join(name));
    }
    remove_others(&to.join("crates"), &written)?;
    Ok(to)
}

/// Removes the files below `dir` that are not in `keep`: a module that moved must not be there twice.
fn remove_others(dir: &Path, keep: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, keep)?;
        } else if !keep.contains(&path) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let dir = path.parent().context("a file lies in a folder")?;
    std::fs::create_dir_all(dir)?;
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(mutants: &[Mutant]) -> Result<BTreeMap<String, String>> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file(SWITCH_FILE, "//! io\n");
        file("a.rs", "one(); two(); two();");
        edits(dir.path(), mutants)
    }

    fn mutant(name: &str, text: &str) -> Mutant {
        Mutant {
            name: name.into(),
            promise: "p".into(),
            scenario: "pool".into(),
            edits: vec![Edit {
                file: "a.rs".into(),
                text: text.into(),
                with: "()".into(),
            }],
        }
    }

    #[test]
    fn mutants_of_one_file_go_side_by_side() {
        let edits = tree(&[mutant("a", "one()"), mutant("b", "two(); two()")]).unwrap();
        let text = &edits["a.rs"];
        assert!(
            text.contains("mutant(1)") && text.contains("mutant(2)"),
            "{text}"
        );
        assert!(edits[SWITCH_FILE].contains("pub fn mutant"));
    }

    #[test]
    fn files_that_left_the_tree_leave_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, moved) = (dir.path().join("a/mod.rs"), dir.path().join("a.rs"));
        write_if_new(&kept, b"new").unwrap();
        write_if_new(&moved, b"old").unwrap();
        remove_others(dir.path(), &BTreeSet::from([kept.clone()])).unwrap();
        assert!(kept.exists() && !moved.exists());
    }

    #[test]
    fn a_text_that_is_not_there_or_there_twice_is_an_error() {
        let missing = tree(&[mutant("a", "three()")]).unwrap_err();
        assert!(missing.to_string().contains("0 times"), "{missing}");
        let twice = tree(&[mutant("a", "two()")]).unwrap_err();
        assert!(twice.to_string().contains("2 times"), "{twice}");
    }
}
