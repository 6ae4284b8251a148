//! Rules about one file.
//!
//! **Owns** length, headers, leftovers, `unsafe`, and where the outside world may be touched. **Called by**
//! `tidy`. **Invariants**: each rule sees only a path and a text.

use super::Finding;
use super::code::{code_only, item_end, line_of, without_tests, words};

/// A file longer than this is asked to be split.
const FILE_LINES_WARN: usize = 500;
/// A file longer than this fails, unless it is in `LONG_FILES`.
const FILE_LINES_MAX: usize = 800;
/// Files that are one flat table or dispatch, and read best in one piece.
const LONG_FILES: &[&str] = &[];
/// A function longer than this fails, unless `FLAT` stands right above it.
const FUNCTION_LINES_MAX: usize = 100;
/// Marks a function that is one long `match` over opcodes.
const FLAT: &str = "// tidy: flat dispatch";
/// How far above an `unsafe` its reason may stand: past attributes and a comment of a few lines.
const SAFETY_LINES: usize = 12;

/// Words that mark unfinished work. In two parts, because this file is checked too.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];
/// Macros and attributes that mark unfinished work.
const LEFTOVER_CODE: &[&str] = &[
    concat!("db", "g!"),
    concat!("to", "do!"),
    concat!("un", "implemented!"),
    concat!("#[ig", "nore"),
];
/// Places that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// The only crate that may hold `unsafe`.
const UNSAFE_CRATE: &str = "crates/io/";
/// Crates that run in the simulator: they reach disk, socket, time and randomness through `io` alone.
const SIMULATED: &[&str] = &[
    "crates/backend/",
    "crates/nvmf/",
    "crates/pool/",
    "crates/scsi/",
    "crates/iscsi/",
    "crates/nfs/",
];
/// Modules of the standard library, and the names in them that these crates may not use; an empty list forbids the
/// whole module. Addresses are plain data and stay allowed.
const OUTSIDE_STD: &[(&str, &[&str])] = &[
    ("std::time::", &["Instant", "SystemTime", "UNIX_EPOCH"]),
    ("std::fs", &[]),
    (
        "std::net::",
        &["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs"],
    ),
    ("std::os::unix::net", &[]),
    ("std::thread::", &["sleep", "spawn"]),
    ("std::process::", &["Command"]),
];
/// Other ways to the outside world.
const OUTSIDE_WORDS: &[&str] = &[
    "tokio",
    "rand",
    "getrandom",
    "thread_rng",
    "new_v4",
    "RandomState",
];

/// Rules for every text file.
pub(super) fn check_any(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in LEFTOVERS {
        for at in words(text, word) {
            findings.push(Finding::failure(
                path,
                line_of(text, at),
                "leftover",
                format!("{word} left behind"),
            ));
        }
    }
    let about_us = [".md", ".rs", ".toml", "Makefile", ".yml"]
        .iter()
        .any(|end| path.ends_with(end));
    for place in MACHINE_PATHS.iter().filter(|_| about_us) {
        for (at, _) in text.match_indices(place) {
            // a longer path may hold the same letters: only one that starts here is a machine's
            if !text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}*".contains(c)) {
                findings.push(Finding::failure(
                    path,
                    line_of(text, at),
                    "machine-path",
                    format!("{place} exists on one machine only"),
                ));
            }
        }
    }
    findings
}

/// Rules for Rust.
pub(super) fn check_rust(path: &str, text: &str) -> Vec<Finding> {
    let code = code_only(text);
    let mut findings: Vec<Finding> = file_length(path, text)
        .into_iter()
        .chain(header(path, text))
        .collect();
    findings.extend(function_length(path, text, &code));
    findings.extend(leftover_code(path, &code));
    findings.extend(unsafe_code(path, text, &code));
    findings.extend(outside_world(path, &code));
    findings
}

fn file_length(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX && !LONG_FILES.contains(&path) {
        Some(Finding::failure(
            path,
            lines,
            "file-length",
            format!("{lines} lines; {FILE_LINES_MAX} is the most"),
        ))
    } else if lines > FILE_LINES_WARN {
        Some(Finding::warning(
            path,
            lines,
            "file-length",
            format!("{lines} lines; is it still one noun?"),
        ))
    } else {
        None
    }
}

fn header(path: &str, text: &str) -> Option<Finding> {
    let first = text
        .lines()
        .find(|l| !l.trim().is_empty() && !l.starts_with("#!"));
    (!first.is_some_and(|l| l.starts_with("//!")))
        .then(|| Finding::failure(path, 1, "header", "starts without a `//!` header"))
}

