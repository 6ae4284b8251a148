//! Banned phrases in comments and documents: words that hide the thing that a sentence is about.
//!
//! **Owns** the list of phrases, and the file of sentences that mean one of them literally ([`ALLOWED`]). **Called by** `tidy`.
//! **Invariants**: a phrase is found across line breaks; string literals and fenced code are not searched; an allowed sentence
//! that no longer occurs is a finding, so that the file does not go stale.

use super::code::{comments_only, words};
use super::docs::prose;
use super::{Finding, Text};

/// Sentences that mean a phrase literally, one for each line: a path, a colon, and words around the phrase.
const ALLOWED: &str = "xtask/src/tidy/allowed_phrases.txt";

/// Why the phrases of a group are banned, and the phrases.
const PHRASES: &[(&str, &[&str])] = &[
    (
        "name the number or the thing",
        &["so many", "so much", "how many they are", "how they are"],
    ),
    (
        "name the component or the person",
        &["whoever", "those who", "who waits", "somebody", "everybody"],
    ),
    (
        "name the things",
        &[
            "those that",
            "whatever",
            "what is left",
            "what came",
            "what comes",
            "what goes",
            "what else",
            "what it is asked",
            "what was asked",
            "what is asked",
            "what became of",
            "what becomes of",
            "what came of",
            "all that is",
        ],
    ),
    (
        "say what is the case, without a negation of a change",
        &[
            "no more,",
            "no more.",
            "no more;",
            "is no more",
            "are no more",
        ],
    ),
    (
        "use the verb of the field: report, find, visit, fail, replace",
        &[
            "tells of",
            "told of",
            "comes by",
            "came by",
            "come by",
            "makes way",
            "says so",
            "say so",
            "dies",
            "goes away",
            "went away",
        ],
    ),
    (
        "use the common word: because of, obtained, missing",
        &[
            "for want of",
            "to be had",
            "cannot be had",
            "in vain",
            "came to lie",
            "comes to lie",
            "come to lie",
            "as ever",
        ],
    ),
];

/// Phrases in the comments of Rust files and in the prose of Markdown files.
pub(super) fn check(files: &[Text]) -> Vec<Finding> {
    let allowed_text = files.iter().find(|f| f.path == ALLOWED);
    let allowed: Vec<Allowed> = allowed_text.map_or(Vec::new(), |f| read_allowed(&f.text));
    let mut is_used = vec![false; allowed.len()];
    let mut findings = Vec::new();
    for file in files {
        let Some(prose) = Prose::of(file) else {
            continue;
        };
        for (at, phrase, advice) in prose.phrases() {
            let found = allowed
                .iter()
                .position(|a| a.path == file.path && prose.is_within(at, phrase.len(), &a.words));
            match found {
                Some(index) => is_used[index] = true,
                None => findings.push(Finding::failure(
                    &file.path,
                    prose.line(at),
                    "phrase",
                    format!("\"{phrase}\": {advice}, or list the sentence in {ALLOWED}"),
                )),
            }
        }
    }
    for (a, _) in allowed.iter().zip(is_used).filter(|(_, used)| !used) {
        let message = format!(
            "no banned phrase in \"{}\" of {}: remove the line",
            a.words, a.path
        );
        findings.push(Finding::failure(ALLOWED, a.line, "phrase", message));
    }
    findings
}

/// A sentence that means a phrase literally.
struct Allowed {
    path: String,
    words: String,
    line: usize,
}

fn read_allowed(text: &str) -> Vec<Allowed> {
    let lines = text.lines().enumerate();
    let entries = lines.filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    entries
        .map(|(i, line)| {
            let (path, words) = line.split_once(':').unwrap_or((line, ""));
            Allowed {
                path: path.trim().to_owned(),
                words: words.trim().to_lowercase(),
                line: i + 1,
            }
        })
        .collect()
}

/// The words of a file's comments or prose, in lower case with single spaces.
struct Prose {
    text: String,
    /// Offset of each line's first word, and the line's number from 1.
    lines: Vec<(usize, usize)>,
}

/// Stands between two paragraphs or comments, so that no phrase spans them.
const BREAK: &str = "\u{b6}";

