//! `cargo xtask`: the repository's tools. A thin command line over this crate's library.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;
use xtask::package::Profile;
use xtask::vm::{Check, Peer};
use xtask::{mutants, package, posix, pynfs, tidy, vm};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own chores")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the source tree against the house rules.
    Tidy,
    /// Break promises on purpose, one per run of the simulator, and check that the simulator notices.
    Mutants {
        /// Mutants to run; all of them if none is named.
        names: Vec<String>,
        /// Seconds for each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Seconds for each scenario without a mutant.
        #[arg(long, default_value_t = 10)]
        control_seconds: u64,
        /// The first seed of each run.
        #[arg(long, default_value_t = 0)]
        first_seed: u64,
        /// Only list them.
        #[arg(long)]
        list: bool,
    },
    /// Let foreign POSIX suites judge file systems through a FUSE mount. Needs root and /dev/fuse.
    Posix {
        /// Suites to run; all of them if none is named.
        names: Vec<String>,
        /// Only on this kind of mount.
        #[arg(long)]
        mount: Option<String>,
        /// Only list them.
        #[arg(long)]
        list: bool,
    },
    /// Let pynfs judge the NFS service. WIREPOOL_PYNFS names a directory with pynfs.
    Pynfs {
        /// Runs; all of them if none is named.
        names: Vec<String>,
        /// Only this server: memory or pool.
        #[arg(long)]
        server: Option<String>,
        /// Only list them.
        #[arg(long)]
        list: bool,
    },
    /// Measure a mount beside ext4 and btrfs in loop files on the same disk. Needs root; `WIREPOOL_BIN` names a release build.
    Files {
        /// A directory on the disk to measure.
        #[arg(default_value = "target")]
        within: std::path::PathBuf,
    },
    /// Write the manual pages and shell completions of a package, beside the program that they are made of.
    Pages {
        /// A build of the program.
        #[arg(default_value = "target/release/wirepool")]
        program: std::path::PathBuf,
    },
    /// Build the Debian package of a program that is built already.
    Deb {
        /// Which build of it.
        #[arg(long, value_enum, default_value_t = Profile::Release)]
        profile: Profile,
        /// The package's version, instead of the workspace's.
        #[arg(long)]
        version: Option<String>,
        /// The file, instead of one in the target directory.
        #[arg(long)]
        to: Option<std::path::PathBuf>,
    },
    /// Boot a stock Linux kernel and let it use a server on this host.
    Vm {
        /// Checks to run; all of them if none is named.
        names: Vec<String>,
        /// The server under test: ours, or the guest kernel's own target (to test the checks).
        #[arg(long, value_enum, default_value_t = Peer::Wirepool)]
        peer: Peer,
        /// Only make the guests' images.
        #[arg(long)]
        image: bool,
        /// Only list the checks.
        #[arg(long)]
        list: bool,
    },
}

