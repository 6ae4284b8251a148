//! A rebuild of all members of a raidz, after which other members are weak.
//!
//! **Called by** scenario `files`, on pools whose members are all present. **Invariant**: members change their part only when all are
//! complete.

use super::plan::Plan;
use crate::churn::{self, gather};
use crate::model::Violation;
use io::rng::Prng;
use io::sim::remark;
use pool::Pool;
use pool::vdev::Layout;
use std::path::Path;
use std::rc::Rc;

/// Rebuilds all members, in half of the cases after a weak one was replaced. Then other members become weak.
pub(super) async fn rebuild(plan: Rc<Plan>, pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
    let Layout::Raidz { parity } = plan.layout else {
        return Ok(());
    };
    let mut rng = Prng::new(seed);
    if plan.spares > 0 && rng.chance(0.5) {
        let weak = plan.weak.disks().into_iter();
        let paths: Vec<_> = weak.map(|n| format!("disk{n}").into()).collect();
        churn::replace_one_of(&pool, &paths, &plan.names()).await?;
    }
    gather(&pool, &plan.names()).await?;
    let members = churn::paths(&pool);
    let is_member = |n: &usize| members.iter().any(|m| m == Path::new(&format!("disk{n}")));
    let members = (0..plan.disks + plan.spares).filter(is_member).collect();
    plan.weak.choose(members, parity.into(), &mut rng);
    remark(|| format!("rebuilt     weak now: {:?}", plan.weak.disks()));
    Ok(())
}
