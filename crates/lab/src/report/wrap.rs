//! Text broken into lines.

/// `text` in lines of at most `width` characters, each with its end. The first line begins with `mark`, further ones with as many
/// spaces. A word longer than a line has one of its own.
#[must_use]
pub fn wrap(text: &str, mark: &str, width: usize) -> String {
    let mut out = mark.to_owned();
    let indent = " ".repeat(mark.chars().count());
    let mut column = indent.len();
    let mut is_first = true;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if !is_first && column + 1 + len > width {
            out.push('\n');
            out.push_str(&indent);
            column = indent.len();
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
        is_first = false;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_short_and_keep_every_word() {
        let text = "one two three four five";
        assert_eq!(wrap(text, "- ", 10), "- one two\n  three\n  four\n  five\n");
        assert_eq!(wrap("abcdefghijkl m", "", 5), "abcdefghijkl\nm\n");
        assert_eq!(wrap("", "- ", 5), "- \n");
    }
}
