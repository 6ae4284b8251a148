//! Links in Markdown lead somewhere, and the paths of this tree that pages name exist.
//!
//! **Owns** the reading of links, headings and named paths. **Called by** `tidy`. **Invariants**: links with a scheme are not
//! followed; fenced code is not read.

use super::{Finding, Text};

pub(super) fn check(files: &[Text], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, link) in links(&file.text) {
            if let Some(message) = broken(file, &link, files, exists) {
                findings.push(Finding::failure(&file.path, line, "link", message));
            }
        }
        for (line, path) in named_paths(&file.text).filter(|(_, path)| !exists(path)) {
            let message = format!("`{path}` does not exist");
            findings.push(Finding::failure(&file.path, line, "path", message));
        }
    }
    findings
}

fn broken(
    from: &Text,
    link: &str,
    files: &[Text],
    exists: &dyn Fn(&str) -> bool,
) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(p, a)| (p, Some(a)));
    let target = if path.is_empty() {
        Some(from.path.clone())
    } else {
        resolve(&from.path, path)
    };
    let Some(target) = target.filter(|t| t.is_empty() || exists(t)) else {
        return Some(format!("`{link}` leads nowhere"));
    };
    let page = files
        .iter()
        .find(|f| f.path == target && target.ends_with(".md"));
    let missing = anchor
        .zip(page)
        .is_some_and(|(a, page)| !headings(&page.text).any(|h| h == a));
    missing.then(|| format!("`{link}`: no such heading"))
}

/// `link` as seen from the file `from`, as a path from the root; none if it leaves the tree.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside fenced code, with their numbers from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((i + 1, line))
    })
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let end = after.find(')').unwrap_or(after.len());
            let link = after[..end].split_whitespace().next().unwrap_or("");
            links.push((number, link.trim_matches(['<', '>']).to_owned()));
            rest = &after[end..];
        }
    }
    links
}

/// Code spans that are paths of this tree, without patterns.
fn named_paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const FOLDERS: [&str; 5] = ["crates/", "docs/", "fuzz/", "conformance/", "xtask/"];
    let is_path = |span: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        FOLDERS.iter().any(|f| span.starts_with(f)) && span.chars().all(plain)
    };
    prose(text).flat_map(move |(number, line)| {
        let spans = line.split('`').skip(1).step_by(2);
        spans.filter(is_path).map(move |path| (number, path))
    })
}

/// Headings as the anchors that are made of them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text)
        .filter(|(_, l)| l.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::super::text as page;
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        let files = [
            page("docs/a.md", text),
            page("docs/b.md", "# Some `Title`, here\n"),
            page("README.md", ""),
        ];
        check(&files, &|path| files.iter().any(|f| f.path == path))
    }

    #[test]
    fn good_links_pass() {
        assert!(found("# Top\n[b](b.md) [r](../README.md) [h](b.md#some-title-here) [t](#top) [w](https://example.com/x)\n").is_empty());
    }

    #[test]
    fn a_link_to_nowhere_fails() {
        assert_eq!(found("x\n[b](c.md)\n")[0].line, 2);
        assert_eq!(found("[b](../../b.md)\n").len(), 1);
    }

    #[test]
    fn a_missing_heading_fails() {
        assert_eq!(found("[b](b.md#other)\n").len(), 1);
        assert_eq!(found("[b](#other)\n").len(), 1);
    }

    #[test]
    fn a_named_path_exists() {
        assert!(found("`docs/b.md`, `docs/*.md`, `docs/x y`, `other/c.md`\n").is_empty());
        assert_eq!(found("x\nthe file `docs/c.md`\n")[0].line, 2);
    }

    #[test]
    fn code_is_not_prose() {
        assert!(found("```\n[b](c.md)\n```\n").is_empty());
    }
}
