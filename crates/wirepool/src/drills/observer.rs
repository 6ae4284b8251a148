//! Observation of the server during a drill, by its control API.
//!
//! **Owns** a thread that asks for sessions and events, and the states of the pool before and after. **Called by** drills.
//! **Invariants**: it only reads; a server that does not answer is an event, not an error.

use super::mark::Mark;
use crate::client::Client;
use anyhow::Result;
use drill::{Layer, LayerFacts, Timeline};
use server::api::{ListEvents, ListPools, ListSessions, Member, Pool, SessionSummary};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of the requests.
const INTERVAL: Duration = Duration::from_millis(200);

/// The observer of one drill.
pub(super) struct Observer {
    client: Arc<Client>,
    pool: String,
    before: Option<Pool>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Sessions of the drill's host.
#[derive(Default)]
struct Seen {
    now: BTreeMap<u32, SessionSummary>,
    count: u64,
    commands: u64,
    errors: u64,
    retransmits: u64,
    reconnects: u64,
    events: u64,
}

impl Observer {
    /// Starts the thread. Errors: the server does not answer, or no thread can be started.
    pub(super) fn start(
        client: &Arc<Client>,
        pool: &str,
        mark: Mark,
        timeline: Arc<Timeline>,
    ) -> Result<Observer> {
        let before = find(client, pool);
        let events = client.ask(&ListEvents {
            pool: Some(pool.to_owned()),
            after: 0,
        })?;
        let watch = Watch {
            client: client.clone(),
            pool: pool.to_owned(),
            host: mark.host(),
            timeline,
            after: events.last().map_or(0, |e| e.sequence),
            is_answering: true,
            seen: Seen::default(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("observer".into())
            .spawn(move || watch.run(&stopped))?;
        Ok(Observer {
            client: client.clone(),
            pool: pool.to_owned(),
            before,
            stop,
            thread,
        })
    }

    /// Ends the thread. Returns the observations of session, pool and devices.
    pub(super) fn finish(self) -> Vec<LayerFacts> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().unwrap_or_default();
        let events = seen.events;
        let after = find(&self.client, &self.pool);
        let mut layers = vec![LayerFacts {
            layer: Layer::Session,
            facts: seen.facts(),
        }];
        let (Some(before), Some(after)) = (self.before, after) else {
            let facts = vec![format!("the state of {} could not be read", self.pool)];
            layers.push(LayerFacts {
                layer: Layer::Pool,
                facts,
            });
            return layers;
        };
        layers.push(LayerFacts {
            layer: Layer::Pool,
            facts: pool_facts(&before, &after, events),
        });
        layers.push(LayerFacts {
            layer: Layer::Device,
            facts: device_facts(&before, &after),
        });
        layers
    }
}

fn find(client: &Client, pool: &str) -> Option<Pool> {
    let pools: Vec<Pool> = client.ask(&ListPools {}).ok()?;
    pools.into_iter().find(|p| p.name == pool)
}

impl Seen {
    fn ended(&mut self, session: &SessionSummary) {
        self.commands += session.commands;
        self.errors += session.errors;
        self.retransmits += session.retransmits;
        self.reconnects = self.reconnects.max(session.reconnects);
    }

    fn facts(mut self) -> Vec<String> {
        for session in std::mem::take(&mut self.now).into_values() {
            self.ended(&session);
        }
        vec![
            format!(
                "{} sessions of the drill's host were seen; the server counts {} reconnects of it",
                self.count, self.reconnects
            ),
            format!(
                "about {} commands, {} failed, {} TCP segments sent again (counts of the last look at each session)",
                self.commands, self.errors, self.retransmits
            ),
        ]
    }
}

struct Watch {
    client: Arc<Client>,
    pool: String,
    host: String,
    timeline: Arc<Timeline>,
    /// The last event that was noted.
    after: u64,
    is_answering: bool,
    seen: Seen,
}

impl Watch {
    fn run(mut self, stop: &AtomicBool) -> Seen {
        loop {
            // Read before the look, so that the last look comes after the end.
            let is_last = stop.load(Ordering::Relaxed);
            let is_answering = self.look().is_ok();
            if is_answering != self.is_answering {
                self.is_answering = is_answering;
                let text = match is_answering {
                    true => "the control socket answers again",
                    false => "the control socket does not answer",
                };
                self.timeline.note(Layer::Server, text);
                if is_answering {
                    // Events are counted from the start of a server.
                    self.after = 0;
                }
            }
            if is_last {
                return self.seen;
            }
            std::thread::sleep(INTERVAL);
        }
    }

