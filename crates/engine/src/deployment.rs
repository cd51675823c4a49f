//! Administration of the whole deployment: keys, and the audit log of all workspaces.

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
    keys::{self, KeyRotation, KeySummary, RotateError},
    ports::{AuditFilter, KeyPurpose, StoreError},
};

/// A key, with its `kid` if it is a callback key.
#[derive(Clone, Debug)]
pub struct KeyWithKid {
    pub summary: KeySummary,
    pub kid: Option<String>,
}

impl Engine {
    /// All keys, sorted by purpose and start of activity.
    pub async fn list_keys(&self, _: &Administrator) -> Result<Vec<KeyWithKid>, StoreError> {
        let summaries = keys::list_key_summaries(self.store(), self.clock()).await?;
        let ring = self.control_plane().keys();
        let kids: HashMap<_, _> = ring.callback_keys().map(|(id, _, public)| (id, &public.kid)).collect();
        let with_kid =
            |summary: KeySummary| KeyWithKid { kid: kids.get(&summary.id).map(ToString::to_string), summary };
        Ok(summaries.into_iter().map(with_kid).collect())
    }

    /// Rotates the key of a purpose, in an emergency with immediate effect.
    pub async fn rotate_key(
        &self,
        administrator: &Administrator,
        purpose: KeyPurpose,
        emergency: bool,
    ) -> Result<KeySummary, RotateError> {
        let (actor, request_id) = administrator.actor_and_request_id();
        let rotation = KeyRotation { purpose, emergency, actor, request_id };
        let master = self.control_plane().master_key();
        let successor = keys::rotate_key(rotation, self.store(), master, self.clock(), self.entropy()).await?;
        self.refresh_after_write().await;
        Ok(successor)
    }

    /// Audit events of all workspaces and of the deployment, newest first.
    pub async fn list_all_audit_events(
        &self,
        _: &Administrator,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        self.store().list_all_audit_events(filter, page).await
    }

    /// E-mail addresses of the accounts that occur in audit events.
    pub async fn emails_in_events(&self, events: &[AuditEvent]) -> Result<HashMap<AccountId, Email>, StoreError> {
        let actors = events.iter().filter_map(|event| match &event.actor {
            Actor::Account(account) => Some(*account),
            Actor::Credential(_) | Actor::Operator | Actor::System => None,
        });
        let targets = events.iter().filter(|event| event.action.target_type() == "account");
        let targets = targets.filter_map(|event| event.target.parse().ok());
        let accounts: BTreeSet<AccountId> = actors.chain(targets).collect();
        let accounts: Vec<AccountId> = accounts.into_iter().collect();
        Ok(self.store().emails_of_accounts(&accounts).await?.into_iter().collect())
    }

    /// Parses an audit actor: an e-mail address, a client id, `operator` or `system`. Returns `None` if there is none.
    pub async fn resolve_actor(&self, text: &str) -> Result<Option<Actor>, StoreError> {
        if let Ok(email) = text.parse::<Email>() {
            let record = self.store().find_account_by_email(&email).await?;
            return Ok(record.map(|record| Actor::Account(record.account.id)));
        }
        Ok(match text {
            "operator" => Some(Actor::Operator),
            "system" => Some(Actor::System),
            other => other.parse::<ClientId>().ok().map(Actor::Credential),
        })
    }
}
