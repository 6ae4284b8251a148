//! Warnings about pools, for status and console.
//!
//! **Called by** the control API. **Invariants**: read-only; a warning names the command that helps.

use crate::api::{self, DiskState, Health, SpareState};
use crate::server::Holdings;
use crate::size::ByteSize;
use crate::word::word;

impl Holdings {
    pub(crate) fn pool_warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        for p in self.pools() {
            if let Some(reason) = &p.reason {
                let what = match p.state {
                    DiskState::Online => "takes no writes",
                    _ => "is held back",
                };
                out.push(format!("the pool {:?} {what}: {reason}", p.name));
            }
            if p.health.is_some_and(|h| h != Health::Online) {
                let word = word(p.health.unwrap_or(Health::Degraded));
                out.push(format!(
                    "the pool {:?} is {word}: `wirepool pool status -v`",
                    p.name
                ));
            }
            out.extend(spare_warnings(&p));
            out.extend(class_warnings(&p));
        }
        out
    }
}

/// What a pool's spares ask the operator to do.
fn spare_warnings(p: &api::Pool) -> Vec<String> {
    let mut out = Vec::new();
    for spare in &p.spares {
        if let Some(which) = &spare.instead_of {
            let path = spare.path.as_ref().map(|path| path.display().to_string());
            out.push(format!(
                "the pool {0:?}: the spare {1} stands in for {which}: `wirepool pool replace {0} {which} NEW` puts a new disk there, \
                 `wirepool pool detach {0} {which}` keeps the spare",
                p.name,
                path.unwrap_or(spare.guid.clone()),
            ));
        }
    }
    let is_left = |s: &api::Spare| s.state == SpareState::Avail;
    if !p.spares.is_empty() && !p.spares.iter().any(is_left) {
        out.push(format!(
            "the pool {0:?} has no spare left: `wirepool pool add {0} spare DISK` adds one",
            p.name
        ));
    }
    out
}

/// Classes of a pool's devices that need more room, or a device.
fn class_warnings(p: &api::Pool) -> Vec<String> {
    let mut out = Vec::new();
    let full = p.special.as_ref().filter(|s| !s.takes_small_records);
    if let Some(spilled) = full
        .map(api::SpecialClass::spilled_bytes)
        .filter(|n| *n > 0)
    {
        out.push(format!(
            "the pool {0:?}: its special class has no room, {1} went to the other vdevs: `wirepool pool add {0} special mirror DISK DISK`",
            p.name,
            ByteSize(spilled).human()
        ));
    }
    for cache in p.caches.iter().filter(|c| !c.guid.is_empty()) {
        if let Some(reason) = &cache.reason {
            out.push(format!(
                "the pool {0:?}: the cache device {1} is not used: {reason}; `wirepool pool remove {0} {1}`, and add one",
                p.name,
                cache.path.display()
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Cache, Pool, SpecialClass};

    #[test]
    fn classes_warn_if_they_had_no_room_or_lack_a_device() {
        let text = r#"{"name":"tank","guid":"","state":"online","disks":[],"size":0,"used":0,"freeing":0,"free":0,"reserved":0,
            "dirty":0,"vdevs":[]}"#;
        let pool: Pool = serde_json::from_str(text).expect("a pool");
        let warned = |takes_small_records, spilled_of_pool, reason: Option<&str>| {
            class_warnings(&Pool {
                special: Some(SpecialClass {
                    takes_small_records,
                    spilled_of_pool,
                    ..SpecialClass::default()
                }),
                caches: vec![Cache {
                    guid: "1".into(),
                    path: "/dev/fast".into(),
                    reason: reason.map(str::to_owned),
                    ..Cache::default()
                }],
                ..pool.clone()
            })
        };
        let none: [String; 0] = [];
        assert_eq!(warned(true, 4096, None), none, "it has room again");
        assert_eq!(warned(false, 0, None), none, "nothing went elsewhere");
        let full = warned(false, 3 << 20, None);
        assert!(
            full.len() == 1 && full[0].contains("3 MiB went to"),
            "{full:?}"
        );
        let out = warned(true, 0, Some("it did not answer"));
        assert!(
            out.len() == 1 && out[0].contains("/dev/fast is not used: it did not answer"),
            "{out:?}"
        );
    }
}
