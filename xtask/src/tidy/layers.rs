//! Layers: which crate may use which, and a reason for each dependency.
//!
//! **Owns** the table of layers. **Called by** `tidy`. **Invariants**: the table has every crate of the workspace; a
//! crate without an entry fails.

use super::{Finding, Text};
use anyhow::{Context, Result};
use toml::Table;

/// A crate's directory, and the crates of this workspace that it may use. A protocol never uses another
/// protocol, and the pool none at all; `sim` sees everything, since it is all tests.
const LAYERS: &[(&str, &[&str])] = &[
    ("crates/io", &[]),
    ("crates/backend", &["io"]),
    ("crates/session", &["io"]),
    ("crates/testkit", &["backend", "io", "pool"]),
    ("crates/pool", &["backend", "io"]),
    ("crates/nvmf", &["backend", "io", "session"]),
    ("crates/scsi", &["backend", "io", "session"]),
    ("crates/iscsi", &["backend", "io", "scsi", "session"]),
    ("crates/tls", &["io", "session"]),
    ("crates/filestate", &["backend", "io"]),
    (
        "crates/nfs",
        &["backend", "filestate", "io", "session", "tls"],
    ),
    ("crates/fuse", &["backend", "io", "session"]),
    ("crates/doctor", &["io"]),
    ("crates/initiator", &["io"]),
    (
        "crates/nvmf-initiator",
        &["initiator", "io", "nvmf", "session"],
    ),
    (
        "crates/iscsi-initiator",
        &["initiator", "io", "iscsi", "scsi", "session"],
    ),
    ("crates/nfs-initiator", &["initiator", "io", "nfs"]),
    (
        "crates/server",
        &[
            "backend", "doctor", "fuse", "io", "iscsi", "nfs", "nvmf", "pool", "scsi", "session",
            "tls",
        ],
    ),
    (
        "crates/lab",
        &[
            "backend",
            "doctor",
            "io",
            "iscsi",
            "iscsi-initiator",
            "nfs-initiator",
            "nvmf",
            "nvmf-initiator",
            "pool",
        ],
    ),
    (
        "crates/sim",
        &[
            "backend",
            "io",
            "iscsi",
            "iscsi-initiator",
            "nfs",
            "nfs-initiator",
            "nvmf",
            "nvmf-initiator",
            "pool",
            "scsi",
            "testkit",
        ],
    ),
    ("crates/cuts", &["backend", "io", "pool"]),
    ("crates/drill", &["io", "lab", "nvmf-initiator"]),
    (
        "crates/suite",
        &["backend", "io", "lab", "nfs-initiator", "pool"],
    ),
    (
        "crates/wirepool",
        &[
            "backend", "cuts", "doctor", "drill", "io", "lab", "nvmf", "pool", "server",
        ],
    ),
    ("xtask", &[]),
];
/// The only crates that may erase error types: the ones with a `main`.
const BINARIES: &[&str] = &["crates/cuts", "crates/sim", "crates/wirepool", "xtask"];
/// The only crates that may have the simulated driver (`io/sim`) in their normal dependencies: no released program has
/// them. Tests of other crates enable it as development dependencies.
const SIMULATE: &[&str] = &["crates/sim", "crates/testkit"];
const REASONS: &str = "docs/dependencies.md";

pub(super) fn check(files: &[Text]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let workspace = parse(files, "Cargo.toml")?;
    let shared = workspace
        .get("workspace")
        .and_then(|w| w.get("dependencies"))
        .and_then(|d| d.as_table());
    let shared = shared.context("Cargo.toml has no [workspace.dependencies]")?;
    if shared.get("io").is_some_and(has_simulator) {
        let message = "every crate would have the simulated driver: name `sim` where it is used";
        findings.push(Finding::failure("Cargo.toml", 1, "layers", message));
    }
    let (ours, others): (Vec<_>, Vec<_>) = shared
        .iter()
        .partition(|(_, spec)| spec.get("path").is_some());
    let ours: Vec<&str> = ours.into_iter().map(|(name, _)| name.as_str()).collect();
    for manifest in files
        .iter()
        .filter(|f| f.path.ends_with("/Cargo.toml") && !f.path.starts_with("fuzz/"))
    {
        let dir = manifest.path.trim_end_matches("/Cargo.toml");
        findings.extend(check_crate(dir, &parse(files, &manifest.path)?, &ours));
    }
    let reasons = files
        .iter()
        .find(|f| f.path == REASONS)
        .map_or("", |f| f.text.as_str());
    for (name, _) in others {
        if !reasons.contains(&format!("`{name}`")) {
            let message = format!("`{name}` has no line: why it and not another?");
            findings.push(Finding::failure(REASONS, 1, "dependency-reason", message));
        }
    }
    Ok(findings)
}

