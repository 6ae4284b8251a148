//! Import circles: modules of one crate that use each other.
//!
//! **Owns** the number of modules in circles that each crate may have ([`LIMITS`]). **Called by** `tidy`. **Invariants**: the
//! numbers only fall: more modules in circles than listed fail, and so do fewer, so that the list is lowered. A module that
//! publishes an item of a module below it (`pub use`) does not use that module by this; a module that uses the item by the
//! published name uses the module that defines it. Code under `#[cfg(test)]` does not count.

use super::code::{code_only, without_tests};
use super::{Finding, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Modules in circles, by crate. A crate without a line has none.
const LIMITS: &[(&str, usize)] = &[
    ("io", 34),
    ("nfs", 5),
    ("pool", 12),
    ("server", 2),
    ("sim", 10),
    ("wirepool", 9),
];
const HERE: &str = "xtask/src/tidy/circles.rs";

/// The path of a module below its crate; empty for the crate's root.
type Module = Vec<String>;
/// The modules that each module uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;
/// The names that each module publishes, `*` for all, with the module below it that has the item.
type Published = BTreeMap<Module, Vec<(String, Module)>>;

/// Paths in the code of a module.
struct Paths {
    used: Vec<String>,
    /// Those of `pub use`.
    published: Vec<String>,
}

/// Crates with more or fewer modules in circles than [`LIMITS`] has.
pub(super) fn check(files: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, sources) in crates(files) {
        let limit = LIMITS.iter().find(|(n, _)| *n == name).map_or(0, |l| l.1);
        let uses = uses(&sources);
        let circles = circles(&uses);
        let found: usize = circles.iter().map(BTreeSet::len).sum();
        if found < limit {
            let message = format!("{name} has {found} modules in circles: lower its number");
            findings.push(Finding::failure(HERE, 1, "circles", message));
        }
        if found > limit {
            for circle in circles {
                let names: Vec<String> = circle.iter().map(|m| m.join("::")).collect();
                let message = format!(
                    "modules that use each other ({found} in {name}, {limit} allowed): {}",
                    names.join(", ")
                );
                let file = format!("crates/{name}/src");
                findings.push(Finding::failure(&file, 1, "circles", message));
            }
        }
    }
    findings
}

/// The code of each crate's modules, without tests, by crate.
fn crates(files: &[Text]) -> BTreeMap<&str, BTreeMap<Module, String>> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, String>> = BTreeMap::new();
    for file in files {
        let Some((name, below)) = file
            .path
            .strip_prefix("crates/")
            .and_then(|p| p.split_once("/src/"))
        else {
            continue;
        };
        let Some(path) = below.strip_suffix(".rs") else {
            continue;
        };
        let mut module: Module = path.split('/').map(str::to_owned).collect();
        if module.iter().any(|part| part == "tests") {
            continue;
        }
        if matches!(
            module.last().map(String::as_str),
            Some("mod" | "lib" | "main")
        ) {
            module.pop();
        }
        let code = without_scopes(&without_tests(&code_only(&file.text)));
        crates.entry(name).or_default().insert(module, code);
    }
    crates
}

