//! From answers and questions to choices.
//!
//! **Owns** the questions, their order and their defaults. **Called by** `setup`. **Invariants**: an answer that was given is not asked
//! for; a disk that is not free is refused, both from answers and from a person.

use super::answers::{Answers, Layout, ListenAddress};
use super::dialogue::{Dialogue, Question};
use super::disks::{Disk, check_distinct, of_path};
use super::facts::{Choices, Facts, Member, NewPool, PoolChoice};
use super::layout::{arrange, default_layout, half, propose, usable};
use super::protocol::{ALL, Protocol};
use crate::client_config_command::System;
use crate::columns;
use anyhow::{Result, bail};
use clap::ValueEnum;
use io::printable::printable;
use server::ByteSize;
use std::path::{Path, PathBuf};

/// The name of a first pool.
const POOL: &str = "tank";
/// Where files that are disks belong.
const FILES: &str = "/srv/wirepool";
/// The proposed size of files that become disks.
const FILE_SIZE: &str = "10G";
/// The answer that means a new pool, where there are others.
const NEW: &str = "new";

/// Completes the answers. Errors: an answer is missing or cannot be used.
pub(crate) fn choose(facts: &Facts, answers: &Answers, d: &mut Dialogue<'_>) -> Result<Choices> {
    let pool = choose_pool(facts, answers, d)?;
    let protocol = match answers.protocol {
        Some(protocol) => protocol,
        None => ask_protocol(d)?,
    };
    let name = match &answers.name {
        Some(name) => name.clone(),
        None => {
            let text = match protocol.has_volume() {
                true => "Name of the volume",
                false => "Name of the filesystem",
            };
            d.ask(
                &Question {
                    flag: "--name",
                    text,
                    default: Some(protocol.first_name().to_owned()),
                },
                word,
            )?
        }
    };
    let size = match answers.size {
        _ if !protocol.has_volume() => None,
        Some(size) => Some(size),
        None => Some(ask_size(facts, &pool, d)?),
    };
    let listen = match answers.listen.is_empty() {
        false => answers.listen.clone(),
        true => ask_addresses(facts, d)?,
    };
    let clients = match answers.client.is_empty() {
        false => answers.client.clone(),
        true => d.ask(
            &Question {
                flag: "--client",
                text: &format!("Clients: {}", protocol.client()),
                default: Some(String::new()),
            },
            |t| Ok(t.split_whitespace().map(str::to_owned).collect()),
        )?,
    };
    let os = match answers.os {
        Some(os) => os,
        None => d.ask(
            &Question {
                flag: "--os",
                text: "System of the clients: debian, rhel, proxmox, esxi or windows",
                default: Some(System::Debian.word().to_owned()),
            },
            |t| System::from_str(t, true),
        )?,
    };
    Ok(Choices {
        pool,
        protocol,
        name,
        size,
        listen,
        clients,
        os,
    })
}

/// One word of a name; the server checks the rest.
fn word(text: &str) -> Result<String, String> {
    match text.contains(|c: char| c.is_whitespace() || c == '/') {
        false => Ok(text.to_owned()),
        true => Err("one word without / is needed".to_owned()),
    }
}

fn choose_pool(facts: &Facts, answers: &Answers, d: &mut Dialogue<'_>) -> Result<PoolChoice> {
    let exists = |name: &str| facts.pools.iter().any(|(pool, _)| pool == name);
    let named = match &answers.pool {
        Some(name) => Some(name.clone()),
        None if !answers.disk.is_empty() => None,
        None => ask_existing(facts, d)?,
    };
    if let Some(name) = named.as_ref().filter(|n| exists(n)) {
        if !answers.disk.is_empty() {
            bail!(
                "the pool {name:?} exists already: disks are for a new one; `wirepool pool add` adds disks to it"
            );
        }
        return Ok(PoolChoice::Existing(name.clone()));
    }
    let (members, file_size) = choose_members(facts, answers, d)?;
    let layout = match answers.layout {
        Some(layout) => layout,
        None => ask_layout(&members, d)?,
    };
    let vdevs = arrange(members, layout)?;
    let name = match named {
        Some(name) => name,
        None => d.ask(
            &Question {
                flag: "--pool",
                text: "Name of the pool",
                default: Some(POOL.to_owned()),
            },
            |t| match exists(t) {
                true => Err(format!("there is a pool named {t:?} already")),
                false => word(t),
            },
        )?,
    };
    Ok(PoolChoice::New(NewPool {
        name,
        layout,
        vdevs,
        file_size,
    }))
}

