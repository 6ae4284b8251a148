//! The words of a pool's layout: `DISK... [LAYOUT DISK...] [special [mirror] DISK...] [log [mirror] DISK...] [cache DISK...] [spare DISK...]`, LAYOUT one of
//! mirror, raidz1 (or raidz), raidz2 and raidz3. After `special`, all vdevs are for nodes and small records; after `log`, for the journal.
//!
//! **Owns** the grammar. **Called by** `pool create` and `pool add`. **Invariants**: a word of the grammar is never a path or a name; a
//! word that is neither a word of the grammar, nor a disk, nor looks like a file is refused, so that a mistyped layout makes no files.

use server::api::{LAYOUT_WORDS, VdevClass, VdevLayout, VdevSpec};
use std::path::{Path, PathBuf};

/// Directories in which a bare word may name a disk.
const DISK_DIRECTORIES: [&str; 3] = ["/dev", "/dev/disk/by-id", "/dev/mapper"];
/// Most single-letter changes between a mistyped word and the suggested one.
const TYPING_ERRORS_MAX: usize = 2;

/// The vdevs, spares and cache devices of a layout.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) vdevs: Vec<VdevSpec>,
    pub(crate) spares: Vec<PathBuf>,
    pub(crate) caches: Vec<PathBuf>,
}

/// The disks that the words name; `name` is the pool's name if the pool is new. Errors: the reason, for people.
pub(crate) fn parts(words: &[String], name: Option<&str>) -> Result<Parts, String> {
    if let Some(name) = name.filter(|name| is_layout_word(name)) {
        return Err(format!(
            "the name of the pool is missing before the word {name:?}, as in `pool create tank {name} DISK...`"
        ));
    }
    let mut parts = parse(words, |path| path.exists())?;
    let members = parts.vdevs.iter_mut().flat_map(|vdev| &mut vdev.members);
    for path in members.chain(&mut parts.spares).chain(&mut parts.caches) {
        *path = std::path::absolute(&*path).map_err(|e| e.to_string())?;
    }
    let mut classes = parts.vdevs.iter().map(|vdev| vdev.class);
    if name.is_some() && !classes.any(|class| class == VdevClass::Normal) {
        return Err("a pool needs disks for its data beside its logs, special vdevs, cache devices and spares: name them before the words \"log\", \"special\", \"cache\" and \"spare\"".into());
    }
    Ok(parts)
}

fn is_layout_word(word: &str) -> bool {
    LAYOUT_WORDS.contains(&word)
}

/// The layout that a word begins.
fn layout(word: &str) -> Option<VdevLayout> {
    match word {
        "mirror" => Some(VdevLayout::Mirror),
        "raidz" | "raidz1" => Some(VdevLayout::Raidz1),
        "raidz2" => Some(VdevLayout::Raidz2),
        "raidz3" => Some(VdevLayout::Raidz3),
        _ => None,
    }
}

/// The part of a layout that a disk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Vdevs(VdevClass),
    Spares,
    Caches,
}

impl Section {
    /// The part that a word begins.
    fn begun_by(word: &str) -> Option<Self> {
        match word {
            "log" => Some(Self::Vdevs(VdevClass::Log)),
            "special" => Some(Self::Vdevs(VdevClass::Special)),
            "spare" => Some(Self::Spares),
            "cache" => Some(Self::Caches),
            _ => None,
        }
    }
}