fn check_crate(dir: &str, manifest: &Table, ours: &[&str]) -> Vec<Finding> {
    let file = format!("{dir}/Cargo.toml");
    let Some((_, allowed)) = LAYERS.iter().find(|(d, _)| *d == dir) else {
        return vec![Finding::failure(
            &file,
            1,
            "layers",
            "not in the table of layers (xtask/src/tidy/layers.rs)",
        )];
    };
    let used = manifest.get("dependencies").and_then(|d| d.as_table());
    let simulates = used.and_then(|d| d.get("io")).is_some_and(has_simulator);
    let mut findings = Vec::new();
    if simulates && !SIMULATE.contains(&dir) {
        findings.push(Finding::failure(
            &file,
            1,
            "layers",
            "`io/sim` is for development dependencies: a released program has no simulator",
        ));
    }
    for name in used.into_iter().flatten().map(|(name, _)| name.as_str()) {
        if ours.contains(&name) && !allowed.contains(&name) {
            findings.push(Finding::failure(
                &file,
                1,
                "layers",
                format!("{dir} may not use `{name}`"),
            ));
        }
        if name == "anyhow" && !BINARIES.contains(&dir) {
            findings.push(Finding::failure(
                &file,
                1,
                "layers",
                "`anyhow` is for binaries; a library has its error enum",
            ));
        }
    }
    findings
}

/// Whether the dependency `io` enables its feature `sim`.
fn has_simulator(io: &toml::Value) -> bool {
    let features = io.get("features").and_then(|f| f.as_array());
    features.is_some_and(|f| f.iter().any(|name| name.as_str() == Some("sim")))
}

fn parse(files: &[Text], path: &str) -> Result<Table> {
    let file = files
        .iter()
        .find(|f| f.path == path)
        .with_context(|| format!("no {path}"))?;
    toml::from_str(&file.text).with_context(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<String> {
        let workspace = "[workspace.dependencies]\nio = { path = \"crates/io\" }\nnvmf = { path = \"crates/nvmf\" }\nlibc = \"1\"\nanyhow = \"1\"\n";
        let mut texts = vec![text("Cargo.toml", workspace)];
        texts.extend(files.iter().map(|(path, contents)| text(path, contents)));
        check(&texts)
            .unwrap()
            .iter()
            .map(|f| f.to_string())
            .collect()
    }

    const DOCS: (&str, &str) = (REASONS, "- `libc`: x\n- `anyhow`: y\n");

    #[test]
    fn downward_uses_pass() {
        assert!(
            rules(&[
                DOCS,
                (
                    "crates/nvmf/Cargo.toml",
                    "[dependencies]\nio.workspace = true\nlibc.workspace = true\n"
                )
            ])
            .is_empty()
        );
    }

    #[test]
    fn upward_and_sideways_uses_fail() {
        assert_eq!(
            rules(&[
                DOCS,
                (
                    "crates/pool/Cargo.toml",
                    "[dependencies]\nnvmf.workspace = true\n"
                )
            ])
            .len(),
            1
        );
        assert_eq!(
            rules(&[
                DOCS,
                (
                    "crates/iscsi/Cargo.toml",
                    "[dependencies]\nnvmf.workspace = true\n"
                )
            ])
            .len(),
            1
        );
        assert_eq!(
            rules(&[
                DOCS,
                (
                    "crates/io/Cargo.toml",
                    "[dependencies]\nnvmf.workspace = true\n"
                )
            ])
            .len(),
            1
        );
    }

    #[test]
    fn the_simulator_is_for_tests() {
        let uses = |section: &str| {
            format!("[{section}]\nio = {{ workspace = true, features = [\"sim\"] }}\n")
        };
        let (normal, development) = (uses("dependencies"), uses("dev-dependencies"));
        let found = rules(&[DOCS, ("crates/nvmf/Cargo.toml", &normal)]);
        assert!(found[0].contains("released program"), "{found:?}");
        assert!(rules(&[DOCS, ("crates/nvmf/Cargo.toml", &development)]).is_empty());
        assert!(rules(&[DOCS, ("crates/testkit/Cargo.toml", &normal)]).is_empty());
    }

    #[test]
    fn an_unknown_crate_fails() {
        assert!(rules(&[DOCS, ("crates/smb/Cargo.toml", "")])[0].contains("table of layers"));
    }

    #[test]
    fn anyhow_in_a_library_fails() {
        assert!(
            rules(&[
                DOCS,
                (
                    "crates/lab/Cargo.toml",
                    "[dependencies]\nanyhow.workspace = true\n"
                )
            ])[0]
                .contains("binaries")
        );
        assert!(
            rules(&[
                DOCS,
                (
                    "xtask/Cargo.toml",
                    "[dependencies]\nanyhow.workspace = true\n"
                )
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_dependency_without_a_reason_fails() {
        assert!(rules(&[(REASONS, "- `anyhow`: y\n")])[0].contains("`libc` has no line"));
    }
}
