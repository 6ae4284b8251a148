//! `wirepool rdma setup`: packages, files, modules and commands that give this machine RDMA.
//!
//! **Owns** its arguments, and the writing of the plan's files. **Called by** `main`. **Invariants**: nothing is changed without `--apply`
//! and consent; only files of the plan are written, each as a whole; no file is written outside of `--root`; packages,
//! the server's restart and settings of cards and interfaces are left to a person.

use crate::ask::{exact, print};
use crate::client::Client;
use crate::doctor_command;
use crate::setup::dialogue::Dialogue;
use anyhow::{Context, Result, bail};
use clap::Args;
use doctor::capture::capture_rdma;
use doctor::client_config::ConfigFile;
use doctor::facts::Known;
use doctor::rdma_setup::{RdmaSetup, plan};
use doctor::source::Host;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  wirepool rdma setup                    print packages, files and commands; nothing is changed
  wirepool rdma setup --apply            write the files and load the modules, after a question
  wirepool rdma setup --apply --yes      without the question
  wirepool rdma setup --client           for a machine that uses storage over RDMA
  wirepool rdma setup --root /mnt/image  judge, and with --apply write into, an installed system that is not running

--apply writes /etc/modules-load.d/wirepool-rdma.conf and /etc/systemd/system/wirepool.service.d/90-rdma.conf as far as they are
needed, and runs modprobe. Packages, the mode of ports, IPoIB, flow control and the restart of the server stay work for a person;
the plan has the commands. `wirepool doctor` has the checks that it follows from.

Exit codes: 0 printed or applied, 1 failed, 2 wrong command line.";

/// Print what this machine needs for RDMA; with --apply, write the files and load the modules.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RdmaSetupArgs {
    /// Print the plan and change nothing (the default).
    #[arg(long, conflicts_with = "apply")]
    print: bool,
    /// Write the plan's files and load its modules, after a question.
    #[arg(long)]
    apply: bool,
    /// Ask nothing.
    #[arg(short, long, requires = "apply")]
    yes: bool,
    /// This machine is a client: it needs no settings of the server's unit.
    #[arg(long)]
    client: bool,
    /// The directory of another system, such as a mounted image.
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
}

/// Prints the plan, and carries it out if that is asked for.
pub(crate) fn run(args: &RdmaSetupArgs, control: Option<PathBuf>, json: bool) -> Result<()> {
    if json && args.apply {
        bail!("--json prints the plan and does nothing: leave --apply out");
    }
    let is_this_machine = args.root == Path::new("/");
    if !args.root.is_dir() {
        bail!("{} is no directory", args.root.display());
    }
    let server = match (is_this_machine, args.client) {
        (true, false) => doctor_command::server(&Client::new(control, true)),
        (true, true) => Known::unknown("not asked for: this machine is set up as a client"),
        (false, _) => Known::unknown("not asked for: the system in --root does not run"),
    };
    let setup = plan(&capture_rdma(&Host::below(&args.root), server), args.client);
    if json {
        return print(&exact(&serde_json::to_string_pretty(&setup)?));
    }
    print(&setup.text())?;
    if !args.apply {
        return match setup.is_applicable() {
            true => print("nothing was changed; --apply writes the files and loads the modules\n"),
            false => Ok(()),
        };
    }
    if !setup.is_applicable() {
        return print("there is no file to write and no module to load: nothing was changed\n");
    }
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout());
    let mut dialogue = Dialogue::with(&mut input, &mut output);
    if !args.yes && !dialogue.consents("Write these files and load these modules")? {
        return print("nothing was changed\n");
    }
    apply(&setup, &args.root, is_this_machine)
}

/// Writes the files, loads the modules, and prints what stays to be done. Errors: the first step that fails; the ones before stay done.
fn apply(setup: &RdmaSetup, root: &Path, is_this_machine: bool) -> Result<()> {
    for file in &setup.files {
        let path = write(root, file)?;
        print(&format!("written: {}\n", path.display()))?;
    }
    if !setup.modules.is_empty() {
        let modules = setup.modules.join(" ");
        if is_this_machine {
            modprobe(&setup.modules)?;
            print(&format!("loaded: {modules}\n"))?;
        } else {
            print(&format!(
                "not loaded, because --root does not run: {modules}\n"
            ))?;
        }
    }
    let left = setup.text_left();
    match left.is_empty() {
        true => print("nothing is left to do\n"),
        false => print(&format!("left to do:\n\n{left}")),
    }
}