/// Checks the house rules, and prints the findings.
fn check_rules() -> anyhow::Result<ExitCode> {
    let findings = tidy::run(&xtask::repo::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings.iter().filter(|f| f.is_failure()).count();
    println!(
        "tidy: {failures} failures, {} warnings",
        findings.len() - failures
    );
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Builds a package, and prints its path.
fn pack(
    profile: Profile,
    version: Option<&str>,
    to: Option<std::path::PathBuf>,
) -> anyhow::Result<ExitCode> {
    let to = to.unwrap_or_else(|| package::path(profile));
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)?;
    }
    package::build(profile, version, &to)?;
    println!("{}", to.display());
    Ok(ExitCode::SUCCESS)
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().chore {
        Chore::Tidy => check_rules(),
        Chore::Mutants { list: true, .. } => {
            for mutant in mutants::listed(&xtask::repo::root())? {
                println!(
                    "{:34} {:8} {}",
                    mutant.name, mutant.scenario, mutant.promise
                );
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Mutants {
            names,
            seconds,
            control_seconds,
            first_seed,
            ..
        } => {
            let options = mutants::Options {
                names,
                limit: Duration::from_secs(seconds),
                control: Duration::from_secs(control_seconds),
                first_seed,
            };
            Ok(match mutants::run(&xtask::repo::root(), &options)? {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            })
        }
        Chore::Posix { list: true, .. } => {
            for suite in posix::SUITES {
                println!(
                    "{:15} {} ({})",
                    suite.name,
                    suite.about,
                    suite.kinds.join(", ")
                );
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Posix { names, mount, .. } => judge(&names, mount.as_deref()),
        Chore::Pynfs { list: true, .. } => {
            for suite in pynfs::SUITES {
                println!("{:15} {}", suite.name, suite.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Pynfs { names, server, .. } => judge_nfs(&names, server.as_deref()),
        Chore::Files { within } => posix::files_table(&within).map(|()| ExitCode::SUCCESS),
        Chore::Pages { program } => {
            println!("{}", xtask::pages::write(&program)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Chore::Deb {
            profile,
            version,
            to,
        } => pack(profile, version.as_deref(), to),
        Chore::Vm { list: true, .. } => {
            for check in vm::CHECKS {
                println!("{:14} {}", check.name, check.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Vm { image: true, .. } => vm::build_images().map(|()| ExitCode::SUCCESS),
        Chore::Vm { names, peer, .. } => {
            let checks: Vec<&Check> = match names.is_empty() {
                true => vm::CHECKS.iter().collect(),
                false => names
                    .iter()
                    .map(|n| vm::check_named(n))
                    .collect::<anyhow::Result<_>>()?,
            };
            if checks.iter().any(|check| check.name == "nfs") {
                pynfs::build()?;
            }
            let (mut outcomes, mut skipped) = (Vec::new(), Vec::new());
            for check in checks {
                match vm::obstacle(check) {
                    Some(reason) => skipped.push(format!("SKIPPED {}: {reason}", check.name)),
                    None => outcomes.push(vm::run(check, peer)?),
                }
            }
            println!();
            skipped.iter().for_each(|line| println!("{line}"));
            for outcome in &outcomes {
                println!("{outcome}");
            }
            Ok(if outcomes.iter().all(|o| o.passed()) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}

/// Runs suites; a run that is not possible fails like one with other verdicts than the listed ones.
fn judge(names: &[String], mount: Option<&str>) -> anyhow::Result<ExitCode> {
    if let Some(reason) = posix::obstacle() {
        anyhow::bail!("no POSIX suite can run here: {reason}");
    }
    posix::build()?;
    let suites: Vec<_> = match names {
        [] => posix::SUITES.iter().collect(),
        names => names
            .iter()
            .map(|n| posix::suite_named(n))
            .collect::<anyhow::Result<_>>()?,
    };
    let mut is_good = true;
    for suite in suites {
        let kinds = suite.kinds.iter();
        for kind in kinds.filter(|k| mount.is_none_or(|m| m == **k)) {
            match posix::run(suite, kind) {
                Ok(outcome) => {
                    is_good &= outcome.passed();
                    println!("{outcome}");
                }
                Err(e) => {
                    is_good = false;
                    println!("{:15} {kind:12} NOT RUN to its end: {e:#}", suite.name);
                }
            }
        }
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs pynfs; a run that is not possible fails like one with other verdicts than the listed ones.
fn judge_nfs(names: &[String], server: Option<&str>) -> anyhow::Result<ExitCode> {
    pynfs::build()?;
    let kinds: Vec<_> = match server {
        None => pynfs::KINDS.iter().collect(),
        Some(name) => vec![pynfs::kind_named(name)?],
    };
    let suites: Vec<_> = match names {
        [] => pynfs::SUITES.iter().collect(),
        names => names
            .iter()
            .map(|n| pynfs::suite_named(n))
            .collect::<anyhow::Result<_>>()?,
    };
    let mut is_good = true;
    for suite in suites {
        for kind in &kinds {
            let outcome = pynfs::run(suite, kind)?;
            is_good &= outcome.passed();
            println!("{outcome}");
        }
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
