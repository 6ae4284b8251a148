//! `wirepool pool history`, `pool events`, `pool iostat`, and `wirepool get`, `set` and `inherit`.
//!
//! **Called by** the commands. **Invariants**: as for all commands; continuous output prints each part when it
//! arrives, JSON as a line each.

use crate::ask::Ask;
use crate::cli::records::RecordCommand;
use crate::columns::{rows, utc};
use crate::pools::usage;
use crate::tables::iostat::Iostat;
use crate::tables::writes::WriteReport;
use anyhow::{Result, bail};
use serde::Serialize;
use server::ByteSize;
use server::api::{
    Event, GetProperties, HistoryEntry, InheritProperty, ListEvents, ListPools, ListWrites, Pool,
    PoolHistory, Property, PropertySource, SetProperty, Writes,
};
use std::time::Duration;

/// Polling interval of `pool events --follow`.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// Runs one of `wirepool pool history`, `events`, `iostat`.
pub(crate) fn record(ask: &Ask, command: RecordCommand) -> Result<String> {
    match command {
        RecordCommand::History { pool } => ask.show(&PoolHistory { name: pool }, |h| history(h)),
        RecordCommand::Events { pool, follow } => events(ask, pool, follow),
        RecordCommand::Iostat {
            words,
            verbose,
            writes,
        } => match writes {
            true => written(ask, &words),
            false => iostat(ask, &words, verbose),
        },
    }
}

fn history(entries: &[HistoryEntry]) -> String {
    let line = |e: &HistoryEntry| format!("{}  {}  [{}]\n", utc(e.time_ms), e.what, e.host);
    entries.iter().map(line).collect()
}

fn shown(events: &[Event]) -> String {
    let line = |e: &Event| format!("{}  {}  {}  {}\n", utc(e.time_ms), e.pool, e.class, e.text);
    events.iter().map(line).collect()
}

