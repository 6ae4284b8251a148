//! Damage of a pool: unreadable ranges of volumes and files, as shown to people.
//!
//! **Owns** the shown list, and the list that is stored for a restart. **Called by** the control API, scrubs, and the
//! pool's supervisor. **Invariants**: a shown range was held by a dataset at the last check; the stored list is at
//! most one round of the supervisor old, so that a crash loses only newer entries, until they are found again.

use super::entry::{ShownDamage, full_name};
use super::notes::Notes;
use crate::api;
use crate::server::Server;
use pool::{LostBlock, Pool};

fn to_hex(block: &LostBlock) -> String {
    block.encode().iter().map(|b| format!("{b:02x}")).collect()
}

fn of_hex(text: &str) -> Option<LostBlock> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    LostBlock::decode(&bytes?)
}

/// Passes the stored list to a pool that was just opened.
pub(super) fn remember(pool: &Pool, notes: &Notes) {
    let kept = notes.kept().lost;
    pool.remember_lost(kept.iter().filter_map(|text| of_hex(text)));
}

fn shown(name: &str, damage: pool::Damage) -> api::Damage {
    let objects = damage.objects;
    let len = damage.start.zip(damage.end).map(|(start, end)| end - start);
    api::Damage {
        dataset: damage
            .dataset
            .map_or(name.to_owned(), |dataset| full_name(name, &dataset)),
        path: objects.as_ref().and_then(|o| o.path.clone()),
        first_object: objects.as_ref().map(|o| o.first),
        end_object: objects.as_ref().map(|o| o.end),
        offset: damage.start,
        len,
    }
}

impl Server {
    /// The pools with their present damage.
    pub async fn pools_now(&self) -> Vec<api::Pool> {
        let names = self.state.borrow().pools.names();
        for name in names {
            if let (Some(pool), Ok(notes)) = (self.open_pool(&name), self.notes_of(&name)) {
                self.look_for_damage(&name, &pool, &notes).await;
            }
        }
        self.pools()
    }

    /// Computes, shows and stores the unreadable ranges.
    pub(super) async fn look_for_damage(&self, name: &str, pool: &Pool, notes: &Notes) {
        let found = pool.damages().await;
        let now = ShownDamage {
            damage: found.ranges.into_iter().map(|d| shown(name, d)).collect(),
            more: found.more,
        };
        let before = {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.pools.get_mut(name) else {
                return;
            };
            std::mem::replace(&mut entry.damage, now.clone())
        };
        if now.damage.iter().any(|d| !before.damage.contains(d)) {
            let ranges = now.damage.len();
            let text = format!("{ranges} ranges cannot be read: see `wirepool pool status -v`");
            self.event(name, "pool.damage", text);
        }
        let lost: Vec<String> = pool.lost_blocks().iter().map(to_hex).collect();
        if notes.kept().lost != lost {
            let noted = notes.change(|k| k.lost.clone_from(&lost)).await;
            if let Err(error) = noted {
                tracing::warn!(pool = name, %error, "the list of damage could not be saved");
            }
        }
    }
}
