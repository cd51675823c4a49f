//! When credentials were last used, to the minute. Calls note it in memory; housekeeping writes it in batches, so that
//! no call waits for the database.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use ringtrue_domain::tenancy::ClientId;

use crate::{Engine, control_plane::Map, ports::StoreError};

#[derive(Debug, Default)]
pub(crate) struct CredentialUses(Map<ClientId, LastUse>);

/// In minutes since 1970.
#[derive(Debug)]
struct LastUse {
    used: AtomicI64,
    /// The latest use that the database has.
    stored: AtomicI64,
}

impl CredentialUses {
    pub(crate) fn note(&self, client_id: &ClientId, now: Timestamp) {
        let minute = now.as_second().div_euclid(60);
        let uses = self.0.pin();
        if let Some(last) = uses.get(client_id) {
            // Nearly every call only reads: threads that write would wait for each other.
            if last.used.load(Ordering::Relaxed) < minute {
                last.used.fetch_max(minute, Ordering::Relaxed);
            }
        } else {
            uses.insert(client_id.clone(), LastUse { used: minute.into(), stored: i64::MIN.into() });
        }
    }

    fn to_store(&self) -> Vec<(ClientId, Timestamp)> {
        let pinned = self.0.pin();
        let unstored = pinned.iter().filter_map(|(client_id, last)| {
            let minute = last.used.load(Ordering::Relaxed);
            let at = Timestamp::from_second(minute.saturating_mul(60)).ok()?;
            (last.stored.load(Ordering::Relaxed) < minute).then(|| (client_id.clone(), at))
        });
        unstored.collect()
    }

    fn mark_stored(&self, stored: &[(ClientId, Timestamp)]) {
        let uses = self.0.pin();
        for (client_id, at) in stored {
            if let Some(last) = uses.get(client_id) {
                last.stored.fetch_max(at.as_second().div_euclid(60), Ordering::Relaxed);
            }
        }
    }

    /// Forgets credentials that are idle, so that deleted ones do not stay.
    fn forget_before(&self, now: Timestamp) {
        const IDLE_MINUTES: i64 = 60;
        let limit = now.as_second().div_euclid(60) - IDLE_MINUTES;
        self.0.pin().retain(|_, last| {
            let used = last.used.load(Ordering::Relaxed);
            used >= limit || last.stored.load(Ordering::Relaxed) < used
        });
    }
}

impl Engine {
    /// Writes when credentials were last used on this node.
    pub async fn store_credential_uses(&self) -> Result<(), StoreError> {
        let uses = self.credential_uses();
        let unstored = uses.to_store();
        if !unstored.is_empty() {
            self.store().record_credential_uses(&unstored).await?;
            uses.mark_stored(&unstored);
        }
        uses.forget_before(self.clock().now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_stored_once_a_minute() {
        let (uses, client_id) = (CredentialUses::default(), "prj_a".parse::<ClientId>().unwrap());
        let at = |second| Timestamp::from_second(second).unwrap();
        uses.note(&client_id, at(119));
        uses.note(&client_id, at(61));
        assert_eq!(uses.to_store(), [(client_id.clone(), at(60))]);
        uses.mark_stored(&uses.to_store());
        uses.note(&client_id, at(100));
        assert_eq!(uses.to_store(), []);
        uses.note(&client_id, at(120));
        assert_eq!(uses.to_store(), [(client_id, at(120))]);

        uses.forget_before(at(100_000));
        assert_eq!(uses.to_store().len(), 1, "a use that is not stored is kept");
        uses.mark_stored(&uses.to_store());
        uses.forget_before(at(100_000));
        assert_eq!(uses.0.len(), 0);
    }
}
