//! Checks that this node has created and ended since it started, by product, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtrue_domain::{
    activity::{Counts, LATENCY_BOUNDS},
    lifecycle::{Check, Status, Verdict},
    product::Product,
};

/// How checks end, as metrics name it.
const OUTCOMES: [&str; 4] = ["match", "no_match", "expired", "error"];

#[derive(Debug, Default)]
pub(super) struct Totals([OfProduct; Product::ALL.len()]);

#[derive(Debug, Default)]
struct OfProduct {
    created: AtomicU64,
    ended: [AtomicU64; OUTCOMES.len()],
    durations: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    duration_millis: AtomicU64,
}

/// The checks of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub product: Product,
    pub created: u64,
    /// By outcome.
    pub ended: [(&'static str, u64); OUTCOMES.len()],
    /// Completed checks by how long they took, in the classes of [`LATENCY_BOUNDS`] (not cumulative).
    pub durations: [u64; LATENCY_BOUNDS.len() + 1],
    pub duration_millis: u64,
}

impl Totals {
    pub(super) fn created(&self, product: Product) {
        if let Some(of_product) = self.of(product) {
            of_product.created.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn ended<V: Verdict + Clone>(&self, check: &Check<V>) {
        let end = match check.status() {
            Status::Accepted | Status::Pending => return,
            Status::Completed if check.verdict().and_then(Verdict::matched) == Some(false) => 1,
            Status::Completed => 0,
            Status::Expired => 2,
            Status::Error => 3,
        };
        let Some(of_product) = self.of(check.product) else { return };
        of_product.ended[end].fetch_add(1, Ordering::Relaxed);
        if check.status() == Status::Completed {
            let millis = duration_millis(check);
            of_product.durations[Counts::bucket(millis)].fetch_add(1, Ordering::Relaxed);
            of_product.duration_millis.fetch_add(millis.max(0).unsigned_abs(), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Vec<Total> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let total = |(product, of_product): (Product, &OfProduct)| Total {
            product,
            created: count(&of_product.created),
            ended: std::array::from_fn(|end| (OUTCOMES[end], count(&of_product.ended[end]))),
            durations: std::array::from_fn(|class| count(&of_product.durations[class])),
            duration_millis: count(&of_product.duration_millis),
        };
        Product::ALL.into_iter().zip(&self.0).map(total).collect()
    }

    fn of(&self, product: Product) -> Option<&OfProduct> {
        Product::ALL.into_iter().zip(&self.0).find_map(|(other, of_product)| (other == product).then_some(of_product))
    }
}

/// Time from the creation of a check to its end.
pub(super) fn duration_millis<V: Clone>(check: &Check<V>) -> i64 {
    let ended_at = check.updated_at().unwrap_or(check.created_at);
    ended_at.as_millisecond() - check.created_at.as_millisecond()
}
