//! The plan: exactly the change of the configuration and the commands that follow.
//!
//! **Owns** the steps. **Called by** `setup`. **Invariants**: pure; a plan that would fail for a reason that is known now is refused;
//! its text has everything that is done, and `perform` does nothing else.

use super::answers::{Layout, ListenAddress};
use super::facts::{Choices, Facts, NewPool, PoolChoice};
use super::layout::usable;
use anyhow::{Result, bail};
use serde::Serialize;
use server::ByteSize;
use server::config::{ConfigFile, Edit, ListenEdit};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// One step.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "step", rename_all = "lowercase")]
pub(crate) enum Step {
    /// Replace the configuration.
    Config {
        /// The file.
        path: PathBuf,
        /// Its changed lines, removed ones after `-` and new ones after `+`.
        changes: Vec<String>,
        #[serde(skip)]
        after: Box<ConfigFile>,
    },
    /// Restart the server, with a command of the shell.
    Restart {
        /// The command.
        command: String,
    },
    /// A command of this program.
    Run {
        /// Its words, without `wirepool`.
        words: Vec<String>,
    },
}

/// Everything that is done, in its order.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Plan {
    /// The result, in sentences.
    pub(crate) result: Vec<String>,
    /// Risks that the operator must know.
    pub(crate) warnings: Vec<String>,
    /// The steps.
    pub(crate) steps: Vec<Step>,
}

/// A word of a command, as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command of this program, as a person types it.
pub(crate) fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| quoted(w)).collect();
    format!("wirepool {}", words.join(" "))
}

impl Plan {
    /// The plan for people.
    pub(crate) fn text(&self) -> String {
        let mut out = String::from("The plan:\n");
        for line in &self.result {
            let _ = writeln!(out, "  {line}");
        }
        for line in &self.warnings {
            let _ = writeln!(out, "  WARNING: {line}");
        }
        for (i, step) in self.steps.iter().enumerate() {
            let n = i + 1;
            let _ = match step {
                Step::Config { path, changes, .. } => {
                    let lines: String = changes.iter().map(|c| format!("       {c}\n")).collect();
                    write!(out, "  {n}. change {}:\n{lines}", path.display())
                }
                Step::Restart { command } => writeln!(
                    out,
                    "  {n}. {command}      (connected clients wait for some seconds)"
                ),
                Step::Run { words } => writeln!(out, "  {n}. {}", command(words)),
            };
        }
        out
    }
}

/// Makes the plan. Errors: a choice that cannot work, in words.
pub(crate) fn plan(facts: &Facts, choices: &Choices, restart: &str) -> Result<Plan> {
    let pool = choices.pool.name();
    let dataset = format!("{pool}/{}", choices.name);
    if facts.datasets.contains(&dataset) {
        bail!(
            "{dataset} exists already: choose another name, or export it with `wirepool export {} {dataset}`",
            choices.protocol.word()
        );
    }
    let mut plan = Plan {
        result: Vec::new(),
        warnings: Vec::new(),
        steps: Vec::new(),
    };
    listening(facts, choices, restart, &mut plan)?;
    if let PoolChoice::New(new) = &choices.pool {
        create_pool(facts, new, &mut plan)?;
    }
    create_dataset(choices, &dataset, &mut plan);
    plan.run(choices.protocol.export(&dataset, &choices.clients));
    if choices.clients.is_empty() {
        let text = "no client may connect yet: `wirepool host allow` adds each";
        plan.warnings.push(text.to_owned());
    }
    let mut words: Vec<String> = ["client-config", &dataset, "--os", choices.os.word()]
        .map(str::to_owned)
        .into();
    for address in client_addresses(facts, choices) {
        words.extend(["--address".to_owned(), address.to_string()]);
    }
    plan.run(words);
    Ok(plan)
}

impl Plan {
    fn run(&mut self, words: Vec<String>) {
        self.steps.push(Step::Run { words });
    }
}

/// Whether a listener serves an address.
fn serves(listener: SocketAddr, wanted: ListenAddress) -> bool {
    let ip = listener.ip();
    let is_every = ip.is_unspecified() && ip.is_ipv4() == wanted.ip.is_ipv4();
    (ip == wanted.ip || is_every) && wanted.port.is_none_or(|p| p == listener.port())
}