fn function_length(path: &str, text: &str, code: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for at in words(code, "fn") {
        // `fn(…)` is a type, not a function
        if !code[at + 2..]
            .trim_start()
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            continue;
        }
        let (first, last) = (line_of(code, at), line_of(code, item_end(code, at)));
        let above = lines[..first - 1].iter().rev().take_while(|l| {
            let l = l.trim();
            l.starts_with("//") || l.starts_with("#[")
        });
        let length = last - first + 1;
        if length > FUNCTION_LINES_MAX && !above.into_iter().any(|l| l.contains(FLAT)) {
            let message =
                format!("{length} lines in one function; {FUNCTION_LINES_MAX} is the most");
            findings.push(Finding::failure(path, first, "function-length", message));
        }
    }
    findings
}

fn leftover_code(path: &str, code: &str) -> Vec<Finding> {
    let found = |what: &&'static str| {
        let what = *what;
        code.match_indices(what)
            .filter(move |(i, _)| !code[..*i].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            .map(move |(i, _)| {
                Finding::failure(
                    path,
                    line_of(code, i),
                    "leftover",
                    format!("`{what}` left behind"),
                )
            })
    };
    LEFTOVER_CODE.iter().flat_map(found).collect()
}

fn unsafe_code(path: &str, text: &str, code: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for at in words(code, "unsafe") {
        let line = line_of(code, at);
        let next = code[at + "unsafe".len()..].trim_start();
        // `unsafe fn(…)` is a type, and `#[unsafe(…)]` an attribute
        if next.starts_with("fn(") || next.starts_with("extern \"C\" fn(") {
            continue;
        }
        if !path.starts_with(UNSAFE_CRATE) {
            findings.push(Finding::failure(
                path,
                line,
                "unsafe",
                format!("`unsafe` belongs in {UNSAFE_CRATE}"),
            ));
            continue;
        }
        let reason = lines[line.saturating_sub(SAFETY_LINES + 1)..line]
            .iter()
            .any(|l| l.contains("SAFETY") || l.contains("# Safety"));
        if !reason {
            findings.push(Finding::failure(
                path,
                line,
                "unsafe",
                "`unsafe` without a SAFETY comment above it",
            ));
        }
    }
    let root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let beside_lib = path == "xtask/src/main.rs";
    if root
        && !beside_lib
        && !path.starts_with(UNSAFE_CRATE)
        && !code.contains("#![forbid(unsafe_code)]")
    {
        findings.push(Finding::failure(
            path,
            1,
            "unsafe",
            "no `#![forbid(unsafe_code)]`",
        ));
    }
    findings
}

