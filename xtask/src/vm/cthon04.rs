//! The Connectathon suite, cthon04, in a guest in which a server runs too.
//!
//! **Owns** the suite's commit. **Called by** `vm`. **Invariants**: cthon04 is not part of this repository: a directory that
//! `WIREPOOL_CTHON04` names has it, built for this host's Debian release, at one commit; the guest works on a copy.

use super::{Check, Outcome, inside, log_of, script, server, watch};
use crate::checkout::Checkout;
use anyhow::Result;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// The commit that `conformance/nfs.md` names.
const CHECKOUT: Checkout = Checkout {
    name: "cthon04",
    variable: "WIREPOOL_CTHON04",
    commit: "3857ed3cb1e2292065d6a7f6623b0fa2398eaaa7",
    made: &["basic/test1", "special/op_unlk", "lock/tlock64"],
};

/// Why it cannot run here, if so.
pub(super) fn obstacle() -> Option<String> {
    let variable = CHECKOUT.variable;
    let unset = || format!("{variable} is not set: cthon04 has not judged NFS over RDMA");
    (!CHECKOUT.is_available()).then(unset)
}

/// Runs the guest, with the checkout as its second share.
pub(super) fn run(check: &'static Check, dir: &Path) -> Result<Outcome> {
    let place = CHECKOUT.place()?;
    let share = inside::share(dir, &[&server::binary()?])?;
    let mut command = inside::guest_with_server(check, &share);
    command.arg("--share").arg(place).arg(script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}
