//! Rust text with what is not code blanked out, so that rules can look for words.
//!
//! **Owns** the small scanner that tells code from comments and literals. **Called by** `source`.
//! **Invariants**: the result has the same lines as the input; braces in it balance if they do in the code.

/// `text` with comments, and the insides of string and character literals, replaced by spaces.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment_end(&chars, at),
            '"' => string_end(&chars, at),
            'r' if !is_word_before(&chars, at) => raw_string_end(&chars, at).unwrap_or(at),
            '\'' => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
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
