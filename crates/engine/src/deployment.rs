//! What those who run a deployment see and change: its keys, and the audit log of all workspaces.

use std::collections::{BTreeSet, HashMap};

use ringtrue_domain::{
    account::{AccountId, Email},
    audit::{Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::ClientId,
};

use crate::{
    Engine,
    accounts::Administrator,
    keys::{self, KeySummary, RotateError, Rotation},
    ports::{AuditFilter, KeyPurpose, StoreError},
};

/// A key, and the name that receivers of callbacks know it by, if it is one of theirs.
#[derive(Clone, Debug)]
pub struct NamedKey {
    pub summary: KeySummary,
    pub kid: Option<String>,
}

impl Engine {
    /// All keys, by purpose and then by age.
    pub async fn keys(&self, _: &Administrator) -> Result<Vec<NamedKey>, StoreError> {
        let summaries = keys::key_summaries(self.store(), self.clock()).await?;
        let ring = self.control_plane().keys();
        let kids: HashMap<_, _> = ring.callback_keys().map(|(id, _, public)| (id, &public.kid)).collect();
        let named = |summary: KeySummary| NamedKey { kid: kids.get(&summary.id).map(ToString::to_string), summary };
        Ok(summaries.into_iter().map(named).collect())
    }

    /// Relieves the newest key of a purpose. In an emergency at once.
    pub async fn rotate_key(
        &self,
        administrator: &Administrator,
        purpose: KeyPurpose,
        emergency: bool,
    ) -> Result<KeySummary, RotateError> {
        let (actor, request_id) = administrator.named();
        let rotation = Rotation { purpose, emergency, actor, request_id };
        let master = self.control_plane().master();
        let made = keys::rotate(rotation, self.store(), master, self.clock(), self.entropy()).await?;
        self.see_own_change().await;
        Ok(made)
    }

    /// What happened in all workspaces, and in none. Newest first.
    pub async fn all_audit_events(
        &self,
        _: &Administrator,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        self.store().all_audit_events(filter, page).await
    }

    /// The addresses of the people whom events speak of: for those who may read the events.
    pub async fn people_in(&self, events: &[AuditEvent]) -> Result<HashMap<AccountId, Email>, StoreError> {
        let actors = events.iter().filter_map(|event| match &event.actor {
            Actor::Account(account) => Some(*account),
            Actor::Credential(_) | Actor::Operator | Actor::System => None,
        });
        let targets = events.iter().filter(|event| event.action.target_type() == "account");
        let targets = targets.filter_map(|event| event.target.parse().ok());
        let people: BTreeSet<AccountId> = actors.chain(targets).collect();
        let people: Vec<AccountId> = people.into_iter().collect();
        Ok(self.store().emails(&people).await?.into_iter().collect())
    }

    /// Who is meant by what somebody typed: an address, a client id, `operator` or `system`. `None`: nobody.
    pub async fn actor_called(&self, text: &str) -> Result<Option<Actor>, StoreError> {
        if let Ok(email) = text.parse::<Email>() {
            let known = self.store().account_by_email(&email).await?;
            return Ok(known.map(|known| Actor::Account(known.account.id)));
        }
        Ok(match text {
            "operator" => Some(Actor::Operator),
            "system" => Some(Actor::System),
            other => other.parse::<ClientId>().ok().map(Actor::Credential),
        })
    }
}
