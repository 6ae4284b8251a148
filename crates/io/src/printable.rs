//! Escaping of text from a peer or a disk, for terminals and logs.
//!
//! **Called by** everything that prints such text: the command line, the lab, the log's writer. **Invariants**: the
//! result has one line, no control character, no character that reorders or hides others (Unicode bidirectional
//! controls, zero-width and tag characters), and a bounded length. Plain text is returned unchanged, without a copy.
//! JSON keeps its exact meaning ([`json`]).

use std::borrow::Cow;
use std::fmt::Write;

/// Maximum length of printed text, characters; longer text is truncated and ends with an ellipsis. Longer than any
/// path, name or message of ours.
pub const PRINTED_CHARS_MAX: usize = 4096;

/// Whether `c` can deceive the reader of a terminal or of a line.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Zero-width characters, and left-to-right and right-to-left marks.
            '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{ad}' |
            // Line and paragraph separator, embeddings and overrides.
            '\u{2028}'..='\u{202e}' |
            // Isolates, Arabic letter mark, deprecated format characters.
            '\u{2066}'..='\u{206f}' | '\u{61c}' | '\u{180e}' |
            // Interlinear annotations and tags.
            '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` on one line: deceptive characters as escapes (`\n`, `\u{1b}`), at most [`PRINTED_CHARS_MAX`] characters.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, PRINTED_CHARS_MAX, is_deceptive)
}

/// Escapes deceptive characters in lines that we composed. Line ends are kept, and nothing is truncated.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, usize::MAX, |c| c != '\n' && is_deceptive(c))
}

/// As [`printable_lines`]; tabs are kept too. For rows whose columns passed [`printable`] before tabs joined them.
#[must_use]
pub fn printable_columns(text: &str) -> Cow<'_, str> {
    escaped(text, usize::MAX, |c| {
        !matches!(c, '\n' | '\t') && is_deceptive(c)
    })
}

fn escaped(text: &str, chars_max: usize, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_short = text.len() <= chars_max || text.chars().nth(chars_max).is_none();
    if is_short && !text.contains(&escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len().min(chars_max) + 16);
    for c in text.chars().take(chars_max) {
        match escape(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    if !is_short {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Returns JSON text with the same meaning in which deceptive characters are JSON escapes (RFC 8259 §7). Outside of strings,
/// JSON has only line ends and tabs, which are kept.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let escape = |c: char| !matches!(c, '\n' | '\r' | '\t') && is_deceptive(c);
    if !text.contains(escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !escape(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_not_copied() {
        for plain in ["", "vm1@monday", "/srv/ü/日本", "<b>&amp;\"'", "a\\b"] {
            assert!(matches!(printable(plain), Cow::Borrowed(p) if p == plain));
        }
    }

    #[test]
    fn no_character_moves_the_cursor_or_begins_a_line() {
        assert_eq!(
            printable("a\x1b[2J\r\nb\u{9b}31m\u{7f}"),
            "a\\u{1b}[2J\\r\\nb\\u{9b}31m\\u{7f}"
        );
        assert_eq!(
            printable("\u{202e}gnp.exe\u{2066}"),
            "\\u{202e}gnp.exe\\u{2066}"
        );
        assert_eq!(printable_lines("a\nb\x1b\tc\n"), "a\nb\\u{1b}\\tc\n");
        let row = format!("{}\t{}\n", printable("a\tb"), printable("c\nd"));
        assert_eq!(printable_columns(&row), "a\\tb\tc\\nd\n");
        assert_eq!(printable_columns("\x1b\t\u{202e}"), "\\u{1b}\t\\u{202e}");
    }

    #[test]
    fn long_text_is_cut() {
        let long = "ü".repeat(PRINTED_CHARS_MAX + 1);
        let shown = printable(&long);
        assert_eq!(shown.chars().count(), PRINTED_CHARS_MAX + 1);
        assert!(shown.ends_with('…'));
        assert!(matches!(printable(&long[2..]), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(
            json("{\n  \"a\": \"\u{9b}\u{e0041}\\u001b\"\n}"),
            "{\n  \"a\": \"\\u009b\\udb40\\udc41\\u001b\"\n}"
        );
    }
}
