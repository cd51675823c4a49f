//! The newest checks of a project, and what is new in them.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId},
    product::Product,
};

use super::NEWEST;

/// A check that came, or that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub check: Arc<AnyCheck>,
    pub is_new: bool,
}

/// By product, the newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest(BTreeMap<Product, Vec<Arc<AnyCheck>>>);

impl Newest {
    pub(super) fn add(&mut self, product: Product, checks: Vec<AnyCheck>) {
        self.0.insert(product, checks.into_iter().map(Arc::new).collect());
    }

    /// Of all products, what changed last first, as many as a window shows.
    pub(super) fn by_change(&self) -> Vec<Arc<AnyCheck>> {
        let mut all: Vec<_> = self.0.values().flatten().cloned().collect();
        all.sort_by_key(|check| Reverse(place(check)));
        all.truncate(usize::try_from(NEWEST).unwrap_or(usize::MAX));
        all
    }

    /// What has come or changed since, in the order in which it did.
    pub(super) fn since(&self, before: &Newest) -> Vec<News> {
        let mut news: Vec<_> = self
            .0
            .iter()
            // The checks of a product that was switched on just now are not new for that.
            .filter_map(|(product, checks)| Some((before.0.get(product)?, checks)))
            .flat_map(|(before, checks)| checks.iter().filter_map(|check| news_of(before, check)))
            .collect();
        news.sort_by_key(|news| place(&news.check));
        news
    }
}

fn news_of(before: &[Arc<AnyCheck>], check: &Arc<AnyCheck>) -> Option<News> {
    let known = before.iter().find(|known| known.id == check.id);
    let is_as_before = known.is_some_and(|known| known.state == check.state && known.network == check.network);
    (!is_as_before).then(|| News { check: Arc::clone(check), is_new: known.is_none() })
}

/// When a check changed last; which one, where two did at once.
fn place(check: &AnyCheck) -> (Timestamp, CheckId) {
    (check.updated_at().unwrap_or(check.created_at), check.id)
}