fn outside_world(path: &str, code: &str) -> Vec<Finding> {
    let is_test = path.contains("/tests/")
        || path.ends_with("tests.rs")
        || path.contains("/benches/")
        || path.contains("/examples/");
    if is_test || !SIMULATED.iter().any(|c| path.starts_with(c)) {
        return Vec::new();
    }
    let code = without_tests(code);
    let mut findings = Vec::new();
    let mut found = |at: usize, what: &str| {
        let message = format!(
            "{what}: the outside world comes through `io` alone, so that the simulator owns it"
        );
        findings.push(Finding::failure(
            path,
            line_of(&code, at),
            "outside-world",
            message,
        ));
    };
    for (module, names) in OUTSIDE_STD {
        for (at, _) in code.match_indices(module) {
            let rest = &code[at + module.len()..];
            let named = match rest.strip_prefix('{') {
                Some(group) => &group[..group.find('}').unwrap_or(group.len())],
                None => {
                    &rest[..rest
                        .find(|c: char| !c.is_alphanumeric() && c != '_')
                        .unwrap_or(rest.len())]
                }
            };
            if names.is_empty() {
                found(at, module);
            }
            for name in names.iter().filter(|n| words(named, n).next().is_some()) {
                found(at, &format!("{module}{name}"));
            }
        }
    }
    for word in OUTSIDE_WORDS {
        for at in words(&code, word) {
            found(at, word);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "//! A module.\n#![forbid(unsafe_code)]\n";

    fn rules(path: &str, body: &str) -> Vec<&'static str> {
        let text = format!("{HEAD}{body}");
        let mut rules: Vec<_> = check_any(path, &text)
            .into_iter()
            .chain(check_rust(path, &text))
            .map(|f| f.rule)
            .collect();
        rules.dedup();
        rules
    }

    #[test]
    fn good_code_passes() {
        let body = "use std::time::Duration;\nuse std::net::{IpAddr, SocketAddr};\n/// Docs.\npub fn f() -> &'static str { \"unsafe\" }\n";
        assert!(rules("crates/nvmf/src/a.rs", body).is_empty());
    }

    #[test]
    fn leftovers_fail() {
        for word in LEFTOVERS {
            assert_eq!(
                rules("crates/io/src/a.rs", &format!("// {word}: later\n")),
                ["leftover"],
                "{word}"
            );
        }
        for code in LEFTOVER_CODE {
            assert_eq!(
                rules("crates/io/src/a.rs", &format!("fn f() {{\n{code}\n}}\n")),
                ["leftover"],
                "{code}"
            );
            assert!(
                rules("crates/io/src/a.rs", &format!("// {code}\n")).is_empty(),
                "{code} in a comment"
            );
        }
    }

    #[test]
    fn machine_paths_fail_in_prose_and_code() {
        for place in MACHINE_PATHS {
            assert_eq!(
                check_any("README.md", &format!("see {place}x"))[0].rule,
                "machine-path"
            );
            assert!(check_any("guest/init.sh", &format!("cd {place}x")).is_empty());
            assert!(check_any("README.md", &format!("see target{place}x")).is_empty());
        }
    }

    #[test]
    fn long_files_warn_then_fail() {
        let text = |lines: usize| "x\n".repeat(lines);
        assert!(file_length("a.rs", &text(FILE_LINES_WARN)).is_none());
        assert!(
            !file_length("a.rs", &text(FILE_LINES_WARN + 1))
                .unwrap()
                .is_failure()
        );
        assert!(
            file_length("a.rs", &text(FILE_LINES_MAX + 1))
                .unwrap()
                .is_failure()
        );
    }

    #[test]
    fn long_functions_fail_unless_marked() {
        let function = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES_MAX));
        assert_eq!(rules("a.rs", &function), ["function-length"]);
        assert!(rules("a.rs", &format!("{FLAT}\n#[inline]\n{function}")).is_empty());
        let short = format!(
            "fn f() {{\n{}}}\n",
            "    g();\n".repeat(FUNCTION_LINES_MAX - 2)
        );
        assert!(rules("a.rs", &short).is_empty());
    }

    #[test]
    fn a_missing_header_fails() {
        assert_eq!(check_rust("a.rs", "use x;\n")[0].rule, "header");
        assert_eq!(check_rust("a.rs", "// plain\n//! late\n")[0].rule, "header");
        assert!(check_rust("fuzz/a.rs", "#![no_main]\n//! A fuzz target.\n").is_empty());
    }

    #[test]
    fn unsafe_is_fenced_in() {
        assert_eq!(
            rules(
                "crates/nvmf/src/a.rs",
                "// SAFETY: none\nfn f() { unsafe {} }\n"
            ),
            ["unsafe"]
        );
        assert_eq!(
            rules("crates/io/src/a.rs", "fn f() { unsafe {} }\n"),
            ["unsafe"]
        );
        assert!(
            rules(
                "crates/io/src/a.rs",
                "fn f() {\n// SAFETY: none\nunsafe {} }\n"
            )
            .is_empty()
        );
        assert_eq!(
            check_rust("crates/lab/src/lib.rs", "//! x\n")[0].rule,
            "unsafe"
        );
    }

    #[test]
    fn the_outside_world_is_fenced_off() {
        for line in [
            "use std::time::Instant;",
            "use std::time::{Duration, Instant};",
            "use std::fs::File;",
            "use std::fs;",
            "fn f() { std::thread::sleep(d); }",
            "use std::net::{SocketAddr, TcpStream};",
            "use tokio::time;",
            "fn f() { rand::random() }",
            "fn f() { Uuid::new_v4() }",
        ] {
            assert_eq!(
                rules("crates/nvmf/src/a.rs", line),
                ["outside-world"],
                "{line}"
            );
            assert!(rules("crates/nvmf/tests/a.rs", line).is_empty(), "{line}");
            assert!(rules("crates/server/src/a.rs", line).is_empty(), "{line}");
            assert!(
                rules(
                    "crates/nvmf/src/a.rs",
                    &format!("#[cfg(test)]\nmod tests {{\n{line}\n}}\n")
                )
                .is_empty(),
                "{line}"
            );
        }
    }
}