    fn look(&mut self) -> Result<()> {
        let sessions: Vec<SessionSummary> = self.client.ask(&ListSessions {})?;
        self.sessions(sessions);
        let events = self.client.ask(&ListEvents {
            pool: Some(self.pool.clone()),
            after: self.after,
        })?;
        for event in events {
            self.after = self.after.max(event.sequence);
            self.seen.events += 1;
            let layer = match event.class.starts_with("member.") {
                true => Layer::Device,
                false => Layer::Pool,
            };
            self.timeline
                .note(layer, format!("{}: {}", event.class, event.text));
        }
        Ok(())
    }

    fn sessions(&mut self, sessions: Vec<SessionSummary>) {
        let ours = sessions.into_iter().filter(|s| s.client == self.host);
        let now: BTreeMap<u32, SessionSummary> = ours.map(|s| (s.id, s)).collect();
        let before = std::mem::take(&mut self.seen.now);
        let is_same =
            |old: &SessionSummary, new: &SessionSummary| old.connected_at_ms == new.connected_at_ms;
        for (id, old) in &before {
            if !now.get(id).is_some_and(|new| is_same(old, new)) {
                self.timeline
                    .note(Layer::Session, format!("session {id} is gone"));
                self.seen.ended(old);
            }
        }
        for (id, new) in &now {
            let old = before.get(id).filter(|old| is_same(old, new));
            match old {
                None => {
                    self.seen.count += 1;
                    let text = format!("session {id} from {}", peer(new));
                    self.timeline.note(Layer::Session, text);
                }
                Some(old) if old.state != new.state => {
                    let text = format!("session {id} is {}", new.state);
                    self.timeline.note(Layer::Session, text);
                }
                Some(_) => {}
            }
        }
        self.seen.now = now;
    }
}

fn peer(session: &SessionSummary) -> String {
    let peer = session.peer.map(|p| p.to_string());
    peer.unwrap_or_else(|| "an unknown address".into())
}

fn health(pool: &Pool) -> String {
    let health = pool.health.map(|h| format!("{h:?}").to_uppercase());
    health.unwrap_or_else(|| "not open".into())
}

fn pool_facts(before: &Pool, after: &Pool, events: u64) -> Vec<String> {
    let damage = match (after.damage.len(), after.more_damage) {
        (0, _) => "no unreadable range".to_owned(),
        (n, false) => format!("{n} unreadable ranges"),
        (n, true) => format!("more than {n} unreadable ranges"),
    };
    vec![format!(
        "{}: {} before, {} after; {events} events; {damage}",
        after.name,
        health(before),
        health(after)
    )]
}

fn device_facts(before: &Pool, after: &Pool) -> Vec<String> {
    let members = |pool: &Pool| -> Vec<Member> {
        let vdevs = pool.vdevs.iter();
        vdevs.flat_map(|v| v.members.clone()).collect()
    };
    let old = members(before);
    let facts = members(after).into_iter().map(|member| {
        // Counts begin again when the pool is opened.
        let was = old
            .iter()
            .find(|o| o.guid == member.guid && o.writes <= member.writes);
        let since = |of: fn(&Member) -> u64| of(&member).saturating_sub(was.map_or(0, of));
        let path = member.path.as_ref().or(member.was.as_ref());
        let path = path.map_or_else(|| member.guid.clone(), |p| p.display().to_string());
        format!(
            "{path}: {}, {} reads, {} writes, {} errors, {} repairs, longest flush {} µs",
            member.state,
            since(|s| s.reads),
            since(|s| s.writes),
            since(|s| s.read_errors + s.write_errors + s.checksum_errors),
            since(|s| s.repairs),
            member.flush_times.max_us
        )
    });
    facts.collect()
}
