//! Setup of RDMA on one machine: packages, files, modules, and work by hand.
//!
//! **Owns** the choice of steps that a program may carry out. **Called by** `wirepool rdma setup`. **Invariants**: the plan follows from
//! the findings of the RDMA checks, so a machine without such findings needs nothing; only files of our own are in it, never
//! a part of another file; nothing is changed here.

use crate::checks::rdma::software::{MODULES_FILE, UNIT_DIRECTORY, UNIT_FILE};
use crate::checks::{judge_by, rdma_checks};
use crate::client_config::ConfigFile;
use crate::facts::{Facts, RdmaPort};
use crate::step::{RESTART, Step, line};
use io::printable::printable;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The first line of each file.
const ORIGIN: &str = "# Made by `wirepool rdma setup`.";
/// Programs that install packages.
const INSTALLERS: &[&str] = &["apt-get", "dnf", "zypper"];

/// The steps that give a machine RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaSetup {
    /// Ports of RDMA devices, one line each.
    pub ports: Vec<String>,
    /// Commands that install packages.
    pub packages: Vec<String>,
    /// Files that are missing or have other contents.
    pub files: Vec<ConfigFile>,
    /// Modules that are not loaded.
    pub modules: Vec<String>,
    /// Commands after the files are in place, in their order.
    pub commands: Vec<String>,
    /// Work that needs a person.
    pub by_hand: Vec<ManualWork>,
    /// Facts that could not be read; `wirepool doctor` names them.
    pub unknown: usize,
}

/// Work that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualWork {
    /// The port, interface or file.
    pub object: String,
    /// The values that were read.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// Commands and sentences.
    pub steps: Vec<String>,
}

/// Makes the plan for a server or, with `is_client`, for a client.
#[must_use]
pub fn plan(facts: &Facts, is_client: bool) -> RdmaSetup {
    let report = judge_by(rdma_checks(), facts, is_client);
    let ports = facts.rdma.ports.value().map_or(&[][..], Vec::as_slice);
    let mut setup = RdmaSetup {
        ports: ports.iter().map(port).collect(),
        unknown: report.not_checked.len(),
        ..RdmaSetup::default()
    };
    for finding in report.findings {
        let mut steps = Vec::new();
        for step in &finding.steps {
            setup.add(step, &mut steps);
        }
        if !steps.is_empty() {
            setup.by_hand.push(ManualWork {
                object: finding.object,
                found: finding.evidence,
                why: finding.why,
                steps,
            });
        }
    }
    // The server is restarted when packages, files and modules are there, and systemd has read the files.
    setup.commands.sort_by_key(|c| c == RESTART);
    if setup.ports.is_empty() && !setup.modules.is_empty() {
        setup.by_hand.push(ManualWork {
            object: "RDMA".into(),
            found: "no device yet".into(),
            why: "The device that appears with the modules may need more.".into(),
            steps: vec!["run `wirepool rdma setup` again when the modules are loaded".into()],
        });
    }
    setup
}

/// A line about a port.
fn port(p: &RdmaPort) -> String {
    let p = p.summary();
    let known = |text: Option<String>| text.unwrap_or_else(|| "?".into());
    let name = p.name();
    let (layer, state) = (known(p.link_layer), known(p.state));
    let mut out = format!("{name}: {layer}, {state}, link {}", known(p.phys_state));
    if let Some(gbps) = p.rate_gbps {
        let _ = write!(out, ", {gbps} Gb/s");
    }
    if !p.interface.is_empty() {
        let _ = write!(out, ", interface {}", p.interface);
    }
    if !p.gid_types.is_empty() {
        let _ = write!(out, ", GIDs {}", p.gid_types.join(" and "));
    }
    out
}

fn add_once<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

impl RdmaSetup {
    /// Adds a step of a finding. Work for a person is added to `by_hand`.
    fn add(&mut self, step: &Step, by_hand: &mut Vec<String>) {
        match step {
            Step::Run { argv } => match argv.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["modprobe", "-a", ref modules @ ..] => {
                    for module in modules {
                        add_once(&mut self.modules, (*module).to_owned());
                    }
                }
                // It is made with the file.
                ["mkdir", "-p", UNIT_DIRECTORY] => {}
                ["systemctl", "daemon-reload"] => add_once(&mut self.commands, line(step)),
                [program, ..] if INSTALLERS.contains(&program) => {
                    add_once(&mut self.packages, line(step));
                }
                _ => by_hand.push(line(step)),
            },
            Step::File { path, lines } if path == MODULES_FILE || path == UNIT_FILE => {
                let file = ConfigFile {
                    path: path.clone(),
                    is_added: false,
                    text: format!("{ORIGIN}\n{}\n", lines.join("\n")),
                };
                add_once(&mut self.files, file);
            }
            _ if *step == Step::restart_server() => {
                add_once(&mut self.commands, RESTART.to_owned());
            }
            Step::Set { .. } | Step::File { .. } | Step::Advice { .. } => {
                by_hand.push(line(step));
            }
        }
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.packages.is_empty()
            && self.files.is_empty()
            && self.modules.is_empty()
            && self.commands.is_empty()
            && self.by_hand.is_empty()
    }

    /// Whether a program can do a part of it.
    #[must_use]
    pub fn is_applicable(&self) -> bool {
        !self.files.is_empty() || !self.modules.is_empty()
    }

    /// The plan for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for port in &self.ports {
            let _ = writeln!(out, "{}", printable(port));
        }
        if self.ports.is_empty() {
            out.push_str("this machine has no RDMA device that the kernel knows\n");
        }
        out.push('\n');
        self.text_packages(&mut out);
        for file in &self.files {
            let _ = writeln!(out, "==> file {}\n{}", file.path, file.text);
        }
        if !self.modules.is_empty() {
            let _ = writeln!(
                out,
                "==> modules, as root\nmodprobe -a {}\n",
                self.modules.join(" ")
            );
        }
        self.text_after(&mut out);
        if self.is_complete() {
            let _ = writeln!(out, "nothing has to be set up");
        }
        if self.unknown > 0 {
            let _ = writeln!(
                out,
                "{} checks lacked a fact, such as a program or root: `wirepool doctor` names them",
                self.unknown
            );
        }
        out
    }

    /// The packages.
    fn text_packages(&self, out: &mut String) {
        if !self.packages.is_empty() {
            let _ = writeln!(out, "==> packages, as root\n{}\n", self.packages.join("\n"));
        }
    }

    /// The commands after files and modules, and the work by hand.
    fn text_after(&self, out: &mut String) {
        if !self.commands.is_empty() {
            let _ = writeln!(out, "==> then, as root\n{}\n", self.commands.join("\n"));
        }
        if !self.by_hand.is_empty() {
            out.push_str("==> by hand\n");
        }
        for work in &self.by_hand {
            let (object, found) = (printable(&work.object), printable(&work.found));
            let _ = writeln!(out, "{object}: {found}. {}", work.why);
            for step in &work.steps {
                let _ = writeln!(out, "- {}", printable(step));
            }
        }
        if !self.by_hand.is_empty() {
            out.push('\n');
        }
    }

    /// The steps that are left after files and modules, for people.
    #[must_use]
    pub fn text_left(&self) -> String {
        let mut out = String::new();
        self.text_packages(&mut out);
        self.text_after(&mut out);
        out
    }
}
