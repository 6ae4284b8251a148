//! Manual pages and shell completions, for packages.
//!
//! **Called by** the hidden command `generate`, which `cargo xtask pages` runs. **Invariants**: all pages come from the definitions
//! that parse the command line; each visible subcommand has a page, such as `wirepool-pool-create.1`.

use crate::cli::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

/// The shells with a completion file, and the file's name in the directory that the shell reads.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "wirepool"),
    (Shell::Zsh, "_wirepool"),
    (Shell::Fish, "wirepool.fish"),
];

/// Writes the files below a directory, which is created. Errors: a file cannot be written.
pub(crate) fn generate(dir: &Path) -> Result<()> {
    let man = dir.join("man");
    let completions = dir.join("completions");
    for dir in [&man, &completions] {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    clap_mangen::generate_to(Cli::command(), &man).context("manual pages")?;
    for (shell, name) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "wirepool", &mut text);
        let path = completions.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// The names of the pages that a command and its visible subcommands must have.
    fn expected(command: &Command, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name}.1"));
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        for c in visible.filter(|c| c.get_name() != "help") {
            expected(c, &format!("{name}-{}", c.get_name()), out);
        }
    }

    #[test]
    fn every_subcommand_has_a_page_and_is_completed() {
        let dir = tempfile::tempdir().expect("a directory");
        generate(dir.path()).expect("written");
        let mut names = Vec::new();
        expected(&Cli::command(), "wirepool", &mut names);
        assert!(
            names.contains(&"wirepool-pool-create.1".to_owned()),
            "{names:?}"
        );
        let read = |name: &str| {
            fs::read_to_string(dir.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        for name in &names {
            let page = read(&format!("man/{name}"));
            assert!(
                page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
                "{name}"
            );
        }
        let pages = fs::read_dir(dir.path().join("man")).expect("pages").count();
        assert_eq!(pages, names.len(), "no page of a hidden command");
        let create = read("man/wirepool-pool-create.1");
        assert!(create.contains("mirror"), "{create}");
        for (_, file) in SHELLS {
            let text = read(&format!("completions/{file}"));
            for c in Cli::command()
                .get_subcommands()
                .filter(|c| !c.is_hide_set())
            {
                assert!(text.contains(c.get_name()), "{file}: {}", c.get_name());
            }
        }
        let bash = dir.path().join("completions/wirepool");
        let status = std::process::Command::new("bash")
            .arg("-n")
            .arg(bash)
            .status();
        assert!(status.expect("bash").success());
    }
}
