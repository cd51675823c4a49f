//! How many checks this node has begun and ended since it started, for those who watch over it.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtrue_domain::{
    lifecycle::{Check, Status, Verdict},
    product::Product,
};

/// How checks end, as metrics name it.
const ENDS: [&str; 4] = ["match", "no_match", "expired", "error"];

#[derive(Debug, Default)]
pub(super) struct Totals([OfProduct; Product::ALL.len()]);

#[derive(Debug, Default)]
struct OfProduct {
    created: AtomicU64,
    ended: [AtomicU64; ENDS.len()],
}

/// The checks of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub product: Product,
    pub created: u64,
    /// By how they ended.
    pub ended: [(&'static str, u64); ENDS.len()],
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
        if let Some(of_product) = self.of(check.product) {
            of_product.ended[end].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Vec<Total> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let total = |(product, of_product): (Product, &OfProduct)| Total {
            product,
            created: count(&of_product.created),
            ended: std::array::from_fn(|end| (ENDS[end], count(&of_product.ended[end]))),
        };
        Product::ALL.into_iter().zip(&self.0).map(total).collect()
    }

    fn of(&self, product: Product) -> Option<&OfProduct> {
        Product::ALL.into_iter().zip(&self.0).find_map(|(other, of_product)| (other == product).then_some(of_product))
    }
}