/// The name of an existing pool that is to be used, if there are any and one of them is chosen.
fn ask_existing(facts: &Facts, d: &mut Dialogue<'_>) -> Result<Option<String>> {
    let Some((first, _)) = facts.pools.first() else {
        return Ok(None);
    };
    let list = facts.pools.iter();
    let list = list.map(|(name, free)| format!("{name} ({} free)", ByteSize(*free).human()));
    let list: Vec<String> = list.collect();
    d.say(&format!("Pools of this server: {}\n", list.join(", ")))?;
    d.ask(
        &Question {
            flag: "--pool",
            text: "Pool to use, or new",
            default: Some(first.clone()),
        },
        |t| match facts.pools.iter().any(|(name, _)| name == t) {
            true => Ok(Some(t.to_owned())),
            false if t == NEW => Ok(None),
            false => Err(format!("there is no pool named {t:?}")),
        },
    )
}

/// The table of disks: numbers for free ones, and the contents of the others.
fn table(disks: &[Disk]) -> String {
    let header = ["", "disk", "size", "kind", "model", "serial", "contents"];
    let mut table = columns::table(&header, &[0, 2]);
    let mut free = 0;
    for d in disks {
        let number = match d.is_free() {
            true => {
                free += 1;
                free.to_string()
            }
            false => "-".to_owned(),
        };
        let contents = match d.is_free() {
            true => "nothing was found".to_owned(),
            false => d.found.join(", "),
        };
        let kind = if d.is_rotating { "disk" } else { "flash" };
        table.add_row([
            number,
            printable(&d.path.to_string_lossy()).into_owned(),
            ByteSize(d.size).human(),
            kind.to_owned(),
            printable(&d.model).into_owned(),
            printable(&d.serial).into_owned(),
            printable(&contents).into_owned(),
        ]);
    }
    columns::text(&table)
}

fn choose_members(
    facts: &Facts,
    answers: &Answers,
    d: &mut Dialogue<'_>,
) -> Result<(Vec<Member>, Option<ByteSize>)> {
    let mut file_size = answers.file_size;
    let paths = match answers.disk.is_empty() {
        false => answers.disk.clone(),
        true => ask_disks(&facts.disks, d)?,
    };
    let mut members = Vec::new();
    let mut chosen = Vec::new();
    for path in paths {
        let path = std::path::absolute(path)?;
        let resolved = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        match of_path(&facts.disks, &path, &resolved) {
            Some(disk) => {
                check_free(disk)?;
                chosen.push(disk);
                members.push(member(disk));
            }
            None => members.push(file(path, &mut file_size, d)?),
        }
    }
    check_distinct(&chosen)?;
    let is_twice = |(i, m): (usize, &Member)| members[..i].iter().any(|o| o.path == m.path);
    if members.iter().enumerate().any(is_twice) {
        bail!("a file is given twice");
    }
    Ok((members, file_size))
}

/// Errors: the disk is not free.
fn check_free(disk: &Disk) -> Result<()> {
    if disk.is_free() {
        return Ok(());
    }
    bail!(
        "{} is not free: {}; nothing on it is touched. If its contents may be lost: wipefs --all {}",
        disk.path.display(),
        printable(&disk.found.join(", ")),
        disk.path.display()
    )
}

fn member(disk: &Disk) -> Member {
    Member {
        path: disk.name().to_path_buf(),
        size: disk.size,
        about: format!("{} {} ({})", disk.model, disk.serial, disk.path.display()),
        is_unstable: disk.stable.is_none(),
    }
}

/// A file that becomes a disk. Errors: it is something else, or a disk that was not found.
fn file(path: PathBuf, size: &mut Option<ByteSize>, d: &mut Dialogue<'_>) -> Result<Member> {
    if path.starts_with("/dev") {
        bail!(
            "{} is no disk of this machine that may be used: see `lsblk`",
            path.display()
        );
    }
    let (bytes, about) = match std::fs::metadata(&path) {
        Ok(data) if data.is_file() => (data.len(), "a file that exists"),
        Ok(_) => bail!("{} is neither a disk nor a file", path.display()),
        Err(_) => {
            let bytes = match *size {
                Some(size) => size,
                None => d.ask(
                    &Question {
                        flag: "--file-size",
                        text: "Size of the files",
                        default: d.is_attended().then(|| FILE_SIZE.to_owned()),
                    },
                    |t| t.parse::<ByteSize>().map_err(|e| e.to_string()),
                )?,
            };
            *size = Some(bytes);
            (bytes.0, "a new file")
        }
    };
    Ok(Member {
        path,
        size: bytes,
        about: about.to_owned(),
        is_unstable: false,
    })
}