/// The change of the configuration and the restart, if the server does not listen on a chosen address.
fn listening(facts: &Facts, choices: &Choices, restart: &str, plan: &mut Plan) -> Result<()> {
    let protocol = choices.protocol;
    let own: Vec<SocketAddr> = facts
        .listen
        .iter()
        .filter(|(of, _)| *of == protocol)
        .map(|(_, a)| *a)
        .collect();
    let missing: Vec<SocketAddr> = choices
        .listen
        .iter()
        .filter(|wanted| !own.iter().any(|l| serves(*l, **wanted)))
        .map(|a| SocketAddr::new(a.ip, a.port.unwrap_or(protocol.port())))
        .collect();
    for address in &choices.listen {
        if address.ip.is_loopback() {
            let text = format!("{address} is reached from this machine only");
            plan.warnings.push(text);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut addresses = protocol.configured(facts.config.config()).to_vec();
    // An address that means every interface takes the port of all others.
    let is_shadowed = |a: &SocketAddr| {
        let every = missing.iter().filter(|m| m.ip().is_unspecified());
        every
            .clone()
            .any(|m| m.port() == a.port() && m.is_ipv4() == a.is_ipv4())
    };
    addresses.retain(|a| !is_shadowed(a));
    addresses.extend(missing.iter().copied());
    let edit = ListenEdit {
        section: protocol.section(),
        key: "listen",
        addresses,
    };
    let after = facts.config.edited(&[&edit as &dyn Edit])?;
    let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
    plan.result.push(format!(
        "the server listens on {} ({}); serve only networks that you trust",
        list.join(" and "),
        protocol.section()
    ));
    plan.steps.push(Step::Config {
        path: after.path().to_path_buf(),
        changes: changes(facts.config.text(), after.text()),
        after: Box::new(after),
    });
    plan.steps.push(Step::Restart {
        command: restart.to_owned(),
    });
    Ok(())
}

/// Lines that differ between two texts, each after `-` or `+`.
fn changes(before: &str, after: &str) -> Vec<String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    let ends = a.iter().rev().zip(b.iter().rev());
    let same = ends.take_while(|(x, y)| x == y).count();
    let removed = a[..a.len() - same].iter().map(|l| format!("- {l}"));
    let added = b[..b.len() - same].iter().map(|l| format!("+ {l}"));
    removed.chain(added).collect()
}

fn create_pool(facts: &Facts, new: &NewPool, plan: &mut Plan) -> Result<()> {
    if facts.pools.iter().any(|(name, _)| *name == new.name) {
        bail!(
            "there is a pool named {:?} already: choose another name",
            new.name
        );
    }
    let mut words: Vec<String> = ["pool", "create", &new.name].map(str::to_owned).into();
    let is_redundant = new.layout != Layout::Stripe;
    for vdev in &new.vdevs {
        if is_redundant {
            words.push(new.layout.word().to_owned());
        }
        for m in vdev {
            // The command line is text; a path that is not text cannot be part of it.
            let Some(path) = m.path.to_str() else {
                bail!("{}: the name is not valid text", m.path.display());
            };
            words.push(path.to_owned());
        }
    }
    if let Some(size) = new.file_size {
        words.extend(["--size".to_owned(), size.to_string()]);
    }
    let members = new.vdevs.iter().flatten();
    let raw: u64 = members.clone().map(|m| m.size).sum();
    let kind = match (new.layout, new.vdevs.len()) {
        (Layout::Stripe, _) => "no redundancy".to_owned(),
        (layout, 1) => format!("one {}", layout.word()),
        (layout, n) => format!("{n} {}s", layout.word()),
    };
    plan.result.push(format!(
        "pool {}: {kind}, about {} usable of {}",
        new.name,
        ByteSize(usable(&new.vdevs, new.layout)).human(),
        ByteSize(raw).human()
    ));
    for m in members.clone() {
        plan.result.push(format!(
            "  {}  {}  {}",
            m.path.display(),
            ByteSize(m.size).human(),
            m.about
        ));
    }
    if !is_redundant {
        let text = format!(
            "a lost disk loses the pool {} with all of its data",
            new.name
        );
        plan.warnings.push(text);
    }
    for m in members.filter(|m| m.is_unstable) {
        plan.warnings.push(format!(
            "{} has no name that survives a reboot: the pool may need `wirepool pool import` after one",
            m.path.display()
        ));
    }
    plan.run(words);
    Ok(())
}

fn create_dataset(choices: &Choices, dataset: &str, plan: &mut Plan) {
    let word = if choices.protocol.has_volume() {
        "volume"
    } else {
        "fs"
    };
    let mut words: Vec<String> = [word, "create", dataset].map(str::to_owned).into();
    let mut text = format!("{dataset}, over {}", choices.protocol.word());
    if let Some(size) = choices.size.filter(|_| choices.protocol.has_volume()) {
        words.extend(["--size".to_owned(), size.to_string()]);
        let _ = write!(
            text,
            ": {}, which takes space only as it is written",
            size.human()
        );
    }
    plan.result.push(text);
    plan.run(words);
}

/// The addresses for clients: the chosen ones, and for one that means every interface those of this machine.
fn client_addresses(facts: &Facts, choices: &Choices) -> Vec<IpAddr> {
    let mut out: Vec<IpAddr> = Vec::new();
    for a in &choices.listen {
        match a.ip.is_unspecified() {
            true => out.extend(
                facts
                    .addresses
                    .iter()
                    .filter(|own| own.is_ipv4() == a.ip.is_ipv4()),
            ),
            false => out.push(a.ip),
        }
    }
    out.dedup();
    out
}

#[cfg(test)]
mod tests;
