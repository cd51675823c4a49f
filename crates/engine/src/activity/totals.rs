//! Checks created and concluded on this node since its start, by product, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtrue_domain::{
    activity::{ActivityCounts, LATENCY_BOUNDS_MILLIS},
    lifecycle::{Check, CheckStatus, Verdict},
    product::Product,
};

/// Values of the metrics' `outcome` label.
const OUTCOMES: [&str; 4] = ["match", "no_match", "expired", "error"];

#[derive(Debug, Default)]
pub(super) struct CheckTotals([ProductCounters; Product::ALL.len()]);

#[derive(Debug, Default)]
struct ProductCounters {
    created: AtomicU64,
    concluded: [AtomicU64; OUTCOMES.len()],
    duration_buckets: [AtomicU64; LATENCY_BOUNDS_MILLIS.len() + 1],
    duration_millis: AtomicU64,
}

/// The checks of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductTotals {
    pub product: Product,
    pub created: u64,
    /// Number of concluded checks by outcome.
    pub concluded: [(&'static str, u64); OUTCOMES.len()],
    /// Completed checks by duration, in the buckets of [`LATENCY_BOUNDS_MILLIS`] (not cumulative).
    pub duration_buckets: [u64; LATENCY_BOUNDS_MILLIS.len() + 1],
    pub duration_millis: u64,
}

impl CheckTotals {
    pub(super) fn add_created(&self, product: Product) {
        if let Some(counters) = self.product_counters(product) {
            counters.created.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn add_concluded<V: Verdict + Clone>(&self, check: &Check<V>) {
        let outcome = match check.status() {
            CheckStatus::Accepted | CheckStatus::Pending => return,
            CheckStatus::Completed if check.verdict().and_then(Verdict::matched) == Some(false) => 1,
            CheckStatus::Completed => 0,
            CheckStatus::Expired => 2,
            CheckStatus::Error => 3,
        };
        let Some(counters) = self.product_counters(check.product) else { return };
        counters.concluded[outcome].fetch_add(1, Ordering::Relaxed);
        if check.status() == CheckStatus::Completed {
            let millis = duration_millis(check);
            counters.duration_buckets[ActivityCounts::latency_bucket(millis)].fetch_add(1, Ordering::Relaxed);
            counters.duration_millis.fetch_add(millis.max(0).unsigned_abs(), Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> Vec<ProductTotals> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let total = |(product, counters): (Product, &ProductCounters)| ProductTotals {
            product,
            created: count(&counters.created),
            concluded: std::array::from_fn(|outcome| (OUTCOMES[outcome], count(&counters.concluded[outcome]))),
            duration_buckets: std::array::from_fn(|bucket| count(&counters.duration_buckets[bucket])),
            duration_millis: count(&counters.duration_millis),
        };
        Product::ALL.into_iter().zip(&self.0).map(total).collect()
    }

    fn product_counters(&self, product: Product) -> Option<&ProductCounters> {
        Product::ALL.into_iter().zip(&self.0).find_map(|(other, counters)| (other == product).then_some(counters))
    }
}

/// Time from the creation of a check to its conclusion.
pub(super) fn duration_millis<V: Clone>(check: &Check<V>) -> i64 {
    let concluded_at = check.updated_at().unwrap_or(check.created_at);
    concluded_at.as_millisecond() - check.created_at.as_millisecond()
}