fn events(ask: &Ask, pool: Option<String>, follow: bool) -> Result<String> {
    let mut request = ListEvents { pool, after: 0 };
    if !follow {
        return ask.show(&request, |e| shown(e));
    }
    loop {
        let events = ask.client.ask(&request)?;
        for event in &events {
            let line = ask.line(event, |e| shown(std::slice::from_ref(e)))?;
            crate::ask::print(&line)?;
            request.after = event.sequence;
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
}

/// `[POOL] [INTERVAL [COUNT]]`.
fn interval(words: &[String]) -> (Option<&str>, Option<f64>, Option<u64>) {
    let is_number = |w: &&String| w.parse::<f64>().is_ok();
    let (pool, numbers) = match words.first() {
        Some(first) if !is_number(&first) => (Some(first.as_str()), &words[1..]),
        _ => (None, words),
    };
    let seconds = numbers.first().map(|w| w.parse::<f64>());
    let count = numbers.get(1).map(|w| w.parse::<u64>());
    match (seconds, count, numbers.len()) {
        (Some(Err(_)), ..) | (_, Some(Err(_) | Ok(0)), _) | (.., 3..) => {
            usage("usage: iostat [POOL] [INTERVAL [COUNT]]")
        }
        (Some(Ok(s)), ..) if !(0.01..=86_400.0).contains(&s) => {
            usage("the interval must be 0.01 to 86400 seconds")
        }
        (seconds, count, _) => (
            pool,
            seconds.and_then(std::result::Result::ok),
            count.and_then(std::result::Result::ok),
        ),
    }
}

fn iostat(ask: &Ask, words: &[String], verbose: bool) -> Result<String> {
    let look = |pool: Option<&str>| {
        let pools = ask.client.ask(&ListPools {})?;
        chosen(pools, pool, |p| &p.name)
    };
    let part = |before: Option<&Vec<Pool>>, now: &Vec<Pool>, time| match before {
        None => Iostat::since_open(now),
        Some(before) => Iostat::between(before, now, time),
    };
    repeat(ask, words, look, part, |i| i.text(verbose))
}

/// `pool iostat -w`.
fn written(ask: &Ask, words: &[String]) -> Result<String> {
    let look = |pool: Option<&str>| {
        let writes = ask.client.ask(&ListWrites {})?;
        let pools = chosen(writes.pools, pool, |p| &p.name)?;
        Ok(Writes { pools, ..writes })
    };
    let part = |before: Option<&Writes>, now: &Writes, _| WriteReport::of(before, now);
    repeat(ask, words, look, part, WriteReport::text)
}

/// The pools, or the one of this name. Errors: there is none of this name.
fn chosen<T>(mut pools: Vec<T>, name: Option<&str>, name_of: fn(&T) -> &String) -> Result<Vec<T>> {
    if let Some(name) = name {
        pools.retain(|p| name_of(p) == name);
        if pools.is_empty() {
            bail!("no such pool {name:?}: see `wirepool pool list`");
        }
    }
    Ok(pools)
}

/// Prints what is so far, then each interval: `[POOL] [INTERVAL [COUNT]]`.
fn repeat<R, T: Serialize>(
    ask: &Ask,
    words: &[String],
    look: impl Fn(Option<&str>) -> Result<R>,
    part: impl Fn(Option<&R>, &R, Duration) -> T,
    text: impl Fn(&T) -> String,
) -> Result<String> {
    let (pool, seconds, count) = interval(words);
    let mut before = look(pool)?;
    let first = part(None, &before, Duration::ZERO);
    let Some(seconds) = seconds else {
        return ask.print(&first, &text);
    };
    crate::ask::print(&ask.line(&first, &text)?)?;
    for _ in 1..count.unwrap_or(u64::MAX) {
        let began = std::time::Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let now = look(pool)?;
        let next = part(Some(&before), &now, began.elapsed());
        crate::ask::print(&ask.line(&next, &text)?)?;
        before = now;
    }
    Ok(String::new())
}

/// `wirepool get`.
pub(crate) fn get(ask: &Ask, properties: &str, names: Vec<String>) -> Result<String> {
    let all = properties == "all";
    let properties = properties.split(',').map(str::to_owned);
    let call = GetProperties {
        names,
        properties: properties.filter(|_| !all).collect(),
    };
    ask.show(&call, |p| values(p))
}

/// `wirepool set`.
pub(crate) fn set(ask: &Ask, assignments: &[String], name: &str) -> Result<String> {
    let call = |assignment: &String| {
        let Some((property, value)) = assignment.split_once('=') else {
            usage("missing value: use PROPERTY=VALUE, such as sync=always");
        };
        SetProperty {
            name: name.to_owned(),
            property: property.to_owned(),
            value: value.to_owned(),
        }
    };
    // a mistake is found before the first change
    let calls: Vec<SetProperty> = assignments.iter().map(call).collect();
    if let [call] = &calls[..] {
        return ask.show(call, |p| values(std::slice::from_ref(p)));
    }
    let set = calls.iter().map(|call| ask.client.ask(call));
    let set: Vec<Property> = set.collect::<Result<_>>()?;
    ask.print(&set, |set| values(set))
}

/// `wirepool inherit`.
pub(crate) fn inherit(ask: &Ask, call: &InheritProperty) -> Result<String> {
    ask.show(call, |p| values(std::slice::from_ref(p)))
}

/// The origin of a value, in the words of `zfs`.
fn source(property: &Property) -> String {
    let above = property.inherited_from.as_deref().unwrap_or("-");
    match property.source {
        PropertySource::Local => "local".into(),
        PropertySource::Inherited => format!("inherited from {above}"),
        PropertySource::Received => "received".into(),
        PropertySource::Default => "default".into(),
        PropertySource::None => "-".into(),
    }
}

fn values(properties: &[Property]) -> String {
    let value = |p: &Property| match (p.is_size, p.property.as_str(), p.value.parse::<u64>()) {
        (true, _, Ok(bytes)) => ByteSize(bytes).human(),
        (_, "creation", Ok(ms)) => utc(ms),
        (_, "capacity", Ok(percent)) => format!("{percent}%"),
        _ => p.value.clone(),
    };
    let table = rows(properties)
        .left("NAME", |p| p.name.clone())
        .left("PROPERTY", |p| p.property.clone())
        .left("VALUE", value)
        .left("SOURCE", source)
        .text();
    let warned = properties
        .iter()
        .filter_map(|p| Some((p, p.warning.as_ref()?)));
    let warnings = warned.map(|(p, warning)| format!("warning: {}: {warning}\n", p.name));
    table + &warnings.collect::<String>()
}
