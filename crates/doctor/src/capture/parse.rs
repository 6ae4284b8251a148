//! Parsers of forms that several files share.
//!
//! **Called by** the captures. **Invariants**: no input panics; numbers of a list are bounded.

/// Most processors of a machine.
const CPUS_MAX: u32 = 8192;

/// A list such as `0-3,8`.
pub(super) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last >= CPUS_MAX || first > last {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > CPUS_MAX as usize {
            return None;
        }
    }
    Some(cpus)
}

/// The value of a line `name: value` or `name value`.
pub(super) fn line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|l| {
        let rest = l.trim_start().strip_prefix(name)?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| rest.trim())
    })
}

/// The first word of a line as a number.
pub(super) fn number<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    line(text, name)?.split_whitespace().next()?.parse().ok()
}

/// The word in brackets of a choice such as `none [mq-deadline] bfq`; the whole text if it has none.
pub(super) fn chosen(text: &str) -> String {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text.trim(), |(word, _)| word).to_owned()
}

/// Text with octal escapes, as in `/proc/self/mountinfo`.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        assert_eq!(cpu_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for bad in ["0-4294967295", "3-1", "x", "0-8191,0-8191", "-1"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn lines_and_choices() {
        assert_eq!(line("RX:\t4096\nRX Mini:\tn/a", "RX"), Some("4096"));
        assert_eq!(number::<u32>("VmSwap:\t  12 kB", "VmSwap"), Some(12));
        assert_eq!(number::<u32>("VmSwap:", "VmSwap"), None);
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
        assert_eq!(chosen("[none"), "[none");
        assert_eq!(unescaped(r"/a\040b\134\9"), "/a b\\\\9");
        assert_eq!(unescaped("\\"), "\\");
    }
}
