//! The words of a pool's layout: `[mirror] DISK... [mirror DISK...]`.
//!
//! **Owns** the grammar. **Called by** `pool create` and `pool add`. **Invariants**: a word of the grammar is never a path or a name; a
//! word that is neither a word of the grammar, nor a disk, nor looks like a file is refused, so that a mistyped layout makes no files.

use server::api::LAYOUT_WORDS;
use std::path::{Path, PathBuf};

/// The word before the members of a mirror.
const MIRROR: &str = "mirror";
/// Directories in which a bare word may name a disk.
const DISK_DIRECTORIES: [&str; 3] = ["/dev", "/dev/disk/by-id", "/dev/mapper"];
/// Most single-letter changes between a mistyped word and the suggested one.
const TYPING_ERRORS_MAX: usize = 2;

/// The vdevs that the words name; `name` is the pool's name if the pool is new. Errors: the reason, for people.
pub(crate) fn vdevs(words: &[String], name: Option<&str>) -> Result<Vec<Vec<PathBuf>>, String> {
    if let Some(name) = name.filter(|name| is_layout_word(name)) {
        return Err(format!(
            "the name of the pool is missing before the word {name:?}, as in `pool create tank {name} DISK...`"
        ));
    }
    let absolute = |members: Vec<PathBuf>| {
        let members = members.into_iter().map(std::path::absolute);
        members.collect::<std::io::Result<Vec<_>>>()
    };
    let vdevs = parse(words, |path| path.exists())?;
    let vdevs = vdevs.into_iter().map(absolute);
    vdevs
        .collect::<std::io::Result<_>>()
        .map_err(|e| e.to_string())
}

fn is_layout_word(word: &str) -> bool {
    LAYOUT_WORDS.contains(&word)
}

/// Errors: the reason, for people.
fn parse(words: &[String], is_there: impl Fn(&Path) -> bool) -> Result<Vec<Vec<PathBuf>>, String> {
    let mut vdevs: Vec<Vec<PathBuf>> = Vec::new();
    let mut in_mirror = false;
    for word in words {
        if word == MIRROR {
            in_mirror = true;
            vdevs.push(Vec::new());
        } else if is_layout_word(word) {
            return Err(format!(
                "{word:?} is a layout that this version does not have: use `mirror DISK DISK`"
            ));
        } else {
            let path = disk(word, &is_there)?;
            match vdevs.last_mut() {
                Some(members) if in_mirror => members.push(path),
                _ => vdevs.push(vec![path]),
            }
        }
    }
    let mirrors = words.split(|word| word == MIRROR).skip(1);
    if mirrors.into_iter().any(|members| members.len() < 2) {
        return Err("a mirror needs at least two disks: mirror DISK DISK".into());
    }
    Ok(vdevs)
}

/// The disk or file that a word names.
fn disk(word: &str, is_there: &impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let path = Path::new(word);
    if word.contains('/') || is_there(path) {
        return Ok(path.to_owned());
    }
    let in_directory = |directory: &&&str| is_there(&Path::new(directory).join(word));
    if let Some(directory) = DISK_DIRECTORIES.iter().find(in_directory) {
        return Ok(Path::new(directory).join(word));
    }
    let distance = |known: &&&str| strsim::osa_distance(&word.to_lowercase(), known);
    let nearest = LAYOUT_WORDS.iter().min_by_key(distance);
    let near = nearest.filter(|known| distance(known) <= TYPING_ERRORS_MAX && word.len() > 2);
    match near {
        Some(known) => Err(format!(
            "there is no disk {word:?}: did you mean the word {known:?}? (a new file of that name is ./{word})"
        )),
        // A name with an extension cannot be a mistyped word of the grammar.
        None if path.extension().is_some() => Ok(path.to_owned()),
        None => Err(format!(
            "there is no disk {word:?} here, in /dev or in /dev/disk/by-id (a new file of that name is ./{word})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<String, String> {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let there = ["old", "/dev/sda", "/dev/disk/by-id/nvme-x"];
        let is_there = |path: &Path| there.iter().any(|t| Path::new(t) == path);
        let text = |members: Vec<PathBuf>| {
            let all: Vec<_> = members.iter().map(|m| m.display().to_string()).collect();
            all.join(" ")
        };
        let vdevs = parse(&words, is_there)?;
        Ok(vdevs.into_iter().map(text).collect::<Vec<_>>().join(" | "))
    }

    /// Regression: `raidz a b c --size 1G` made a pool of four files, one of them named "raidz".
    #[test]
    fn words_of_the_grammar_are_no_paths_and_mistyped_ones_no_files() {
        for (line, expected) in [
            ("a.img", "a.img"),
            (
                "mirror a.img b.img mirror c.img ./d",
                "a.img b.img | c.img ./d",
            ),
            (
                "old ./new sda nvme-x",
                "old | ./new | /dev/sda | /dev/disk/by-id/nvme-x",
            ),
            ("a.img mirror b.img c.img", "a.img | b.img c.img"),
        ] {
            assert_eq!(parsed(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, said) in [
            (
                "raidz a.img b.img c.img",
                "\"raidz\" is a layout that this version does not have",
            ),
            ("mirror a.img b.img spare c.img", "\"spare\" is a layout"),
            ("miror a.img b.img", "did you mean the word \"mirror\"?"),
            ("Mirror a.img b.img", "did you mean the word \"mirror\"?"),
            ("radiz2 a.img b.img", "did you mean the word \"raidz2\"?"),
            ("mirror a b", "there is no disk \"a\""),
            ("mirror a.img", "at least two disks"),
        ] {
            let refused = parsed(line).expect_err(line);
            assert!(refused.contains(said), "{line}: {refused}");
        }
    }
}
