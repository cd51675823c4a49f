//! Usage report and audit log of a workspace, and keys and audit log of the whole deployment.

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{AccountId, Email},
    audit::{Actor, AuditEvent},
    page::{Page, PageRequest},
    tenancy::{ClientId, Credential, ProjectId, WorkspaceId},
};

use super::{Management, ManagementError};
use crate::actor::ManagementActor;
use crate::{
    actor::Administrator,
    keys::{self, KeyRotation, KeySummary, RotateError},
    ports::{
        activity::{UsageFilter, UsagePeriod, UsageRow},
        audit::AuditFilter,
        keys::KeyPurpose,
        store::StoreError,
    },
};

#[derive(Clone, Copy, Debug)]
pub struct UsageRequest {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub period: UsagePeriod,
    pub project: Option<ProjectId>,
}

#[derive(Clone, Debug)]
pub struct UsageReport {
    pub from: Timestamp,
    pub to: Timestamp,
    pub period: UsagePeriod,
    pub rows: Vec<UsageRow>,
}

/// Summary of a key. Only keys of callbacks and ID tokens have a `kid`, by which receivers find the public key.
#[derive(Clone, Debug)]
pub struct KeyWithKid {
    pub summary: KeySummary,
    pub kid: Option<String>,
}

/// Returns the default and the maximum time range of a usage report. The maximum limits the cost of the query.
fn time_ranges(period: UsagePeriod) -> (SignedDuration, SignedDuration) {
    let days = |n: i64| SignedDuration::from_hours(24 * n);
    match period {
        UsagePeriod::Hour => (days(1), days(31)),
        UsagePeriod::Day => (days(30), days(366)),
        UsagePeriod::Month => (days(365), days(3660)),
    }
}

impl Management {
    pub async fn usage_report(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        request: UsageRequest,
    ) -> Result<UsageReport, ManagementError> {
        let (default, max) = time_ranges(request.period);
        let to = request.to.unwrap_or_else(|| self.context.now());
        let from = match request.from {
            Some(from) => from,
            None => to.checked_sub(default).unwrap_or(Timestamp::MIN),
        };
        let invalid = |problem: String| ManagementError::InvalidMember { member: "from", problem };
        if from >= to {
            return Err(invalid("`from` must be before `to`".to_owned()));
        }
        if from.duration_until(to) > max {
            let days = max.as_hours() / 24;
            return Err(invalid(format!("`from` and `to` must be at most {days} days apart with this `group_by`")));
        }
        match request.project {
            Some(project) => self.project(manager, workspace, project).await.map(|_| ())?,
            None => self.authorize_workspace(manager, workspace).await?,
        }
        let filter = UsageFilter { from, to, period: request.period, project: request.project };
        let rows = self.store.usage(workspace, filter).await?;
        Ok(UsageReport { from, to, period: request.period, rows })
    }

    pub async fn list_audit_events(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, ManagementError> {
        self.authorize_workspace(manager, workspace).await?;
        Ok(self.store.list_audit_events(workspace, filter, page).await?)
    }

    /// Lists all keys, sorted by purpose and by the time when they become active.
    pub async fn list_keys(&self, _: &Administrator) -> Result<Vec<KeyWithKid>, StoreError> {
        let summaries = keys::list_key_summaries(&*self.store, &*self.context.clock).await?;
        let ring = self.context.keys();
        let kids: HashMap<_, _> =
            ring.callback_keys().map(|(id, _, public)| (id, &*public.kid)).chain(ring.id_token_kids()).collect();
        let with_kid =
            |summary: KeySummary| KeyWithKid { kid: kids.get(&summary.id).map(ToString::to_string), summary };
        Ok(summaries.into_iter().map(with_kid).collect())
    }

    /// Rotates the key of a purpose. An emergency rotation takes effect immediately.
    pub async fn rotate_key(
        &self,
        administrator: &Administrator,
        purpose: KeyPurpose,
        emergency: bool,
    ) -> Result<KeySummary, RotateError> {
        let (actor, request_id) = administrator.actor_and_request_id();
        let rotation = KeyRotation { purpose, emergency, actor, request_id };
        let master = self.context.control_plane.master_key();
        let successor =
            keys::rotate_key(rotation, &*self.store, master, &*self.context.clock, &*self.context.entropy).await?;
        self.context.refresh_after_write().await;
        Ok(successor)
    }

    /// Lists audit events of all workspaces and of the deployment, newest first.
    pub async fn list_all_audit_events(
        &self,
        _: &Administrator,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        self.store.list_all_audit_events(filter, page).await
    }

    /// Returns the email addresses of the accounts that are actors or targets of audit events.
    pub async fn emails_in_events(&self, events: &[AuditEvent]) -> Result<HashMap<AccountId, Email>, StoreError> {
        let actors = events.iter().filter_map(|event| match &event.actor {
            Actor::Account(account) => Some(*account),
            Actor::Credential(_) | Actor::Operator | Actor::System => None,
        });
        let targets = events.iter().filter(|event| event.action.target_type() == "account");
        let targets = targets.filter_map(|event| event.target.parse().ok());
        let accounts: BTreeSet<AccountId> = actors.chain(targets).collect();
        let accounts: Vec<AccountId> = accounts.into_iter().collect();
        Ok(self.store.emails_of_accounts(&accounts).await?.into_iter().collect())
    }

    /// Returns the email addresses of the accounts that created the credentials.
    pub async fn emails_of_creators(
        &self,
        credentials: &[Credential],
    ) -> Result<HashMap<AccountId, Email>, StoreError> {
        let accounts: BTreeSet<AccountId> = credentials
            .iter()
            .filter_map(|credential| match &credential.created_by {
                Actor::Account(account) => Some(*account),
                _ => None,
            })
            .collect();
        let accounts: Vec<AccountId> = accounts.into_iter().collect();
        Ok(self.store.emails_of_accounts(&accounts).await?.into_iter().collect())
    }

    /// Parses the actor of an audit filter: an email address, a client id, `operator` or `system`. `None`: there is no
    /// such actor.
    pub async fn find_actor(&self, text: &str) -> Result<Option<Actor>, StoreError> {
        if let Ok(email) = text.parse::<Email>() {
            let record = self.store.find_account_by_email(&email).await?;
            return Ok(record.map(|record| Actor::Account(record.account.id)));
        }
        Ok(match text {
            "operator" => Some(Actor::Operator),
            "system" => Some(Actor::System),
            other => other.parse::<ClientId>().ok().map(Actor::Credential),
        })
    }
}
