//! Scanner that separates Rust code from comments and literals, so that rules can search in one of them.
//!
//! **Owns** the scanner. **Called by** `source` and `phrases`. **Invariants**: a result has the same lines as the input;
//! braces in code balance if they do in the input.

/// A part of a Rust source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// `text` with comments, and the insides of string and character literals, replaced by spaces.
pub(super) fn code_only(text: &str) -> String {
    only(text, Part::Code)
}

/// `text` with everything except comments replaced by spaces.
pub(super) fn comments_only(text: &str) -> String {
    only(text, Part::Comment)
}

fn only(text: &str, kept: Part) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (part, end) = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => (Part::Comment, line_end(&chars, at)),
            '/' if chars.get(at + 1) == Some(&'*') => {
                (Part::Comment, block_comment_end(&chars, at))
            }
            '"' => (Part::Literal, string_end(&chars, at)),
            'r' if !is_word_before(&chars, at) => {
                (Part::Literal, raw_string_end(&chars, at).unwrap_or(at))
            }
            '\'' => (Part::Literal, char_end(&chars, at).unwrap_or(at)),
            _ => (Part::Code, at),
        };
        let (part, end) = if end == at {
            (Part::Code, at + 1)
        } else {
            (part, end)
        };
        let blank = |c: &char| match c {
            '\n' => '\n',
            c if part == kept => *c,
            _ => ' ',
        };
        out.extend(chars[at..end].iter().map(blank));
        at = end;
    }
    out
}

/// `code` (from `code_only`) without the items under `#[cfg(test)]`, blanked as well.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    while let Some(start) = out.find("#[cfg(test)]") {
        let end = item_end(&out, start + "#[cfg(test)]".len());
        let blank: String = out[start..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        out.replace_range(start..end, &blank);
    }
    out
}

/// Where the item that starts after `from` ends: at its `;`, or at the brace that closes its body.
pub(super) fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0usize;
    let mut round = 0usize;
    for (i, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round = round.saturating_sub(1),
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return from + i + 1;
                }
            }
            ';' if depth == 0 && round == 0 => return from + i + 1,
            _ => {}
        }
    }
    code.len()
}

/// Where `word` stands by itself (no letter, digit or underscore beside it), as byte offsets.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .filter(move |(i, w)| {
            !text[..*i].ends_with(part_of_word) && !text[i + w.len()..].starts_with(part_of_word)
        })
        .map(|(i, _)| i)
}

/// The number of the line, from 1, that the byte at `offset` is in.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn is_word_before(chars: &[char], at: usize) -> bool {
    // b"" and br"" are literals too: the b stays, which is harmless
    at > 0 && (chars[at - 1].is_alphanumeric() && chars[at - 1] != 'b' || chars[at - 1] == '_')
}

fn line_end(chars: &[char], from: usize) -> usize {
    chars[from..]
        .iter()
        .position(|c| *c == '\n')
        .map_or(chars.len(), |n| from + n)
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let open = from + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |at: usize| {
        chars[at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    Some(
        (open + 1..chars.len())
            .find(|at| closes(*at))
            .map_or(chars.len(), |at| at + 1 + hashes),
    )
}

/// A character literal, told from a lifetime by its closing quote.
fn char_end(chars: &[char], from: usize) -> Option<usize> {
    match chars.get(from + 1)? {
        '\\' => (from + 3..chars.len().min(from + 13))
            .find(|at| chars[*at] == '\'')
            .map(|at| at + 1),
        _ => (chars.get(from + 2) == Some(&'\'')).then_some(from + 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked() {
        let text = "let a = \"x { \\\" y\"; // {\nlet b = r#\"{ \" }\"#; /* { /* } */ } */ let c = '{'; fn f<'a>(x: &'a u8) {}\n";
        let code = code_only(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(code.matches('{').count(), 1);
        assert!(code.contains("fn f<'a>(x: &'a u8) {}"));
        assert!(code.contains("let c ="));
    }

    #[test]
    fn comments_stay_alone() {
        let text = "let a = \"// no\"; // yes\n/// doc\nfn f() {} /* block */ let b = '/';\n";
        let comments = comments_only(text);
        let words: Vec<&str> = comments.split_whitespace().collect();
        assert_eq!(words, ["//", "yes", "///", "doc", "/*", "block", "*/"]);
        assert_eq!(comments.lines().count(), text.lines().count());
    }

    #[test]
    fn test_items_are_blanked() {
        let code = without_tests(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}",
        );
        assert!(code.contains("fn a") && code.contains("fn c") && code.contains("fn d"));
        assert!(!code.contains("fn b") && !code.contains("use x"));
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(
            words("unsafe unsafe_code an_unsafe (unsafe)", "unsafe").collect::<Vec<_>>(),
            [0, 30]
        );
    }
}
