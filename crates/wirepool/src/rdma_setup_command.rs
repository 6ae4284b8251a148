//! `wirepool rdma setup`: packages, files, modules and commands that give this machine RDMA.
//!
//! **Owns** its arguments, and the writing of the plan's files. **Called by** `main`. **Invariants**: nothing is changed without `--apply`
//! and consent; only files of the plan are written, each as a whole; no file is written outside of `--root`; packages,
//! the server's restart and settings of cards and interfaces are left to a person.

use crate::ask::{exact, print};
use crate::doctor_command;
use crate::setup::dialogue::Dialogue;
use anyhow::{Context, Result, bail};
use clap::Args;
use doctor::capture::capture_rdma;
use doctor::client_config::ConfigFile;
use doctor::facts::Known;
use doctor::rdma_setup::{RdmaSetup, plan};
use doctor::source::Host;
use server::durable;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
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
        (true, false) => doctor_command::known_server(control),
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
    print(&replaced(&setup, &args.root))?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    let mut dialogue = Dialogue::with(&mut input, &mut output);
    if !args.yes && !dialogue.consents("Write these files and load these modules")? {
        return print("nothing was changed\n");
    }
    apply(&setup, &args.root, is_this_machine)
}

/// Names the files with other contents that the files of the plan replace, one a line.
fn replaced(setup: &RdmaSetup, root: &Path) -> String {
    let mut out = String::new();
    for file in &setup.files {
        let path = place(root, file);
        if matches!(Former::read(&path, file), Ok(Former::Other)) {
            let path = path.display();
            let _ = writeln!(
                out,
                "{path} has other contents: it is replaced, and kept as {path}.old"
            );
        }
    }
    out
}

/// Writes the files, loads the modules, and prints what stays to be done. Errors: the first step that fails; the ones before stay done.
fn apply(setup: &RdmaSetup, root: &Path, is_this_machine: bool) -> Result<()> {
    for file in &setup.files {
        print(&match write(root, file)? {
            None => format!("unchanged: {}\n", place(root, file).display()),
            Some(Written { path, kept: None }) => format!("written: {}\n", path.display()),
            Some(Written {
                path,
                kept: Some(kept),
            }) => format!(
                "written: {} (the former file is kept as {})\n",
                path.display(),
                kept.display()
            ),
        })?;
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

/// A file of the plan that was written.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    /// Its path, the root included.
    path: PathBuf,
    /// Its former contents; `None` if there was no file.
    kept: Option<PathBuf>,
}

/// Writes a file of the plan below a root; `None` if it has these contents already. A file with other contents is kept beside it under the
/// first free name of `NAME.old`, `NAME.old2` and so on, which neither systemd nor modprobe reads. Errors: it cannot be
/// written, or a link leads out of the root.
fn write(root: &Path, file: &ConfigFile) -> Result<Option<Written>> {
    let root = root.canonicalize()?;
    let path = place(&root, file);
    let context = || format!("{} cannot be written", path.display());
    let Some(directory) = path.parent() else {
        bail!("{} is no path of a file", file.path);
    };
    make_directory(&root, directory).with_context(context)?;
    let former = Former::read(&path, file).with_context(context)?;
    let kept = match former {
        Former::Same => return Ok(None),
        Former::Missing => None,
        Former::Other => Some(keep(&path).with_context(context)?),
    };
    durable::replace_or_create(&path, file.text.as_bytes(), 0o644).with_context(context)?;
    Ok(Some(Written { path, kept }))
}

/// The place of a file of the plan below a root. Parts such as `..` are left out.
fn place(root: &Path, file: &ConfigFile) -> PathBuf {
    let parts = Path::new(&file.path).components();
    let parts = parts.filter(|c| matches!(c, Component::Normal(_)));
    root.join(parts.collect::<PathBuf>())
}

/// The file that is there before a file of the plan is written.
#[derive(Debug, PartialEq, Eq)]
enum Former {
    Missing,
    /// It has the contents of the plan.
    Same,
    /// It has other contents, or is a link.
    Other,
}

impl Former {
    fn read(path: &Path, file: &ConfigFile) -> io::Result<Former> {
        let is_file = match fs::symlink_metadata(path) {
            Ok(found) => found.is_file(),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Former::Missing),
            Err(e) => return Err(e),
        };
        let is_same = is_file && fs::read(path)? == file.text.as_bytes();
        Ok(if is_same { Former::Same } else { Former::Other })
    }
}

/// Gives a file a second name, under which it is kept when the first one gets other contents. Returns that name. A file that was kept
/// before is never overwritten.
fn keep(path: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(".old");
        if number > 1 {
            name.push(number.to_string());
        }
        match fs::hard_link(path, &name) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            linked => return linked.map(|()| name.into()),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Makes a directory below a root without links, part by part, so that none is made behind a link that leads out of it.
fn make_directory(root: &Path, directory: &Path) -> Result<()> {
    let mut at = root.to_path_buf();
    for part in directory.strip_prefix(root)?.components() {
        at.push(part);
        match fs::create_dir(&at) {
            // Its name must survive a power cut, as the file's does.
            Ok(()) => File::open(at.parent().unwrap_or(root))?.sync_all()?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e.into()),
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn file(text: &str) -> ConfigFile {
        ConfigFile {
            path: "/etc/modules-load.d/wirepool-rdma.conf".into(),
            is_added: false,
            text: text.into(),
        }
    }

    #[test]
    fn a_file_is_written_below_the_root_and_former_ones_are_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let inside = root.path().canonicalize().expect("a directory");
        let path = inside.join("etc/modules-load.d/wirepool-rdma.conf");
        let read = |name: &str| fs::read_to_string(path.with_file_name(name)).ok();
        let [name, old, old2] = ["", ".old", ".old2"].map(|end| format!("wirepool-rdma.conf{end}"));
        let written = |text: &str| write(root.path(), &file(text)).expect("written");
        let kept = |name: &str| Written {
            path: path.clone(),
            kept: Some(path.with_file_name(name)),
        };
        let first = Written {
            path: path.clone(),
            kept: None,
        };
        assert_eq!(written("a\n"), Some(first));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(written("a\n"), None, "a second run changes nothing");
        assert_eq!((read(&name).as_deref(), read(&old)), (Some("a\n"), None));
        assert_eq!(written("b\n"), Some(kept(&old)));
        assert_eq!(written("c\n"), Some(kept(&old2)));
        let all = [name, old, old2].map(|n| read(&n).expect("a file"));
        assert_eq!(all, ["c\n", "a\n", "b\n"]);
        let names = fs::read_dir(path.parent().expect("a parent")).expect("listed");
        assert_eq!(names.count(), 3, "nothing else is left");
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced_and_its_target_is_not() {
        let (outside, root) = (
            tempfile::tempdir().expect("a directory"),
            tempfile::tempdir().expect("a directory"),
        );
        let target = outside.path().join("target");
        fs::write(&target, "a\n").expect("written");
        let directory = root.path().join("etc/modules-load.d");
        fs::create_dir_all(&directory).expect("made");
        symlink(&target, directory.join("wirepool-rdma.conf")).expect("a link");
        let written = write(root.path(), &file("a\n")).expect("written");
        let Written { path, kept } = written.expect("a link is no such file");
        assert!(!path.is_symlink() && kept.is_some_and(|k| k.is_symlink()));
        assert_eq!(fs::read_to_string(&target).expect("read"), "a\n");
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