fn ask_disks(disks: &[Disk], d: &mut Dialogue<'_>) -> Result<Vec<PathBuf>> {
    d.say(&format!("Disks of this machine:\n{}", table(disks)))?;
    let free: Vec<&Disk> = disks.iter().filter(|d| d.is_free()).collect();
    if free.is_empty() {
        d.say(&format!(
            "No disk is free. Files can be disks, too, such as {FILES}/a.img {FILES}/b.img\n"
        ))?;
    }
    let number_of = |i: &usize| disks[..*i].iter().filter(|d| d.is_free()).count() + 1;
    let proposed = propose(disks);
    let proposed: Vec<String> = proposed.iter().map(|i| number_of(i).to_string()).collect();
    let question = Question {
        flag: "--disk",
        text: "Disks of the new pool, by number or path",
        // Without a person no disk is chosen.
        default: (!proposed.is_empty() && d.is_attended()).then(|| proposed.join(" ")),
    };
    d.ask(&question, |text| {
        let paths = text.split([' ', ',']).filter(|w| !w.is_empty()).map(|w| {
            match w.parse::<usize>() {
                Ok(n) => n
                    .checked_sub(1)
                    .and_then(|i| free.get(i))
                    .map(|d| d.path.clone()),
                Err(_) => Some(PathBuf::from(w)),
            }
            .ok_or_else(|| format!("there is no free disk {w}"))
        });
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        for path in &paths {
            if let Some(disk) = of_path(disks, path, path) {
                check_free(disk).map_err(|e| e.to_string())?;
            } else if !Path::new(path).is_absolute() {
                return Err(format!(
                    "{} is neither a number nor an absolute path",
                    path.display()
                ));
            }
        }
        match paths.is_empty() {
            true => Err("at least one disk is needed".to_owned()),
            false => Ok(paths),
        }
    })
}

fn ask_layout(members: &[Member], d: &mut Dialogue<'_>) -> Result<Layout> {
    let default = default_layout(members.len());
    if members.len() < 2 {
        return Ok(default);
    }
    let mut text = String::from("Layout:");
    for layout in Layout::value_variants().iter().copied() {
        let Ok(vdevs) = arrange(members.to_vec(), layout) else {
            continue;
        };
        let bytes = usable(&vdevs, layout);
        let loss = match layout {
            Layout::Mirror => "a disk of each mirror may fail",
            Layout::Raidz1 => "a disk may fail",
            Layout::Raidz2 => "two disks may fail",
            Layout::Raidz3 => "three disks may fail",
            Layout::Stripe => "a lost disk loses everything",
        };
        text += &format!(" {} ({}, {loss})", layout.word(), ByteSize(bytes).human());
    }
    d.ask(
        &Question {
            flag: "--layout",
            text: &text,
            default: Some(default.word().to_owned()),
        },
        |t| Layout::from_str(t, true),
    )
}

fn ask_protocol(d: &mut Dialogue<'_>) -> Result<Protocol> {
    for p in ALL {
        d.say(&format!("  {:6} {}\n", p.word(), p.about()))?;
    }
    d.ask(
        &Question {
            flag: "--protocol",
            text: "Protocol of the first export",
            default: Some(Protocol::Nvme.word().to_owned()),
        },
        |t| Protocol::from_str(t, true),
    )
}

fn ask_size(facts: &Facts, pool: &PoolChoice, d: &mut Dialogue<'_>) -> Result<ByteSize> {
    let bytes = match pool {
        PoolChoice::New(new) => usable(&new.vdevs, new.layout),
        PoolChoice::Existing(name) => {
            let found = facts.pools.iter().find(|(pool, _)| pool == name);
            found.map_or(0, |(_, free)| *free)
        }
    };
    d.ask(
        &Question {
            flag: "--size",
            text: "Size of the volume",
            default: Some(half(bytes).to_string()),
        },
        |t| t.parse::<ByteSize>().map_err(|e| e.to_string()),
    )
}

fn ask_addresses(facts: &Facts, d: &mut Dialogue<'_>) -> Result<Vec<ListenAddress>> {
    let own: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
    let list = match own.is_empty() {
        true => "none besides loopback".to_owned(),
        false => own.join(" "),
    };
    d.say(&format!("Addresses of this machine: {list}\n"))?;
    // A person sees the proposal; without one it must be the only possible one.
    let default = match own.as_slice() {
        [only] => Some(only.clone()),
        [first, ..] if d.is_attended() => Some(first.clone()),
        _ => None,
    };
    d.ask(
        &Question {
            flag: "--listen",
            text: "Addresses for clients; serve only networks that you trust",
            default,
        },
        |t| {
            let all = t.split([' ', ',']).filter(|w| !w.is_empty());
            all.map(str::parse).collect()
        },
    )
}

#[cfg(test)]
mod tests;