fn modprobe(modules: &[String]) -> Result<()> {
    let output = Command::new("modprobe")
        .arg("-a")
        .args(modules)
        .stdin(Stdio::null())
        .output()
        .context("modprobe does not start: install kmod")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "modprobe -a {} failed ({}): {}; the files are written",
            modules.join(" "),
            output.status,
            text.trim()
        );
    }
    Ok(())
}

/// Writes a file below a root, under another name first. Other contents of a file of this name are kept beside it, with `.old` behind
/// the name, where neither systemd nor modprobe reads them. Returns its path. Errors: it cannot be written, or a link leads
/// out of the root.
fn write(root: &Path, file: &ConfigFile) -> Result<PathBuf> {
    let root = root.canonicalize()?;
    let parts = Path::new(&file.path).components();
    let parts = parts.filter(|c| matches!(c, Component::Normal(_)));
    let path = root.join(parts.collect::<PathBuf>());
    let context = || format!("{} cannot be written", path.display());
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        bail!("{} is no path of a file", file.path);
    };
    make_directory(&root, directory).with_context(context)?;
    let beside = |suffix: &str| {
        let mut name = name.to_owned();
        name.push(suffix);
        directory.join(name)
    };
    let (new, old) = (beside(".new"), beside(".old"));
    match fs::remove_file(&new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(context),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .open(&new)
        .with_context(context)?;
    out.write_all(file.text.as_bytes()).with_context(context)?;
    out.set_permissions(Permissions::from_mode(0o644))
        .with_context(context)?;
    out.sync_all().with_context(context)?;
    match fs::rename(&path, &old) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(context),
        _ => {}
    }
    fs::rename(&new, &path).with_context(context)?;
    Ok(path)
}

/// Makes a directory below a root without links, part by part, so that none is made behind a link that leads out of it.
fn make_directory(root: &Path, directory: &Path) -> Result<()> {
    let mut at = root.to_path_buf();
    for part in directory.strip_prefix(root)?.components() {
        at.push(part);
        match fs::create_dir(&at) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e.into()),
            _ => {}
        }
        at = at.canonicalize()?;
        if !at.starts_with(root) {
            bail!("{} leads out of {}", directory.display(), root.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(text: &str) -> ConfigFile {
        ConfigFile {
            path: "/etc/modules-load.d/wirepool-rdma.conf".into(),
            is_added: false,
            text: text.into(),
        }
    }

    #[test]
    fn a_file_is_written_below_the_root_and_the_former_one_is_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let path = write(root.path(), &file("a\n")).expect("written");
        let inside = root.path().canonicalize().expect("a directory");
        assert!(path.starts_with(inside), "{path:?}");
        let read = |name: &str| fs::read_to_string(path.with_file_name(name)).ok();
        let (name, old) = ("wirepool-rdma.conf", "wirepool-rdma.conf.old");
        assert_eq!((read(name).as_deref(), read(old)), (Some("a\n"), None));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        write(root.path(), &file("b\n")).expect("written");
        assert_eq!(read(name).as_deref(), Some("b\n"));
        assert_eq!(read(old).as_deref(), Some("a\n"));
        let names = fs::read_dir(path.parent().expect("a parent")).expect("listed");
        assert_eq!(names.count(), 2, "nothing else is left");
    }

    #[test]
    fn a_link_does_not_lead_out_of_the_root() {
        let outside = tempfile::tempdir().expect("a directory");
        let root = tempfile::tempdir().expect("a directory");
        symlink(outside.path(), root.path().join("etc")).expect("a link");
        let e = write(root.path(), &file("a\n")).expect_err("refused");
        assert!(format!("{e:#}").contains("leads out of"), "{e:#}");
        let left = fs::read_dir(outside.path()).expect("listed").count();
        assert_eq!(left, 0, "nothing is made outside");
    }
}
