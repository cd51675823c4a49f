//! Following the checks of a product: what is new or has changed since the last look.
//!
//! The newest page is looked at, and further ones only until one meets what was seen before, so that a look costs the
//! same however many checks there are. Checks that are still open and have moved out of sight are looked at one by one.

use std::collections::HashMap;

use ringtrue_domain::product::{Product, Scope};
use serde_json::Value;

use super::{
    checks::{check, path},
    list::page,
    session::Session,
};
use crate::cli::failure::Failure;

/// How many of the newest checks are looked at, at once.
const LOOKED_AT: u32 = 100;
/// After a long time without a look.
const MOST_PAGES: u32 = 50;
/// Of those that have moved out of sight.
const MOST_SINGLE_LOOKS: usize = 50;

#[derive(Debug)]
pub(super) struct Follower {
    pub product: Product,
    search: Option<String>,
    /// States by check id. `None` before the first look.
    seen: Option<HashMap<String, String>>,
}

impl Follower {
    pub(super) fn new(product: Product, search: Option<String>) -> Self {
        Follower { product, search, seen: None }
    }

    /// What is new or has changed, oldest first. The first look finds nothing: it is what later ones are compared with.
    pub(super) async fn look(&mut self, session: &Session) -> Result<Vec<Value>, Failure> {
        let newest = self.newest(session).await?;
        let mut states: HashMap<String, String> = newest.iter().map(|check| (id_of(check), status_of(check))).collect();
        let Some(seen) = &self.seen else {
            self.seen = Some(states);
            return Ok(vec![]);
        };
        let mut changed = vec![];
        let out_of_sight = seen.iter().filter(|(id, status)| is_open(status) && !states.contains_key(*id));
        let mut still_known = vec![];
        for (place, (id, status)) in out_of_sight.enumerate() {
            if place >= MOST_SINGLE_LOOKS {
                still_known.push((id.clone(), status.clone()));
                continue;
            }
            match check(session, self.product, id).await {
                Ok(check) => {
                    let now = status_of(&check);
                    still_known.push((id.clone(), now.clone()));
                    if now != *status {
                        changed.push(check);
                    }
                }
                // It is gone.
                Err(Failure::Problem(problem)) if problem.status == 404 => {}
                Err(other) => return Err(other),
            }
        }
        changed.extend(newest.into_iter().rev().filter(|check| seen.get(&id_of(check)) != Some(&status_of(check))));
        states.extend(still_known);
        self.seen = Some(states);
        Ok(changed)
    }

    async fn newest(&self, session: &Session) -> Result<Vec<Value>, Failure> {
        let scope = Scope::Product(self.product);
        let mut newest: Vec<Value> = vec![];
        for number in 1..=MOST_PAGES {
            let next = page(session, scope, path(self.product), self.search.as_deref(), LOOKED_AT, number).await?;
            let is_full = u32::try_from(next.content.len()) == Ok(LOOKED_AT);
            let meets =
                |seen: &HashMap<String, String>| next.content.iter().any(|check| seen.contains_key(&id_of(check)));
            let is_enough = !is_full || self.seen.as_ref().is_none_or(meets);
            // What is created meanwhile moves others to the next page, where they come again.
            for check in next.content {
                if newest.iter().rev().take(LOOKED_AT as usize).all(|earlier| id_of(earlier) != id_of(&check)) {
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
