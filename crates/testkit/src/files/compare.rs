//! Comparison of two file systems.
//!
//! **Owns** [`compare`]. **Called by** tests of a file system, with another one as the model. **Invariants**: both get the same
//! operations in the same order; every result and, at the end, the whole tree must be equal.

use std::collections::VecDeque;
use std::sync::Arc;

use backend::file::FileBackend;

use super::bed::Bed;
use super::operations::Operation;
use super::side::Side;

/// Directory of the comparison.
const HOME: &str = "compared";

/// Applies operations to two file systems, in a new directory of each. Panics at the first result that differs, and if the
/// trees differ at the end. Times, handles, cookies, sizes of directories and the space of data are not compared.
pub async fn compare(a: Arc<dyn FileBackend>, b: Arc<dyn FileBackend>, operations: &[Operation]) {
    assert_eq!(a.limits().has_acls, b.limits().has_acls);
    let mut a = Side::new(Bed::new(a, HOME).await).await;
    let mut b = Side::new(Bed::new(b, HOME).await).await;
    for (i, operation) in operations.iter().enumerate() {
        let results = (a.apply(operation).await, b.apply(operation).await);
        let context = || format!("operation {i}: {operation:?}");
        assert!(results.0 == results.1, "{}\n{results:#?}", context());
    }
    let mut open: VecDeque<_> = VecDeque::from([(a.home(), b.home())]);
    open.extend(a.held().into_iter().zip(b.held()));
    while let Some((left, right)) = open.pop_front() {
        let (facts_a, below_a) = a.describe(left).await;
        let (facts_b, below_b) = b.describe(right).await;
        assert!(
            facts_a == facts_b,
            "at the end:\n{facts_a:#?}\n{facts_b:#?}"
        );
        open.extend(below_a.into_iter().zip(below_b));
    }
}
