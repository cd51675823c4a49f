//! The newest checks of a project, and the differences between two polls.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId},
    product::Product,
};

use super::MAX_NEWEST_CHECKS;

/// A created or changed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckUpdate {
    pub check: Arc<AnyCheck>,
    pub is_new: bool,
}

/// The newest checks of each product, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct NewestChecks(BTreeMap<Product, Vec<Arc<AnyCheck>>>);

impl NewestChecks {
    pub(super) fn add(&mut self, product: Product, checks: Vec<AnyCheck>) {
        self.0.insert(product, checks.into_iter().map(Arc::new).collect());
    }

    /// The most recently changed checks of all products, latest first.
    pub(super) fn most_recently_changed(&self) -> Vec<Arc<AnyCheck>> {
        let mut all: Vec<_> = self.0.values().flatten().cloned().collect();
        all.sort_by_key(|check| Reverse(change_order(check)));
        all.truncate(usize::try_from(MAX_NEWEST_CHECKS).unwrap_or(usize::MAX));
        all
    }

    /// The checks created or changed since `before`, in the order of their changes.
    pub(super) fn updates_since(&self, before: &NewestChecks) -> Vec<CheckUpdate> {
        let mut updates: Vec<_> = self
            .0
            .iter()
            // Existing checks of a product that was just enabled are not updates.
            .filter_map(|(product, checks)| Some((before.0.get(product)?, checks)))
            .flat_map(|(before, checks)| checks.iter().filter_map(|check| diff_check(before, check)))
            .collect();
        updates.sort_by_key(|update| change_order(&update.check));
        updates
    }
}

fn diff_check(before: &[Arc<AnyCheck>], check: &Arc<AnyCheck>) -> Option<CheckUpdate> {
    let previous = before.iter().find(|previous| previous.id == check.id);
    let is_unchanged = previous.is_some_and(|old| old.state == check.state && old.network == check.network);
    (!is_unchanged).then(|| CheckUpdate { check: Arc::clone(check), is_new: previous.is_none() })
}

/// Time of the last change, with the id to break ties.
fn change_order(check: &AnyCheck) -> (Timestamp, CheckId) {
    (check.updated_at().unwrap_or(check.created_at), check.id)
}
