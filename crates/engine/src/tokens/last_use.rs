//! Tracks when credentials were last used, to the minute. Requests record the use in memory, and housekeeping writes it
//! to the database in batches.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use ringtrue_domain::tenancy::ClientId;

use crate::control_plane::ConcurrentMap;

#[derive(Debug, Default)]
pub(super) struct LastUseTracker(ConcurrentMap<ClientId, LastUse>);

/// Last use of a credential. Both fields are Unix times in minutes.
#[derive(Debug)]
struct LastUse {
    used: AtomicI64,
    /// The last use that was written to the database.
    stored: AtomicI64,
}

impl LastUseTracker {
    pub(super) fn record(&self, client_id: &ClientId, now: Timestamp) {
        let minute = now.as_second().div_euclid(60);
        let uses = self.0.pin();
        if let Some(last) = uses.get(client_id) {
            // In most calls the minute is already recorded, and reading alone avoids contention between threads.
            if last.used.load(Ordering::Relaxed) < minute {
                last.used.fetch_max(minute, Ordering::Relaxed);
            }
        } else {
            uses.insert(client_id.clone(), LastUse { used: minute.into(), stored: i64::MIN.into() });
        }
    }

    pub(super) fn unstored(&self) -> Vec<(ClientId, Timestamp)> {
        let pinned = self.0.pin();
        let unstored = pinned.iter().filter_map(|(client_id, last)| {
            let minute = last.used.load(Ordering::Relaxed);
            let at = Timestamp::from_second(minute.saturating_mul(60)).ok()?;
            (last.stored.load(Ordering::Relaxed) < minute).then(|| (client_id.clone(), at))
        });
        unstored.collect()
    }

    pub(super) fn mark_stored(&self, stored: &[(ClientId, Timestamp)]) {
        let uses = self.0.pin();
        for (client_id, at) in stored {
            if let Some(last) = uses.get(client_id) {
                last.stored.fetch_max(at.as_second().div_euclid(60), Ordering::Relaxed);
            }
        }
    }

    /// Removes credentials that were not used in the last hour and whose last use is stored, to bound memory. Deleted
    /// credentials are removed in this way too.
    pub(super) fn evict_idle(&self, now: Timestamp) {
        const IDLE_MINUTES: i64 = 60;
        let limit = now.as_second().div_euclid(60) - IDLE_MINUTES;
        self.0.pin().retain(|_, last| {
            let used = last.used.load(Ordering::Relaxed);
            used >= limit || last.stored.load(Ordering::Relaxed) < used
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_use_is_stored_once_a_minute() {
        let (uses, client_id) = (LastUseTracker::default(), "prj_a".parse::<ClientId>().unwrap());
        let at = |second| Timestamp::from_second(second).unwrap();
        uses.record(&client_id, at(119));
        uses.record(&client_id, at(61));
        assert_eq!(uses.unstored(), [(client_id.clone(), at(60))]);
        uses.mark_stored(&uses.unstored());
        uses.record(&client_id, at(100));
        assert_eq!(uses.unstored(), []);
        uses.record(&client_id, at(120));
        assert_eq!(uses.unstored(), [(client_id, at(120))]);

        uses.evict_idle(at(100_000));
        assert_eq!(uses.unstored().len(), 1, "an unstored use is not evicted");
        uses.mark_stored(&uses.unstored());
        uses.evict_idle(at(100_000));
        assert_eq!(uses.0.len(), 0);
    }
}
