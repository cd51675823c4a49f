//! Polls the checks of a product for changes.
//!
//! Each poll reads the newest page, and further pages only until one contains a known check, so its cost does not
//! depend on the number of checks. Open checks that have moved beyond these pages are read one by one.

use std::collections::HashMap;

use ringtrue_domain::product::{Product, Scope};
use serde_json::Value;

use super::{
    api_session::ApiSession,
    checks::{checks_path, fetch_check},
    list::fetch_page,
};
use crate::cli::error::CliError;

const PAGE_SIZE: u32 = 100;
/// Bounds a poll after a long pause.
const MAX_PAGES: u32 = 50;
/// Bounds the reads of open checks beyond the newest pages.
const MAX_SINGLE_READS: usize = 50;

#[derive(Debug)]
pub(super) struct CheckFollower {
    pub product: Product,
    search: Option<String>,
    /// Status by check id. `None` before the first poll.
    seen: Option<HashMap<String, String>>,
}

impl CheckFollower {
    pub(super) fn new(product: Product, search: Option<String>) -> Self {
        CheckFollower { product, search, seen: None }
    }

    /// Returns new and changed checks, oldest first. The first poll returns nothing: it is the baseline.
    pub(super) async fn poll(&mut self, session: &ApiSession) -> Result<Vec<Value>, CliError> {
        let newest = self.fetch_newest(session).await?;
        let mut statuses: HashMap<String, String> =
            newest.iter().map(|check| (id_of(check), status_of(check))).collect();
        let Some(seen) = &self.seen else {
            self.seen = Some(statuses);
            return Ok(vec![]);
        };
        let mut changed = vec![];
        let beyond_pages = seen.iter().filter(|(id, status)| is_open(status) && !statuses.contains_key(*id));
        let mut statuses_beyond_pages = vec![];
        for (index, (id, status)) in beyond_pages.enumerate() {
            if index >= MAX_SINGLE_READS {
                statuses_beyond_pages.push((id.clone(), status.clone()));
                continue;
            }
            match fetch_check(session, self.product, id).await {
                Ok(check) => {
                    let now = status_of(&check);
                    statuses_beyond_pages.push((id.clone(), now.clone()));
                    if now != *status {
                        changed.push(check);
                    }
                }
                // Deleted.
                Err(CliError::Api(problem)) if problem.status == 404 => {}
                Err(other) => return Err(other),
            }
        }
        changed.extend(newest.into_iter().rev().filter(|check| seen.get(&id_of(check)) != Some(&status_of(check))));
        statuses.extend(statuses_beyond_pages);
        self.seen = Some(statuses);
        Ok(changed)
    }

    async fn fetch_newest(&self, session: &ApiSession) -> Result<Vec<Value>, CliError> {
        let scope = Scope::Product(self.product);
        let mut newest: Vec<Value> = vec![];
        for number in 1..=MAX_PAGES {
            let next = fetch_page(session, scope, checks_path(self.product), self.search.as_deref(), PAGE_SIZE, number)
                .await?;
            let is_full = u32::try_from(next.content.len()) == Ok(PAGE_SIZE);
            let contains_known =
                |seen: &HashMap<String, String>| next.content.iter().any(|check| seen.contains_key(&id_of(check)));
            let is_enough = !is_full || self.seen.as_ref().is_none_or(contains_known);
            // New checks shift others to the next page, which then repeats them.
            for check in next.content {
                if newest.iter().rev().take(PAGE_SIZE as usize).all(|earlier| id_of(earlier) != id_of(&check)) {
                    newest.push(check);
                }
            }
            if is_enough {
                break;
            }
        }
        Ok(newest)
    }
}

pub(super) fn status_of(check: &Value) -> String {
    check.get("status").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn id_of(check: &Value) -> String {
    check.get("check_id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_open(status: &str) -> bool {
    matches!(status, "ACCEPTED" | "PENDING")
}