/// The code with `pub(in path)` as `pub(super)`: the scope of a name is no use of the module that it names.
fn without_scopes(code: &str) -> String {
    let mut parts = code.split("pub(in ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str("pub(super");
        kept.push_str(part.find(')').map_or("", |at| &part[at..]));
    }
    kept
}

/// Which module uses which, of one crate.
fn uses(sources: &BTreeMap<Module, String>) -> Uses {
    let known: BTreeSet<&Module> = sources.keys().collect();
    let paths: BTreeMap<&Module, Paths> =
        sources.iter().map(|(m, code)| (m, paths(code))).collect();
    let mut published: Published = BTreeMap::new();
    for (module, paths) in &paths {
        for path in &paths.published {
            let (target, item) = resolve(path, module, &known).unwrap_or_default();
            if target.len() > module.len() && target.starts_with(module) {
                let names = published.entry(module.to_vec()).or_default();
                names.push((item.unwrap_or_default(), target));
            }
        }
    }
    let of = |(module, paths): (&&Module, &Paths)| {
        let used = paths.used.iter();
        let used = used.filter_map(|path| resolve(path, module, &known));
        // what a module publishes of those below it is no use of them
        let of_others = paths.published.iter();
        let of_others = of_others.filter_map(|path| resolve(path, module, &known));
        let of_others = of_others.filter(|(at, _)| !at.starts_with(module));
        let used = used.chain(of_others);
        let used = used.map(|(at, item)| definer(at, item, &published, sources));
        (
            module.to_vec(),
            used.filter(|used| used != *module).collect(),
        )
    };
    paths.iter().map(of).collect()
}

/// The module that defines `item`, which is used by the name `at::item`.
fn definer(
    at: Module,
    item: Option<String>,
    published: &Published,
    sources: &BTreeMap<Module, String>,
) -> Module {
    let Some(item) = item else { return at };
    let names = published.get(&at).map_or(&[][..], Vec::as_slice);
    let by_name = names.iter().find(|(name, _)| *name == item);
    let by_all = names
        .iter()
        .filter(|(name, _)| name == "*")
        .find(|(_, target)| sources.get(target).is_some_and(|code| defines(code, &item)));
    match by_name.or(by_all) {
        Some((_, target)) => definer(target.clone(), Some(item), published, sources),
        None => at,
    }
}

/// Whether `code` defines an item of this name.
fn defines(code: &str, item: &str) -> bool {
    let kinds = [
        "struct", "enum", "trait", "type", "fn", "const", "static", "union",
    ];
    let mut words = code
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|w| !w.is_empty());
    let mut before = "";
    words.any(|word| {
        let found = word == item && kinds.contains(&before);
        before = word;
        found
    })
}

/// Every path in `code` that may begin at a module of the crate: those of `use` declarations, each leaf on its own, and
/// those in the code itself.
fn paths(code: &str) -> Paths {
    let (mut found, mut published) = (Vec::new(), Vec::new());
    let mut rest = String::with_capacity(code.len());
    for statement in code.split_inclusive(';') {
        let declaration = statement.rfind("use ").filter(|at| {
            statement[..*at].trim_end().is_empty() || ends_before_use(&statement[..*at])
        });
        match declaration {
            Some(at) if statement.ends_with(';') => {
                let (before, tree) = statement.split_at(at);
                rest.push_str(before);
                let publishes = before.trim_end().ends_with("pub")
                    || before.trim_end().ends_with(')') && before.contains("pub(");
                let to = if publishes {
                    &mut published
                } else {
                    &mut found
                };
                leaves("", tree["use ".len()..].trim_end_matches(';'), to);
            }
            _ => rest.push_str(statement),
        }
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    found.extend(
        rest.split(|c| !is_path(c))
            .filter(|word| word.contains("::"))
            .map(str::to_owned),
    );
    Paths {
        used: found,
        published,
    }
}

/// Whether a `use` after `before` begins a declaration.
fn ends_before_use(before: &str) -> bool {
    let before = before.trim_end();
    before.ends_with(['}', '{', ']', ')']) || before.ends_with("pub")
}

/// Appends the leaves of the use tree `prefix::tree`.
fn leaves(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    match tree.split_once('{') {
        None => {
            let leaf = tree.split(" as ").next().unwrap_or(tree).trim();
            if !leaf.is_empty() {
                found.push(format!("{prefix}{leaf}"));
            }
        }
        Some((head, body)) => {
            let prefix = format!("{prefix}{}", head.trim());
            let body = body.trim_end().strip_suffix('}').unwrap_or(body);
            let (mut depth, mut from) = (0, 0);
            for (at, c) in body.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        leaves(&prefix, &body[from..at], found);
                        from = at + 1;
                    }
                    _ => {}
                }
            }
            leaves(&prefix, &body[from..], found);
        }
    }
}