impl Prose {
    /// None if the file is neither Rust nor Markdown.
    fn of(file: &Text) -> Option<Self> {
        let mut this = Self {
            text: String::new(),
            lines: Vec::new(),
        };
        if file.path.ends_with(".rs") {
            for (i, line) in comments_only(&file.text).lines().enumerate() {
                let marks: &[char] = &['/', '!', '*', ' '];
                this.push(line.trim().trim_start_matches(marks), i + 1);
            }
        } else if file.path.ends_with(".md") {
            for (number, line) in prose(&file.text) {
                this.push(line, number);
            }
        } else {
            return None;
        }
        Some(this)
    }

    fn push(&mut self, line: &str, number: usize) {
        if line.trim().is_empty() {
            self.text.push_str(BREAK);
            self.text.push(' ');
            return;
        }
        self.lines.push((self.text.len(), number));
        for word in line.split_whitespace() {
            self.text.push_str(&word.to_lowercase());
            self.text.push(' ');
        }
    }

    /// Offset of each banned phrase, the phrase, and the advice of its group.
    fn phrases(&self) -> Vec<(usize, &'static str, &'static str)> {
        let all = PHRASES
            .iter()
            .flat_map(|(advice, phrases)| phrases.iter().map(move |p| (*p, *advice)));
        all.flat_map(|(phrase, advice)| {
            words(&self.text, phrase).map(move |at| (at, phrase, advice))
        })
        .collect()
    }

    /// The number of the line that the word at `offset` is in.
    fn line(&self, offset: usize) -> usize {
        let after = self.lines.partition_point(|(start, _)| *start <= offset);
        self.lines[after - 1].1
    }

    /// Whether `sentence` stands here such that it contains the phrase at `offset`.
    fn is_within(&self, offset: usize, length: usize, sentence: &str) -> bool {
        let mut places = self.text.match_indices(sentence);
        places.any(|(at, _)| at <= offset && offset + length <= at + sentence.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn lines(files: &[Text]) -> Vec<(String, usize)> {
        let findings = check(files);
        findings.into_iter().map(|f| (f.file, f.line)).collect()
    }

    #[test]
    fn each_phrase_is_found_in_a_comment_and_in_a_document() {
        for (_, phrases) in PHRASES {
            for phrase in *phrases {
                let rust = text(
                    "xtask/src/a.rs",
                    &format!("//! A thing.\n/// It has {phrase} x.\n"),
                );
                assert!(
                    lines(&[rust]).contains(&("xtask/src/a.rs".into(), 2)),
                    "{phrase}"
                );
                let page = text("docs/a.md", &format!("# A\n\nIt has {phrase} x.\n"));
                assert!(
                    lines(&[page]).contains(&("docs/a.md".into(), 3)),
                    "{phrase}"
                );
            }
        }
    }

    #[test]
    fn a_phrase_is_found_across_lines_and_in_upper_case() {
        let rust = text(
            "xtask/src/a.rs",
            "// There are so\n// many of them.\nfn f() {} // Whoever\n",
        );
        assert_eq!(
            lines(&[rust]),
            [("xtask/src/a.rs".into(), 1), ("xtask/src/a.rs".into(), 3)]
        );
    }

    #[test]
    fn paragraphs_code_and_literals_are_apart() {
        let rust = "// and so\n\n// many others\nfn f() { let whoever = \"so many\"; }\n";
        assert!(check(&[text("xtask/src/a.rs", rust)]).is_empty());
        assert!(check(&[text("docs/a.md", "```\nso many\n```\n")]).is_empty());
        assert!(check(&[text("docs/a.md", "remedies, so manyfold\n")]).is_empty());
    }

    #[test]
    fn an_allowed_sentence_passes_and_a_stale_one_fails() {
        let page = || text("docs/a.md", "The process dies at once.\n");
        let allow = |line: &str| text(ALLOWED, &format!("# comment\n{line}\n"));
        assert_eq!(check(&[page()]).len(), 1);
        assert!(check(&[page(), allow("docs/a.md: The process dies")]).is_empty());
        for line in ["docs/b.md: The process dies", "docs/a.md: at once."] {
            let findings = check(&[page(), allow(line)]);
            assert_eq!(
                findings.len(),
                2,
                "not allowed, and a line without use: {line}"
            );
        }
    }
}