/// Errors: the reason, for people.
fn parse(words: &[String], is_there: impl Fn(&Path) -> bool) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut section = Section::Vdevs(VdevClass::Normal);
    // the word that has no disk yet, and whether disks join the last vdev
    let (mut without, mut joins): (Option<&str>, bool) = (None, false);
    for word in words.iter().map(String::as_str) {
        if let Some(next) = Section::begun_by(word) {
            if without.is_some() {
                break;
            }
            (section, without, joins) = (next, Some(word), false);
        } else if let Some(layout) = layout(word) {
            let class = match section {
                Section::Vdevs(class) => class,
                Section::Spares | Section::Caches if without.is_some() => break,
                Section::Spares | Section::Caches => VdevClass::Normal,
            };
            let of_class = match class {
                VdevClass::Normal => None,
                VdevClass::Log => Some(("log", "log")),
                VdevClass::Special => Some(("special vdev", "special")),
            };
            if let Some((noun, word)) = of_class.filter(|_| layout != VdevLayout::Mirror) {
                return Err(format!(
                    "a {noun} is one disk or a mirror, not a {layout}: {word} mirror DISK DISK"
                ));
            }
            (section, without, joins) = (Section::Vdevs(class), None, true);
            let members = Vec::new();
            parts.vdevs.push(VdevSpec {
                layout,
                class,
                members,
            });
        } else if is_layout_word(word) {
            return Err(format!(
                "{word:?} is a layout that this version does not have: use mirror, raidz1, raidz2, raidz3, log, special, cache or spare"
            ));
        } else {
            let path = disk(word, &is_there)?;
            without = None;
            match (section, parts.vdevs.last_mut()) {
                (Section::Spares, _) => parts.spares.push(path),
                (Section::Caches, _) => parts.caches.push(path),
                (Section::Vdevs(_), Some(vdev)) if joins => vdev.members.push(path),
                (Section::Vdevs(class), _) => parts.vdevs.push(VdevSpec {
                    class,
                    ..VdevSpec::mirror(vec![path])
                }),
            }
        }
    }
    if let Some(word) = without {
        return Err(format!(
            "the word {word:?} needs at least one disk: {word} DISK"
        ));
    }
    let has_few = |v: &&VdevSpec| !v.layout.takes(v.members.len());
    if let Some(few) = parts.vdevs.iter().find(has_few) {
        let least = few.layout.least_disks();
        let disks = vec!["DISK"; least].join(" ");
        return Err(format!(
            "a {0} needs at least {least} disks: {0} {disks}",
            few.layout
        ));
    }
    Ok(parts)
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
        let text = |vdev: VdevSpec| {
            let all: Vec<_> = vdev
                .members
                .iter()
                .map(|m| m.display().to_string())
                .collect();
            let class = match vdev.class {
                VdevClass::Normal => "",
                VdevClass::Log => "log ",
                VdevClass::Special => "special ",
            };
            format!("{class}{} {}", vdev.layout, all.join(" "))
        };
        let parts = parse(&words, is_there)?;
        let spares = parts
            .spares
            .iter()
            .map(|p| format!("spare {}", p.display()));
        let caches = parts.caches.iter();
        let caches = caches.map(|p| format!("cache {}", p.display()));
        let all = parts.vdevs.into_iter().map(text).chain(caches);
        let all = all.chain(spares);
        Ok(all.collect::<Vec<_>>().join(" | "))
    }

    /// Regression: `raidz a b c --size 1G` made a pool of four files, one of them named "raidz", when that layout was not there.
    #[test]
    fn words_of_the_grammar_are_no_paths_and_mistyped_ones_no_files() {
        for (line, expected) in [
            ("a.img", "disk a.img"),
            (
                "mirror a.img b.img mirror c.img ./d",
                "mirror a.img b.img | mirror c.img ./d",
            ),
            (
                "old ./new sda nvme-x",
                "disk old | disk ./new | disk /dev/sda | disk /dev/disk/by-id/nvme-x",
            ),
            (
                "a.img mirror b.img c.img",
                "disk a.img | mirror b.img c.img",
            ),
            (
                "raidz2 a.img b.img c.img raidz d.img e.img",
                "raidz2 a.img b.img c.img | raidz1 d.img e.img",
            ),
            (
                "mirror a.img b.img spare c.img d.img mirror e.img f.img",
                "mirror a.img b.img | mirror e.img f.img | spare c.img | spare d.img",
            ),
            ("spare c.img spare sda", "spare c.img | spare /dev/sda"),
            (
                "mirror a.img b.img log c.img d.img spare e.img",
                "mirror a.img b.img | log disk c.img | log disk d.img | spare e.img",
            ),
            (
                "a.img log mirror c.img d.img mirror e.img f.img",
                "disk a.img | log mirror c.img d.img | log mirror e.img f.img",
            ),
            (
                "raidz a.img b.img special c.img mirror d.img e.img log f.img",
                "raidz1 a.img b.img | special disk c.img | special mirror d.img e.img | log disk f.img",
            ),
        ] {
            assert_eq!(parsed(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, said) in [
            (
                "draid a.img b.img c.img",
                "\"draid\" is a layout that this version does not have",
            ),
            (
                "raidz3 a.img b.img c.img",
                "a raidz3 needs at least 4 disks: raidz3 DISK DISK DISK DISK",
            ),
            ("mirror a.img b.img dedup c.img", "\"dedup\" is a layout"),
            ("a.img log", "the word \"log\" needs at least one disk"),
            (
                "a.img log spare b.img",
                "the word \"log\" needs at least one disk",
            ),
            (
                "a.img log raidz b.img c.img",
                "a log is one disk or a mirror, not a raidz1",
            ),
            (
                "a.img special",
                "the word \"special\" needs at least one disk",
            ),
            (
                "a.img special raidz2 b.img c.img d.img",
                "a special vdev is one disk or a mirror, not a raidz2",
            ),
            ("a.img specail b.img", "did you mean the word \"special\"?"),
            ("a.img log mirror b.img", "at least 2 disks"),
            (
                "mirror a.img b.img spare",
                "\"spare\" needs at least one disk",
            ),
            (
                "a.img spare mirror b.img c.img",
                "\"spare\" needs at least one disk",
            ),
            (
                "a.img spare spare b.img",
                "\"spare\" needs at least one disk",
            ),
            (
                "mirror a.img b.img spar c.img",
                "did you mean the word \"spare\"?",
            ),
            ("miror a.img b.img", "did you mean the word \"mirror\"?"),
            ("Mirror a.img b.img", "did you mean the word \"mirror\"?"),
            ("radiz2 a.img b.img", "did you mean the word \"raidz2\"?"),
            ("mirror a b", "there is no disk \"a\""),
            ("mirror a.img", "at least 2 disks"),
        ] {
            let refused = parsed(line).expect_err(line);
            assert!(refused.contains(said), "{line}: {refused}");
        }
    }

    #[test]
    fn cache_devices_are_no_vdevs() {
        for (line, expected) in [
            (
                "mirror a.img b.img cache c.img d.img spare e.img log f.img",
                "mirror a.img b.img | log disk f.img | cache c.img | cache d.img | spare e.img",
            ),
            ("cache c.img", "cache c.img"),
        ] {
            assert_eq!(parsed(line).as_deref(), Ok(expected), "{line}");
        }
        for line in ["a.img cache", "a.img cache mirror b.img c.img"] {
            let refused = parsed(line).expect_err(line);
            let said = "\"cache\" needs at least one disk";
            assert!(refused.contains(said), "{line}: {refused}");
        }
    }
}