/// The module of the crate that `path`, written in `module`, leads to, and the item's name in it.
fn resolve(
    path: &str,
    module: &Module,
    known: &BTreeSet<&Module>,
) -> Option<(Module, Option<String>)> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut at = module.clone();
    match *parts.peek()? {
        "crate" => {
            at.clear();
            parts.next();
        }
        "self" => {
            parts.next();
        }
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        child => {
            at.push(child.to_owned());
            if !known.contains(&at) {
                return None;
            }
            parts.next();
        }
    }
    for part in parts {
        at.push(part.to_owned());
        if !known.contains(&at) {
            let item = at.pop();
            return Some((at, item));
        }
    }
    Some((at, None))
}

/// Sets of modules in which each module reaches each other one.
fn circles(uses: &Uses) -> Vec<BTreeSet<&Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|m| (m, reachable(m, uses))).collect();
    let mut circles: Vec<BTreeSet<&Module>> = Vec::new();
    for (module, others) in &reached {
        if !others.contains(module) || circles.iter().any(|c| c.contains(module)) {
            continue;
        }
        let is_mutual = |other: &&&Module| reached.get(*other).is_some_and(|r| r.contains(module));
        circles.push(others.iter().filter(is_mutual).copied().collect());
    }
    circles
}

fn reachable<'a>(from: &Module, uses: &'a Uses) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = uses.get(from).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(uses.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn in_circles(files: &[Text]) -> Vec<String> {
        let crates = crates(files);
        let uses = uses(&crates["x"]);
        let circles = circles(&uses);
        circles.iter().flatten().map(|m| m.join("::")).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found() {
        let files = [
            text(
                "crates/x/src/lib.rs",
                "mod a; mod b; mod c;\npub use a::A;\n",
            ),
            text(
                "crates/x/src/a.rs",
                "use std::fmt;\nuse crate::{b::{B, D}, c};\n",
            ),
            text("crates/x/src/b.rs", "fn f() -> super::a::A { loop {} }\n"),
            text("crates/x/src/c.rs", "//! use crate::a\nstruct C;\n"),
        ];
        assert_eq!(in_circles(&files), ["a", "b"]);
        assert_eq!(check(&files).len(), 1);
    }

    #[test]
    fn the_scope_of_a_name_is_no_use() {
        let files = [
            text("crates/x/src/a/mod.rs", "mod b;\nuse b::B;\n"),
            text("crates/x/src/a/b.rs", "pub(in crate::a) struct B;\n"),
        ];
        assert_eq!(in_circles(&files), Vec::<String>::new());
    }

    #[test]
    fn a_parent_that_uses_its_child_is_in_a_circle_with_it() {
        let child = "use super::S;\nimpl S {}\n";
        let published = [
            text(
                "crates/x/src/p/mod.rs",
                "mod c;\npub use c::C;\npub(crate) use c::D;\nstruct S;\n",
            ),
            text("crates/x/src/p/c.rs", child),
        ];
        assert!(in_circles(&published).is_empty());
        let used = [
            text("crates/x/src/p/mod.rs", "mod c;\nstruct S { c: c::C }\n"),
            text("crates/x/src/p/c.rs", child),
        ];
        assert_eq!(in_circles(&used), ["p", "p::c"]);
    }

    #[test]
    fn a_circle_through_published_names_is_found() {
        let parent =
            |published: &str| text("crates/x/src/p/mod.rs", &format!("mod c;\n{published}\n"));
        let child = text("crates/x/src/p/c.rs", "use crate::q::Q;\npub struct C;\n");
        let other = text("crates/x/src/q.rs", "use crate::p::C;\npub struct Q;\n");
        for published in [
            "pub use c::C;",
            "pub use c::*;",
            "pub(crate) use self::c::C;",
        ] {
            let files = [
                parent(published),
                text("crates/x/src/p/c.rs", &child.text),
                text("crates/x/src/q.rs", &other.text),
            ];
            assert_eq!(in_circles(&files), ["p::c", "q"], "{published}");
        }
    }

    #[test]
    fn tests_are_no_arrows() {
        let files = [
            text("crates/x/src/a.rs", "use crate::b::B;\n"),
            text(
                "crates/x/src/b.rs",
                "struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
        ];
        assert!(in_circles(&files).is_empty());
    }
}
