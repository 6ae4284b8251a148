//! Type names that many modules define.
//!
//! **Owns** the number of modules that may define each such name ([`LIMITS`]). **Called by** `tidy`. **Invariants**: only types that
//! other modules can see count, without tests; the numbers only fall: more definitions than listed fail, and so do fewer, so
//! that the list is lowered.

use super::code::{code_only, without_tests};
use super::{Finding, Text};
use std::collections::BTreeMap;

/// Most modules that may define a type of one name.
const MODULES_MAX: usize = 3;
/// Names that a crate or a module has by convention.
const CONVENTIONAL: &[&str] = &["Config", "Error", "Kind", "Result"];
/// Names above [`MODULES_MAX`], with the number of their modules.
const LIMITS: &[(&str, usize)] = &[
    ("Access", 6),
    ("Address", 4),
    ("Answer", 5),
    ("Blocks", 4),
    ("CloseReason", 4),
    ("Command", 9),
    ("Disk", 4),
    ("End", 7),
    ("Ended", 5),
    ("Engine", 4),
    ("Event", 6),
    ("Expected", 5),
    ("Export", 4),
    ("ExportedAs", 4),
    ("Exports", 4),
    ("Facts", 5),
    ("Finding", 5),
    ("Findings", 4),
    ("Finished", 4),
    ("Header", 5),
    ("Hold", 4),
    ("Identity", 4),
    ("Known", 5),
    ("Limit", 4),
    ("Link", 5),
    ("Medium", 4),
    ("Member", 6),
    ("Mode", 4),
    ("Mount", 4),
    ("Open", 4),
    ("Operation", 4),
    ("Outcome", 10),
    ("Part", 4),
    ("Place", 6),
    ("Plan", 9),
    ("Progress", 4),
    ("Protocol", 4),
    ("Queue", 4),
    ("Refusal", 6),
    ("Report", 6),
    ("Request", 6),
    ("Row", 5),
    ("Run", 5),
    ("Server", 5),
    ("Session", 8),
    ("Settings", 6),
    ("Slot", 6),
    ("Source", 5),
    ("Status", 5),
    ("Step", 6),
    ("Target", 5),
    ("Totals", 4),
    ("Verdict", 5),
    ("Waiting", 4),
];
const HERE: &str = "xtask/src/tidy/names.rs";

/// Names that more or fewer modules define than they may.
pub(super) fn check(files: &[Text]) -> Vec<Finding> {
    let defined = definitions(files);
    let mut findings = Vec::new();
    for (name, modules) in &defined {
        let limit = LIMITS.iter().find(|(n, _)| n == name);
        let limit = limit.map_or(MODULES_MAX, |l| l.1);
        if modules.len() > limit && !CONVENTIONAL.contains(name) {
            let message = format!(
                "{} modules define a type {name} ({limit} allowed), one of them this: give it the name of its own meaning",
                modules.len()
            );
            let (path, line) = modules[0];
            findings.push(Finding::failure(path, line, "type-name", message));
        }
    }
    for (name, limit) in LIMITS {
        let found = defined.get(name).map_or(0, Vec::len);
        if found < *limit {
            let message = format!(
                "{found} modules define a type {name}: lower its number, or remove it at {MODULES_MAX}"
            );
            findings.push(Finding::failure(HERE, 1, "type-name", message));
        }
    }
    findings
}

/// The places that define a type which other modules see, by its name.
fn definitions(files: &[Text]) -> BTreeMap<&str, Vec<(&str, usize)>> {
    let mut defined: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|f| is_product(&f.path)) {
        let code = without_tests(&code_only(&file.text));
        // the scanner keeps lines and columns
        for (number, (line, text)) in code.lines().zip(file.text.lines()).enumerate() {
            if let Some(name) = visible_type(line)
                && let Some(at) = text.find(name)
            {
                let places = defined.entry(&text[at..at + name.len()]).or_default();
                places.push((&file.path, number + 1));
            }
        }
    }
    defined
}

fn is_product(path: &str) -> bool {
    path.ends_with(".rs")
        && path.contains("/src/")
        && !path.split('/').any(|p| p == "tests" || p == "tests.rs")
}

/// The name of the type that this line of code defines, if modules besides its own see it. Types inside of functions are not
/// public; indented public structs and enums are the argument of a macro that declares them, and indented types are associated ones.
fn visible_type(line: &str) -> Option<&str> {
    let (line, is_indented) = match line.strip_prefix("    ") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let (kind, rest) = rest.trim_start().split_once(' ')?;
    let kinds: &[&str] = match is_indented {
        true => &["struct", "enum"],
        false => &["struct", "enum", "trait", "type", "union"],
    };
    if !kinds.contains(&kind) {
        return None;
    }
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn found(definition: &str, modules: usize) -> Vec<Finding> {
        let files: Vec<Text> = (0..modules)
            .map(|i| text(&format!("crates/x/src/m{i}.rs"), definition))
            .collect();
        let of_files = |f: &Finding| f.file != HERE;
        check(&files).into_iter().filter(of_files).collect()
    }

    #[test]
    fn a_name_of_many_modules_fails() {
        for definition in [
            "pub struct Vague {\n}\n",
            "// a\npub(crate) enum Vague {}\n",
            "pub(super) type Vague<T> = T;\n",
            "declared! {\n    /// of a macro\n    pub struct Vague {\n    }\n}\n",
        ] {
            assert!(found(definition, MODULES_MAX).is_empty());
            assert_eq!(found(definition, MODULES_MAX + 1).len(), 1, "{definition}");
        }
    }

    #[test]
    fn private_types_conventions_and_tests_pass() {
        for definition in [
            "struct Vague;\n",
            "pub struct Error;\n",
            "impl S {\n    pub type Vague = ();\n}\n",
            "#[cfg(test)]\nmod tests {\npub struct Vague;\n}\n",
        ] {
            assert!(found(definition, 9).is_empty(), "{definition}");
        }
    }

    #[test]
    fn a_listed_name_that_has_become_rare_fails() {
        let stale = check(&[]);
        assert_eq!(stale.len(), LIMITS.len());
    }
}
