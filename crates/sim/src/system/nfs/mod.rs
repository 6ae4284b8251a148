//! The clients of scenarios `nfs` and `nfs_rdma`: machines that use files of the export.
//!
//! **Owns** the jobs of a machine. **Called by** the course of a run.
//! Each machine reads and writes one file that all of them use, which the model of a disk judges ([`mod@file`]); it creates, renames
//! and removes names of its own ([`names`]); and it locks ranges that all of them want ([`locks`]).

mod expectations;
mod file;
mod lock_job;
mod locks;
mod mount;
mod name_job;
mod names;

pub(super) use expectations::Expectations;

use super::client::{LAST_HOST, VERIFY_BLOCKS, Wants, run_jobs};
use super::plan::ClientPlan;
use crate::workload::verify_all;
use expectations::To;
use file::RemoteFile;
use io::rng::Prng;
use io::spawn;
use mount::SimMount;
use std::rc::Rc;

/// Runs a machine from its start to its end.
pub(super) async fn work(who: usize, to: To, plan: ClientPlan, share: Rc<Expectations>, seed: u64) {
    let mut rng = Prng::new(seed);
    let mounted = Rc::new(SimMount::new(who, to, &plan.wants, share.clone()));
    let expected = plan.profile.expected;
    let naming = name_job::Naming {
        who,
        mounted: mounted.clone(),
        rng: Prng::new(rng.u64()),
        expected,
    };
    let locking = lock_job::Locking {
        who,
        mounted: mounted.clone(),
        rng: Prng::new(rng.u64()),
        expected,
    };
    let others = [spawn(naming.run()), spawn(locking.run())];
    let file = RemoteFile::new(mounted);
    run_jobs(file, plan, share.model.clone(), rng.u64()).await;
    for other in others {
        other.await;
    }
}

/// Reads the whole file and lists all names, when all other clients have ended.
pub(super) async fn last_look(to: To, share: Rc<Expectations>) {
    let mounted = SimMount::new(LAST_HOST, to, &Wants::default(), share.clone());
    let mounted = Rc::new(mounted);
    let file = RemoteFile::new(mounted.clone());
    verify_all(&file, &share.model, VERIFY_BLOCKS).await;
    for who in 0..share.names.len() {
        let listed = name_job::list(&mounted, who).await;
        if let Err(e) = listed {
            share.blame(format!("without faults, listing failed: {e}"));
        }
    }
}
